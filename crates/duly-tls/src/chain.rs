//! Verification of a peer's certificates, with a bound on its cost.
//!
//! 1. The peer decides how many certificates it sends. The time to find a path to a trusted authority grows faster than
//!    their number: 120 took seconds, in one piece, on a thread that also serves timers.
//! 2. So a longer chain is refused before any of it is parsed. Chains in use have one to four certificates; the limits
//!    leave room for more.

use std::sync::Arc;

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, OtherError,
    RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// Most certificates behind that of the peer itself.
pub const INTERMEDIATES_MAX: usize = 8;
/// Most bytes of the whole chain.
pub const CHAIN_BYTES_MAX: usize = 16 << 10;

/// A chain that is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer sent {certificates} certificates of {bytes} bytes; allowed are {} of {CHAIN_BYTES_MAX} bytes",
    INTERMEDIATES_MAX + 1
)]
pub struct ChainTooLong {
    /// Certificates, that of the peer included.
    pub certificates: usize,
    /// Size of all of them.
    pub bytes: usize,
}

impl ChainTooLong {
    /// Finds the refusal of a chain in the error of a handshake. The error's own text does not show it.
    #[must_use]
    pub fn of(error: &Error) -> Option<Self> {
        match error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
                cause.downcast_ref().copied()
            }
            _ => None,
        }
    }
}

fn check(own: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>]) -> Result<(), Error> {
    let bytes = intermediates.iter().map(|it| it.len()).sum::<usize>() + own.len();
    if intermediates.len() <= INTERMEDIATES_MAX && bytes <= CHAIN_BYTES_MAX {
        return Ok(());
    }
    let refusal = ChainTooLong { certificates: intermediates.len() + 1, bytes };
    Err(CertificateError::Other(OtherError(Arc::new(refusal))).into())
}

/// Returns the verifier of the servers that this process connects to. Without any root it trusts none of them.
#[must_use]
pub fn server_verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider)).build();
    Arc::new(BoundedServers { verifier: verifier.ok(), provider: Arc::clone(provider) })
}

/// Returns the settings of HTTP connections to servers with certificates of the system's authorities.
///
/// # Errors
/// The system has no certificates, or the provider lacks an algorithm of the safe versions.
pub fn client_config(provider: Arc<CryptoProvider>) -> Result<ClientConfig, Error> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if roots.is_empty() {
        let reason = native.errors.first().map(ToString::to_string).unwrap_or_default();
        return Err(Error::General(format!(
            "no certificates of authorities were found on this machine; install ca-certificates {reason}"
        )));
    }
    let verifier = server_verifier(roots, &provider);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Returns the verifier of callers with a bound in front of `verifier`.
#[must_use]
pub fn client_verifier(verifier: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(BoundedClients(verifier))
}

#[derive(Debug)]
struct BoundedServers {
    /// `None` if there is no trusted authority.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for BoundedServers {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        check(end_entity, intermediates)?;
        let Some(verifier) = &self.verifier else {
            return Err(CertificateError::UnknownIssuer.into());
        };
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[derive(Debug)]
struct BoundedClients(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for BoundedClients {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check(end_entity, intermediates)?;
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use rustls::{crypto::ring::default_provider, server::WebPkiClientVerifier};

    use super::*;

    fn authority(name: &str) -> (Issuer<'static, KeyPair>, CertificateDer<'static>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (Issuer::new(params, key), certificate)
    }

    /// Returns a certificate with `intermediates` others that all have the name of its authority: each may be next on
    /// the path, behind each.
    fn chain(intermediates: usize) -> (CertificateDer<'static>, Vec<CertificateDer<'static>>) {
        let (mut issuer, _) = authority("same");
        let mut others = Vec::new();
        for _ in 0..intermediates {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(DnType::CommonName, "same");
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            others.push(params.signed_by(&key, &issuer).unwrap().der().clone());
            issuer = Issuer::new(params, key);
        }
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (own.signed_by(&key, &issuer).unwrap().der().clone(), others)
    }

    fn as_server(own: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority("trusted").1).unwrap();
        let verifier = server_verifier(roots, &Arc::new(default_provider()));
        let name = ServerName::try_from("localhost").unwrap();
        verifier.verify_server_cert(own, others, &name, &[], UnixTime::now()).map(drop)
    }

    fn as_client(own: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), Error> {
        let mut roots = RootCertStore::empty();
        roots.add(authority("trusted").1).unwrap();
        let provider = Arc::new(default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        let verifier = client_verifier(verifier.build().unwrap());
        verifier.verify_client_cert(own, others, UnixTime::now()).map(drop)
    }

    #[test]
    fn p10_longer_chains_are_refused_in_both_directions() {
        for (intermediates, is_read) in
            [(0, true), (INTERMEDIATES_MAX, true), (9, false), (120, false)]
        {
            let (own, others) = chain(intermediates);
            for verify in [as_server, as_client] {
                let began = Instant::now();
                let error = verify(&own, &others).unwrap_err();
                assert_eq!(ChainTooLong::of(&error).is_none(), is_read, "{error:?}");
                // The build of the tests is not optimized, so a chain that is read takes long too.
                assert!(is_read || began.elapsed() < Duration::from_secs(1), "{intermediates}");
            }
        }
    }

    #[test]
    fn a_chain_of_too_many_bytes_is_refused() {
        let garbage = CertificateDer::from(vec![0; CHAIN_BYTES_MAX]);
        let own = chain(0).0;
        let refusal = ChainTooLong::of(&as_server(&own, &[garbage]).unwrap_err()).unwrap();
        assert_eq!(refusal.bytes, CHAIN_BYTES_MAX + own.len());
        let text = "the peer sent 2 certificates of 16";
        assert!(refusal.to_string().starts_with(text), "{refusal}");
    }

    #[test]
    fn a_chain_to_a_root_is_accepted_and_without_roots_none_is() {
        let (issuer, root) = authority("root");
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let own = own.signed_by(&key, &issuer).unwrap().der().clone();
        let provider = Arc::new(default_provider());
        let name = ServerName::try_from("localhost").unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(root).unwrap();
        let verify = |roots| {
            let verifier = server_verifier(roots, &provider);
            verifier.verify_server_cert(&own, &[], &name, &[], UnixTime::now()).map(drop)
        };
        assert_eq!(verify(roots), Ok(()));
        assert_eq!(verify(RootCertStore::empty()), Err(CertificateError::UnknownIssuer.into()));
    }
}
