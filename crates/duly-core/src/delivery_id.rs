//! The delivery id: the receiver's idempotency key (P7).
//!
//! It is 128 bits of xxh3 over the namespace and the id, each with its length, the incarnation and the
//! occurrence. It is written as 26 characters of base32 without padding. Nothing that changes between
//! attempts is part of it, so it stays the same after retry, lease loss, restart, redrive, export and
//! import. The definition is frozen.

use std::fmt;

use data_encoding::BASE32_NOPAD;

use crate::{Incarnation, invalid::Invalid, shard::hasher_of};

/// Characters of the text form.
const CHARS: usize = 26;

/// The name of one firing, the same in every attempt.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(u128);

impl DeliveryId {
    /// Returns the delivery id of an occurrence of a timer.
    pub fn of(namespace: &str, id: &str, incarnation: Incarnation, occurrence: u32) -> Self {
        let mut hasher = hasher_of(namespace, id);
        hasher.update(&incarnation.0.to_le_bytes());
        hasher.update(&occurrence.to_le_bytes());
        Self(hasher.digest128())
    }

    /// Parses the text form.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        BASE32_NOPAD
            .decode(text.as_bytes())
            .ok()
            .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())
            .map(|bytes| Self(u128::from_be_bytes(bytes)))
            .ok_or_else(|| Invalid::new("", text, "a delivery id: 26 characters of A-Z 2-7"))
    }

    /// Returns the 128 bits.
    pub const fn to_u128(self) -> u128 {
        self.0
    }

    /// Creates a delivery id from its 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns 64 of the bits, as a seed for jitter.
    pub const fn seed(self) -> u64 {
        (self.0 >> 64) as u64 ^ self.0 as u64
    }
}

impl fmt::Display for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; CHARS];
        BASE32_NOPAD.encode_mut(&self.0.to_be_bytes(), &mut text);
        f.write_str(str::from_utf8(&text).expect("base32 is ASCII"))
    }
}

impl fmt::Debug for DeliveryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p7_text_form_is_stable_ascii_without_full_stop() {
        let id = DeliveryId::of("orders", "42", Incarnation(7), 0);
        let text = id.to_string();
        assert_eq!(text, GOLDEN);
        assert_eq!(text.len(), 26);
        assert_eq!(DeliveryId::parse(&text).unwrap(), id);
    }

    #[test]
    fn p7_every_part_counts() {
        let base = DeliveryId::of("a", "bc", Incarnation(1), 0);
        for other in [
            DeliveryId::of("ab", "c", Incarnation(1), 0),
            DeliveryId::of("a", "bc", Incarnation(2), 0),
            DeliveryId::of("a", "bc", Incarnation(1), 1),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn refuses_other_text() {
        for text in [
            "",
            "A",
            "aaaaaaaaaaaaaaaaaaaaaaaaaa",
            "AAAAAAAAAAAAAAAAAAAAAAAAA.",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ] {
            assert!(DeliveryId::parse(text).is_err(), "{text}");
        }
    }

    const GOLDEN: &str = "4GRYPEC2O6BKP3YNZHKVBO5LIY";
}
