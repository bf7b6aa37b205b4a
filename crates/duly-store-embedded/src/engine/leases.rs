//! Leases under way, and their tokens.
//!
//! The own bytes of a token are the timer's packed key and the lease's random nonce. The nonce is the
//! fence: a lease that ended and was granted again has another one.

use std::time::Duration;

use duly_core::{Timer, Timestamp, settle::HeldLease, shard::ShardId};
use duly_store::Token;
use rustc_hash::FxHashMap;

use crate::{
    format::record,
    index::{Key, PackedKey},
};

/// A lease under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    /// The lease as it was granted, extended or stopped.
    pub(crate) granted: record::Lease,
    /// End by the boot-time clock.
    pub(crate) ends_boot_ms: u64,
    /// Time of the claim by the boot-time clock, for the limit of extensions.
    pub(crate) claimed_boot_ms: u64,
}

impl Lease {
    /// Returns its form for the core.
    pub(crate) const fn held(&self, boot_ms: u64) -> HeldLease {
        HeldLease {
            nonce: self.granted.nonce,
            attempt: self.granted.attempt,
            claimed_at: self.granted.claimed_at,
            held_for: Duration::from_millis(boot_ms.saturating_sub(self.claimed_boot_ms)),
            ends: self.granted.node.is_none(),
            stopped: self.granted.stopped,
        }
    }

    /// Returns its end by the wall clock; `None` for a node, whose lease has no end.
    pub(crate) fn leased_until(&self) -> Option<Timestamp> {
        self.granted.node.is_none().then_some(self.granted.until)
    }
}

/// Number of maps over which leases are spread. So the growth of one map copies few of them, and a walk
/// visits one map at a time.
pub(crate) const PARTS: usize = 256;

/// All leases, by timer.
#[derive(Debug)]
pub(crate) struct Leases {
    maps: Box<[FxHashMap<Key, KeptLease>]>,
    len: usize,
    /// Number of leases with a head.
    heads: usize,
}

#[derive(Debug)]
struct KeptLease {
    lease: Lease,
    /// Timer as claimed, without payload and headers, so that an ack reads no record.
    head: Option<Box<Timer>>,
}

/// Most heads that are kept.
const HEADS_MAX: usize = 65_536;

impl Default for Leases {
    fn default() -> Self {
        let maps = (0..PARTS).map(|_| FxHashMap::default()).collect();
        Self { maps, len: 0, heads: 0 }
    }
}

impl Leases {
    pub(crate) fn get(&self, key: Key) -> Option<&Lease> {
        self.maps[map_of(key)].get(&key).map(|held| &held.lease)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Lease> {
        self.maps[map_of(key)].get_mut(&key).map(|held| &mut held.lease)
    }

    pub(crate) fn put(&mut self, key: Key, lease: Lease) {
        match self.maps[map_of(key)].insert(key, KeptLease { lease, head: None }) {
            Some(old) => self.heads -= usize::from(old.head.is_some()),
            None => self.len += 1,
        }
    }

    /// Keeps the head of a timer whose lease was just put, unless `HEADS_MAX` are kept.
    pub(crate) fn keep_head(&mut self, key: Key, head: impl FnOnce() -> Timer) {
        if self.heads < HEADS_MAX
            && let Some(held) = self.maps[map_of(key)].get_mut(&key)
        {
            self.heads += usize::from(held.head.is_none());
            held.head = Some(Box::new(head()));
        }
    }

    /// Returns the head of a leased timer, if it was kept.
    pub(crate) fn head(&self, key: Key) -> Option<&Timer> {
        self.maps[map_of(key)].get(&key)?.head.as_deref()
    }

    /// Takes out the head of a leased timer, if it was kept, for a caller that is about to end the lease.
    pub(crate) fn take_head(&mut self, key: Key) -> Option<Box<Timer>> {
        let head = self.maps[map_of(key)].get_mut(&key)?.head.take()?;
        self.heads -= 1;
        Some(head)
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Lease> {
        let held = self.maps[map_of(key)].remove(&key)?;
        self.len -= 1;
        self.heads -= usize::from(held.head.is_some());
        Some(held.lease)
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the keys of one of the [`PARTS`].
    pub(crate) fn part(&self, part: usize) -> impl Iterator<Item = Key> {
        self.maps[part].keys().copied()
    }

    /// Returns the keys of those leases of one of the [`PARTS`] that `wanted` selects.
    pub(crate) fn keys_where(&self, part: usize, wanted: impl Fn(&Lease) -> bool) -> Vec<Key> {
        let leases = self.maps[part].iter();
        leases.filter(|(_, held)| wanted(&held.lease)).map(|(key, _)| *key).collect()
    }
}

fn map_of(key: Key) -> usize {
    usize::from(key.pack()[0]) % PARTS
}

const TOKEN_BYTES: usize = 20;

/// Creates the token of a lease.
pub(crate) fn token(key: Key, nonce: u64) -> Token {
    let mut own = [0; TOKEN_BYTES];
    own[..12].copy_from_slice(&key.pack());
    own[12..].copy_from_slice(&nonce.to_le_bytes());
    Token::new(ShardId(0), &own)
}

/// Parses a token; `None` if it is not a token of this store.
pub(crate) fn parse(token: &Token) -> Option<(Key, u64)> {
    if token.shard() != ShardId(0) || token.own().len() != TOKEN_BYTES {
        return None;
    }
    let (key, nonce) = token.own().split_at(12);
    let key = PackedKey::try_from(key).ok()?;
    Some((Key::unpack(key), u64::from_le_bytes(nonce.try_into().ok()?)))
}
