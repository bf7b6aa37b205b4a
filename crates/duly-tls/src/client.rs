//! Settings of connections to servers.
//!
//! Only this module builds a [`ClientConfig`], so the bound of [`chain`](crate::chain) holds for every one: deliveries, keys
//! of tokens, traces, Redis, and the calls of the command line. `cargo xtask tidy` refuses a second place. The Rust client
//! uses [`verifier`], because its gRPC library builds the rest.

use std::sync::Arc;

use rustls::{
    ClientConfig, Error, RootCertStore,
    client::danger::ServerCertVerifier,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use crate::chain::server_verifier;

/// The HTTP protocols of a handshake (ALPN), the preferred one first.
const HTTP: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The certificate that a client shows, with the chain behind it and its key.
pub type OwnCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Returns the certificate authorities of this machine, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
///
/// # Errors
/// The machine has no certificate of an authority that can be read.
pub fn system_authorities() -> Result<RootCertStore, Error> {
    let mut authorities = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    authorities.add_parsable_certificates(native.certs);
    if authorities.is_empty() {
        let reason = native.errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(Error::General(format!(
            "no certificates of authorities were found on this machine; install ca-certificates {reason}"
        )));
    }
    Ok(authorities)
}

/// Returns a verifier that trusts the servers with a certificate of one of these authorities. An empty store of authorities trusts no
/// server.
#[must_use]
pub fn verifier(authorities: RootCertStore) -> Arc<dyn ServerCertVerifier> {
    server_verifier(authorities, &Arc::new(ring::default_provider()))
}

/// Returns the settings of connections to servers with a certificate of one of these authorities.
///
/// # Errors
/// The key of the own certificate cannot be used or does not belong to it.
pub fn client_config(
    authorities: RootCertStore,
    own: Option<OwnCertificate>,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier(authorities));
    match own {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => builder.with_client_auth_cert(chain, key),
    }
}

/// Returns the settings of connections that speak HTTP.
///
/// # Errors
/// Those of [`client_config`].
pub fn http_client_config(
    authorities: RootCertStore,
    own: Option<OwnCertificate>,
) -> Result<ClientConfig, Error> {
    let mut config = client_config(authorities, own)?;
    config.alpn_protocols = HTTP.map(<[u8]>::to_vec).to_vec();
    Ok(config)
}
