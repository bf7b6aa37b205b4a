//! Verifies the signatures of tokens with *ring*, which is the cryptography of the rest of the server.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils},
    errors::{ErrorKind, Result},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use signature::{Error, Verifier};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err::<Box<dyn JwtSigner>, _>(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes this the cryptography of tokens in this process.
pub(super) fn install() {
    // It is the same one if it was installed before.
    PROVIDER.install_default().ok();
}

struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    match algorithm {
        Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA
            if algorithm.family() == key.family() =>
        {
            Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.clone() }))
        }
        _ => Err(ErrorKind::InvalidAlgorithm.into()),
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        const RSA: &RsaParameters = &RSA_PKCS1_2048_8192_SHA256;
        let unparsed = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature)
        };
        let verified = match (self.algorithm, self.key.kind()) {
            (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(RSA, message, signature)
            }
            (Algorithm::RS256, DecodingKeyKind::SecretOrDer(key)) => unparsed(RSA, key),
            (Algorithm::ES256, DecodingKeyKind::SecretOrDer(key)) => {
                unparsed(&ECDSA_P256_SHA256_FIXED, key)
            }
            (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(key)) => unparsed(&ED25519, key),
            _ => return Err(Error::new()),
        };
        verified.map_err(|_| Error::new())
    }
}
