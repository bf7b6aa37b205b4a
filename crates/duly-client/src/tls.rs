//! TLS: rustls with ring, authorities of the system or your own, and an optional client certificate.

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

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
        let mut config = ClientTlsConfig::new();
        config = match self.authorities {
            Some(pem) => {
                check(&pem)?;
                config.ca_certificate(Certificate::from_pem(pem))
            }
            None => config.with_native_roots(),
        };
        if let Some((certificate, key)) = self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        endpoint.tls_config(config).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let allowed = format!(
                "readable: a certificate and its key as PEM, and an authority to trust ({})",
                cause.unwrap_or_else(|| error.to_string())
            );
            Invalid::unseen("tls", allowed)
        })
    }
}

/// Checks that these bytes are certificates of authorities. The TLS library skips those that it cannot
/// read, and then trusts none.
fn check(pem: &[u8]) -> Result<(), Invalid> {
    let refuse = |why: &str| {
        Invalid::unseen("ca_certificate", format!("one or more certificates as PEM ({why})"))
    };
    let mut authorities = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| refuse(&error.to_string()))?;
        authorities.add(certificate).map_err(|error| refuse(&error.to_string()))?;
    }
    if authorities.is_empty() { Err(refuse("it has none")) } else { Ok(()) }
}
