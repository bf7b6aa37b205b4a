//! TLS of the command line: the files that its options name.

use std::path::Path;

use duly_tls::{
    client::{OwnCertificate, http_client_config, system_authorities},
    files::{certificates, private_key},
};
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};

use crate::failure::Failure;

/// The content of the named files. It is read for a server without TLS too, so a wrong file is reported at once.
pub(super) struct Files<'a> {
    authorities: Vec<CertificateDer<'static>>,
    own: Option<(&'a Path, OwnCertificate)>,
}

impl<'a> Files<'a> {
    /// Reads the file of authorities, and that of the own certificate with its key.
    pub(super) fn read(
        ca_file: Option<&Path>,
        cert_file: Option<&'a Path>,
    ) -> Result<Self, Failure> {
        let authorities = match ca_file {
            None => Vec::new(),
            Some(path) => {
                certificates(path).map_err(|reason| unusable_authorities(path, &reason))?
            }
        };
        let own = |path: &'a Path| {
            let unusable = |reason: String| {
                let what = "it must hold a certificate and its private key in PEM";
                unusable_certificate(path, &format!("{what} ({reason})"))
            };
            let chain = certificates(path).map_err(unusable)?;
            Ok::<_, Failure>((path, (chain, private_key(path).map_err(unusable)?)))
        };
        Ok(Self { authorities, own: cert_file.map(own).transpose()? })
    }

    /// Returns the settings of connections that trust the system's authorities and those of the file.
    pub(super) fn client_config(self) -> Result<ClientConfig, Failure> {
        let mut trusted = match system_authorities() {
            Err(error) if self.authorities.is_empty() => {
                return Err(Failure::new(format_args!("{error}, or pass one with --ca-file")));
            }
            found => found.unwrap_or_else(|_| RootCertStore::empty()),
        };
        trusted.add_parsable_certificates(self.authorities);
        let (path, own) = self.own.unzip();
        http_client_config(trusted, own).map_err(|error| match path {
            Some(path) => unusable_certificate(
                path,
                "its private key does not belong to its certificate, or one of them cannot be used",
            ),
            None => Failure::new(error),
        })
    }
}

fn unusable_authorities(path: &Path, reason: &str) -> Failure {
    Failure::usage(format_args!("--ca-file (or DULY_CA_FILE) {}: {reason}", path.display()))
}

fn unusable_certificate(path: &Path, reason: &str) -> Failure {
    Failure::usage(format_args!("--cert-file (or DULY_CERT_FILE) {}: {reason}", path.display()))
}
