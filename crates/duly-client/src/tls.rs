//! TLS: rustls with ring, authorities of the system or your own, and an optional client certificate.

use duly_tls::client::{system_authorities, verifier};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tonic::transport::{ClientTlsConfig, Endpoint, Identity};

use crate::error::Invalid;

/// The client certificate, and the trusted authorities.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Configures an endpoint to use TLS.
    pub(crate) fn apply(self, endpoint: Endpoint) -> Result<Endpoint, Invalid> {
        let authorities = match self.authorities {
            Some(pem) => read(&pem)?,
            None => system_authorities().map_err(|error| {
                Invalid::unseen("tls", format!("used where the system has authorities ({error})"))
            })?,
        };
        let mut config = ClientTlsConfig::new();
        if let Some((certificate, key)) = self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        endpoint.tls_config_with_verifier(config, verifier(authorities)).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let allowed = format!(
                "readable: a certificate and its key as PEM, and an authority to trust ({})",
                cause.unwrap_or_else(|| error.to_string())
            );
            Invalid::unseen("tls", allowed)
        })
    }
}

/// Reads certificates of authorities.
fn read(pem: &[u8]) -> Result<RootCertStore, Invalid> {
    let refuse = |why: &str| {
        Invalid::unseen("ca_certificate", format!("one or more certificates as PEM ({why})"))
    };
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| refuse(&error.to_string()))?;
        authorities.add(certificate).map_err(|error| refuse(&error.to_string()))?;
    }
    if authorities.is_empty() { Err(refuse("it has none")) } else { Ok(authorities) }
}
