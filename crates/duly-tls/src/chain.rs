//! Verification of a peer's certificates, with a bound on its cost.
//!
//! Kind: any work whose cost a peer decides has a bound before the work starts.
//!
//! 1. The peer decides how many certificates it sends, and their names. The search of a path to a trusted authority tries
//!    each certificate that has the name of an issuer, behind each: 8 of one name make about 110,000 partial paths, in one piece, on a
//!    thread that also serves timers. The library's own limits are 200,000 steps and 100 signatures.
//! 2. So a chain has a bound (`cost`) on its number, its size, the steps of the search and the signatures that the search
//!    may check. The bound is checked first, without any signature; a chain beyond the bound is refused.
//! 3. Worst case of a handshake: [`SIGNATURES_MAX`] signatures of certificates, and that of the handshake itself. The dearest
//!    chain of the tests (25 signatures) costs 2.4 ms with keys of P-256 and 21 ms with P-384, measured in a release build. Each path is
//!    checked from its authority down, and ends at the first wrong signature. So only a peer with certificates that a trusted
//!    authority signed for authorities below it can make a handshake so dear. The chain of a stranger costs a signature
//!    for each path: at most 16, or 13 ms with P-384. That is short enough for the threads that serve timers and probes.

mod cost;

use std::sync::Arc;

pub use cost::{CHAIN_BYTES_MAX, ChainRefused, INTERMEDIATES_MAX, SIGNATURES_MAX, STEPS_MAX};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// Returns the verifier of the servers that this process connects to. Without any root it trusts none of them.
pub(crate) fn server_verifier(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    let authorities = roots.subjects();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider)).build();
    let provider = Arc::clone(provider);
    Arc::new(BoundedServers { verifier: verifier.ok(), authorities, provider })
}

/// Returns the verifier of callers with a bound in front of `verifier`, whose hints are the names of its authorities.
#[must_use]
pub fn client_verifier(verifier: Arc<dyn ClientCertVerifier>) -> Arc<dyn ClientCertVerifier> {
    Arc::new(BoundedClients(verifier))
}

#[derive(Debug)]
struct BoundedServers {
    /// `None` if there is no trusted authority.
    verifier: Option<Arc<WebPkiServerVerifier>>,
    /// Names of the trusted authorities.
    authorities: Vec<DistinguishedName>,
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
        cost::check(end_entity, intermediates, &self.authorities)?;
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
        cost::check(end_entity, intermediates, self.0.root_hint_subjects())?;
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
mod tests;
