//! The set of keys of an issuer (JWKS): only the keys that can verify a token count.
//!
//! A key that is of no use must not take the place of one that is: a set of such keys would end every token. So a key
//! counts only if it is for signatures, if its `alg` is an allowed algorithm of its kind, and if it is strong enough
//! and can be decoded as the verification does.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm,
    jwk::{
        AlgorithmParameters, CommonParameters, EllipticCurve, Jwk, JwkSet, KeyAlgorithm,
        KeyOperations, PublicKeyUse,
    },
};
use ring::{
    agreement::{ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey, agree_ephemeral},
    rand::SystemRandom,
};
use serde::Deserialize;
use serde_json::Value;

/// Bits of the modulus of an RSA key.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// Most bits of the exponent of an RSA key.
const EXPONENT_BITS_MAX: usize = 33;
/// Bytes of a coordinate of P-256, and of a key of Ed25519.
const COORDINATE_BYTES: usize = 32;

/// Reads a set of keys. Keys that can verify no token with one of the algorithms are left out.
///
/// # Errors
/// The reason for which the set cannot be used: it has no other keys, or is none.
pub(super) fn parse(bytes: &[u8], algorithms: &[Algorithm]) -> Result<JwkSet, String> {
    #[derive(Deserialize)]
    struct AnyKeys {
        keys: Vec<Value>,
    }
    let all: AnyKeys =
        serde_json::from_slice(bytes).map_err(|error| format!("no set of keys (JWKS): {error}"))?;
    let count = all.keys.len();
    let known = all.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    let keys: Vec<_> = known.filter(|key| is_usable(key, algorithms)).collect();
    if keys.is_empty() {
        return Err(format!(
            "none of its {count} keys is for signatures, of an allowed algorithm, strong enough and whole"
        ));
    }
    Ok(JwkSet { keys })
}

/// Returns `true` if a key can verify a token with one of the algorithms.
fn is_usable(key: &Jwk, algorithms: &[Algorithm]) -> bool {
    let (algorithm, is_whole) = match &key.algorithm {
        AlgorithmParameters::RSA(rsa) => (Algorithm::RS256, is_rsa(&rsa.n, &rsa.e)),
        AlgorithmParameters::EllipticCurve(point) => {
            (Algorithm::ES256, point.curve == EllipticCurve::P256 && is_point(&point.x, &point.y))
        }
        AlgorithmParameters::OctetKeyPair(pair) => {
            let is_whole = coordinate(&pair.x).is_some();
            (Algorithm::EdDSA, pair.curve == EllipticCurve::Ed25519 && is_whole)
        }
        _ => return false,
    };
    algorithms.contains(&algorithm) && is_for(&key.common, algorithm) && is_whole
}

/// Returns `true` for a key to verify signatures with an algorithm.
fn is_for(common: &CommonParameters, algorithm: Algorithm) -> bool {
    let CommonParameters { public_key_use, key_operations, key_algorithm, .. } = common;
    public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature)
        && key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify))
        && key_algorithm.is_none_or(|it| it == KeyAlgorithm::from(algorithm))
}

/// Returns `true` for a public key of RSA that *ring* verifies with.
fn is_rsa(modulus: &str, exponent: &str) -> bool {
    let (Some(modulus), Some(exponent)) = (odd_number(modulus), odd_number(exponent)) else {
        return false;
    };
    MODULUS_BITS.contains(&bits(&modulus))
        && exponent != [1]
        && bits(&exponent) <= EXPONENT_BITS_MAX
}

/// Returns the bytes of an odd number that has no leading zero.
fn odd_number(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let is_odd = bytes.last().is_some_and(|last| last % 2 == 1);
    (is_odd && bytes[0] != 0).then_some(bytes)
}

/// Returns the length of a number without leading zero bytes.
fn bits(number: &[u8]) -> usize {
    let unused = number.first().map_or(0, |first| first.leading_zeros() as usize);
    number.len() * 8 - unused
}

/// Returns `true` for a point of P-256. An agreement with it checks this.
fn is_point(x: &str, y: &str) -> bool {
    let (Some(x), Some(y)) = (coordinate(x), coordinate(y)) else { return false };
    let point = [&[4][..], &x, &y].concat();
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new());
    own.is_ok_and(|own| {
        agree_ephemeral(own, &UnparsedPublicKey::new(&ECDH_P256, point), |_| ()).is_ok()
    })
}

/// Returns the bytes of a coordinate.
fn coordinate(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok().filter(|bytes| bytes.len() == COORDINATE_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::tokens::tests::Issuer;

    /// Returns `true` if a set of this key alone can be used.
    fn is_good(key: &Value, algorithms: &[Algorithm]) -> bool {
        parse(json!({ "keys": [key] }).to_string().as_bytes(), algorithms).is_ok()
    }

    const ALL: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

    fn rsa(bytes: usize, first: u8, last: u8) -> Value {
        let mut modulus = vec![0x5a; bytes];
        (modulus[0], modulus[bytes - 1]) = (first, last);
        json!({"kty": "RSA", "n": URL_SAFE_NO_PAD.encode(modulus), "e": "AQAB"})
    }

    fn with(key: &Value, field: &str, value: Value) -> Value {
        let mut changed = key.clone();
        changed[field] = value;
        changed
    }

    #[test]
    fn p10_only_keys_that_verify_tokens_count() {
        let good = rsa(256, 0x80, 1);
        let point = Issuer::new().jwks("one")["keys"][0].clone();
        let pair = json!({"kty": "OKP", "crv": "Ed25519", "x": URL_SAFE_NO_PAD.encode([7; 32])});
        let other_y = Issuer::new().jwks("one")["keys"][0]["y"].clone();
        for (key, algorithm) in [(&good, "RS256"), (&point, "ES256"), (&pair, "EdDSA")] {
            assert!(is_good(key, &ALL), "{key}");
            assert!(is_good(&with(key, "alg", json!(algorithm)), &ALL), "{algorithm}");
            assert!(is_good(&with(key, "key_ops", json!(["verify"])), &ALL), "{algorithm}");
            let others: Vec<_> =
                ALL.into_iter().filter(|it| format!("{it:?}") != algorithm).collect();
            assert!(!is_good(key, &others), "{algorithm} is not allowed");
            for other in ["HS256", "none", "RS512", "PS256", "ES384", "RSA-OAEP", ""] {
                assert!(!is_good(&with(key, "alg", json!(other)), &ALL), "{algorithm}: {other}");
            }
            assert!(!is_good(&with(key, "use", json!("enc")), &ALL), "{algorithm}");
            assert!(!is_good(&with(key, "key_ops", json!(["encrypt"])), &ALL), "{algorithm}");
        }
        assert!(is_good(&rsa(1_024, 0xff, 3), &ALL), "8192 bits");
        for weak in [rsa(256, 0x7f, 1), rsa(128, 0x80, 1), rsa(1_025, 1, 1), rsa(256, 0x80, 2)] {
            assert!(!is_good(&weak, &ALL), "{weak}");
        }
        assert!(!is_good(&rsa(257, 0, 1), &ALL), "a leading zero");
        for text in ["AQAB", "!!", "", "A", "AA"] {
            for (key, field) in
                [(&good, "n"), (&point, "x"), (&point, "y"), (&pair, "x"), (&point, "crv")]
            {
                assert!(!is_good(&with(key, field, json!(text)), &ALL), "{field}: {text}");
            }
        }
        for exponent in ["", "AQ", "AA", "BA", "!!", "_____w_"] {
            assert!(!is_good(&with(&good, "e", json!(exponent)), &ALL), "e: {exponent}");
        }
        assert!(!is_good(&with(&point, "y", other_y), &ALL), "it is not on the curve");
        assert!(!is_good(&with(&point, "crv", json!("P-384")), &ALL));
        assert!(!is_good(&with(&pair, "crv", json!("P-256")), &ALL));
        assert!(!is_good(&json!({"kty": "oct", "k": "AAAA"}), &ALL));
    }
}
