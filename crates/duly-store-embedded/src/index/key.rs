//! The key of a timer in an index: 72 bits of keyed hash and the number of its namespace.
//!
//! The hash is keyed per store. So an attacker cannot construct ids that collide, or that fall into one
//! part of an index. An entry stores only the hash (the *fingerprint*): each namespace has an index of
//! its own. A caller that reads the record compares the id in it.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

/// Largest namespace number.
pub(crate) const NAMESPACE_MAX: u32 = (1 << 24) - 1;

/// Marker for tests: an id has the key of the part in front of this marker.
#[cfg(test)]
pub(crate) const COLLIDES: &str = ".collides.";

/// The key of a timer: 72 bits of keyed hash and the number of its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    low: u64,
    /// High 8 bits of the fingerprint, then the namespace.
    high: u32,
}

/// A key in 12 bytes, for structures with very many keys.
pub(crate) type PackedKey = [u8; 12];

impl Key {
    /// Returns the key of an id, by the store's own hash key.
    pub(crate) fn of(hash_key: u128, namespace: u32, id: &str) -> Self {
        // Tests need ids that collide, and no such ids can be constructed.
        #[cfg(test)]
        let id = id.split_once(COLLIDES).map_or(id, |(with, _)| with);
        Self::of_bytes(hash_key, namespace, id.as_bytes())
    }

    /// Returns the key of bytes that are not a text, such as a delivery id.
    pub(crate) fn of_bytes(hash_key: u128, namespace: u32, id: &[u8]) -> Self {
        let mut hasher = SipHasher13::new_with_key(&hash_key.to_le_bytes());
        hasher.write(&namespace.to_le_bytes());
        hasher.write(id);
        let hash = hasher.finish128();
        #[expect(clippy::cast_possible_truncation)]
        let high = hash.h2 as u8;
        Self::from_parts(Fingerprint { low: hash.h1, high }, namespace)
    }

    pub(super) const fn from_parts(fingerprint: Fingerprint, namespace: u32) -> Self {
        debug_assert!(namespace <= NAMESPACE_MAX, "namespace numbers have 24 bits");
        Self { low: fingerprint.low, high: (fingerprint.high as u32) << 24 | namespace }
    }

    /// Returns the number of its namespace.
    pub(crate) const fn namespace(self) -> u32 {
        self.high & NAMESPACE_MAX
    }

    /// Returns the part of the key that an index stores.
    pub(super) const fn fingerprint(self) -> Fingerprint {
        Fingerprint { low: self.low, high: (self.high >> 24) as u8 }
    }

    pub(crate) fn pack(self) -> PackedKey {
        let mut packed = [0; 12];
        packed[..8].copy_from_slice(&self.low.to_le_bytes());
        packed[8..].copy_from_slice(&self.high.to_le_bytes());
        packed
    }

    pub(crate) fn unpack(packed: PackedKey) -> Self {
        let (low, high) = packed.split_at(8);
        Self {
            low: u64::from_le_bytes(low.try_into().expect("8 of 12 bytes")),
            high: u32::from_le_bytes(high.try_into().expect("4 of 12 bytes")),
        }
    }
}

/// The hash in a key. Its low part orders an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) low: u64,
    pub(super) high: u8,
}
