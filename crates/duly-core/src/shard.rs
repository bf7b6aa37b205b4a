//! The shard of a timer: a frozen hash.
//!
//! `shard = xxh3_64(len(namespace) as u32 LE, namespace, len(id) as u32 LE, id) mod shards`. The lengths are
//! part of the hash, so that two pairs never hash the same bytes. A change of this function would move every
//! timer of every deployment: it is part of the storage format.

use xxhash_rust::xxh3::Xxh3Default;

/// The number of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ShardId(pub u16);

/// Returns the shard of a timer in a deployment of `shards` shards (at least 1).
pub fn shard_of(namespace: &str, id: &str, shards: u16) -> ShardId {
    let shard = hasher_of(namespace, id).digest() % u64::from(shards.max(1));
    ShardId(u16::try_from(shard).unwrap_or(0))
}

/// Returns a hasher that has read a namespace and an id, each with its length.
pub(crate) fn hasher_of(namespace: &str, id: &str) -> Xxh3Default {
    let mut hasher = Xxh3Default::new();
    for part in [namespace, id] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        hasher.update(&length.to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_frozen() {
        let check = |namespace, id, expected| {
            assert_eq!(shard_of(namespace, id, 64).0, expected, "{namespace} {id}");
        };
        check("orders", "42", GOLDEN[0]);
        check("order", "s42", GOLDEN[1]);
        check("a", "", GOLDEN[2]);
        assert_eq!(shard_of("orders", "42", 1).0, 0);
    }

    const GOLDEN: [u16; 3] = [33, 29, 3];
}
