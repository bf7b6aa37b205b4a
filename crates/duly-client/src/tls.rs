//! TLS: rustls with ring, the authorities of the system or your own, a certificate of the client.

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::error::Invalid;

/// What is shown and what is trusted.
#[derive(Clone, Default)]
pub(crate) struct Tls {
    pub(crate) authorities: Option<Vec<u8>>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Tls {
    /// Has an endpoint speak TLS.
    pub(crate) fn apply(self, endpoint: Endpoint) -> Result<Endpoint, Invalid> {
        let mut config = ClientTlsConfig::new();
        config = match self.authorities {
            Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
            None => config.with_native_roots(),
        };
        if let Some((certificate, key)) = self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        endpoint.tls_config(config).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let allowed = format!(
                "readable: certificates and keys as PEM, and an authority to trust ({})",
                cause.unwrap_or_else(|| error.to_string())
            );
            Invalid::unseen("tls", allowed)
        })
    }
}
