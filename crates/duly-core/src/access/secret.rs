//! The text of a key, and the hash of its secret.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use super::{KEY_ID_CHARS, KeyId};
use crate::Invalid;

/// Bytes of a secret.
pub const SECRET_BYTES: usize = 32;
/// Begins every key, so that scanners for secrets find it.
const PREFIX: &str = "duly_";
/// Characters of a secret in base64url.
const SECRET_CHARS: usize = 43;
/// Characters of the checksum in hexadecimal.
const CHECKSUM_CHARS: usize = 8;

/// A key as its caller presents it. `Debug` does not show the secret.
#[derive(Clone)]
pub struct PresentedKey {
    /// Its id.
    pub id: KeyId,
    secret: [u8; SECRET_BYTES],
}

impl PresentedKey {
    /// Creates a key from an id and random bytes.
    pub const fn new(id: KeyId, secret: [u8; SECRET_BYTES]) -> Self {
        Self { id, secret }
    }

    /// Returns its secret.
    pub const fn secret(&self) -> [u8; SECRET_BYTES] {
        self.secret
    }

    /// Returns the text that the caller keeps.
    pub fn reveal(&self) -> String {
        let secret = data_encoding::BASE64URL_NOPAD.encode(&self.secret);
        let text = format!("{PREFIX}{}_{secret}", self.id);
        format!("{text}_{:08x}", crc32c::crc32c(text.as_bytes()))
    }

    /// Returns the hash that Duly keeps of its secret.
    pub fn hash(&self) -> SecretHash {
        SecretHash(hmac_sha256::Hash::hash(&self.secret))
    }
}

impl fmt::Debug for PresentedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PresentedKey({})", self.id)
    }
}

impl FromStr for PresentedKey {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (signed, checksum) =
                text.split_at_checked(text.len().checked_sub(CHECKSUM_CHARS)?)?;
            let signed = signed.strip_suffix('_')?;
            if checksum != format!("{:08x}", crc32c::crc32c(signed.as_bytes())) {
                return None;
            }
            let (id, secret) = signed.strip_prefix(PREFIX)?.split_at_checked(KEY_ID_CHARS)?;
            let secret = secret.strip_prefix('_').filter(|secret| secret.len() == SECRET_CHARS)?;
            let secret = data_encoding::BASE64URL_NOPAD.decode(secret.as_bytes()).ok()?;
            Some(Self { id: KeyId::new(id).ok()?, secret: secret.try_into().ok()? })
        };
        let allowed = "a whole key as it was printed: \"duly_\", its id, its secret and a checksum";
        read().ok_or_else(|| Invalid::unseen("", allowed))
    }
}

/// The SHA-256 of a secret.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SecretHash(pub(super) [u8; 32]);

impl PartialEq for SecretHash {
    /// Takes the same time wherever the hashes differ.
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

impl From<SecretHash> for String {
    fn from(hash: SecretHash) -> Self {
        data_encoding::HEXLOWER.encode(&hash.0)
    }
}

impl TryFrom<String> for SecretHash {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        let hash = data_encoding::HEXLOWER.decode(text.as_bytes()).ok();
        let hash = hash.and_then(|hash| hash.try_into().ok());
        hash.map(Self).ok_or_else(|| Invalid::unseen("secrets", "SHA-256 in hexadecimal"))
    }
}
