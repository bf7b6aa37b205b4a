//! Leases under way, and the tokens that name them.
//!
//! A token's own bytes are the timer's packed key and the lease's random nonce. The nonce is what
//! fences: a lease that ended and was granted again has another one.

use std::time::Duration;

use duly_core::{Timer, Timestamp, settle::Held, shard::ShardId};
use duly_store::Token;
use rustc_hash::FxHashMap;

use crate::{
    format::checkpoint as layout,
    index::{Key, PackedKey},
};

/// A lease under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    pub(crate) nonce: u64,
    pub(crate) attempt: u32,
    /// The node that holds it; `None` for a consumer.
    pub(crate) node: Option<u64>,
    pub(crate) claimed_at: Timestamp,
    /// End by the boot-time clock.
    pub(crate) ends_boot_ms: u64,
    /// Time from the claim by the boot-time clock, for the cap on extending.
    pub(crate) claimed_boot_ms: u64,
    /// End by the wall clock, for people.
    pub(crate) until: Timestamp,
    /// How long it was granted for.
    pub(crate) lease_ms: u64,
}

impl Lease {
    /// As it stands in a checkpoint.
    pub(crate) fn in_checkpoint(&self, key: Key) -> layout::Lease {
        let Self { nonce, attempt, node, claimed_at, lease_ms, until, .. } = *self;
        layout::Lease { key: key.pack(), nonce, attempt, node, claimed_at, lease_ms, until }
    }

    /// The lease as the core asks for it.
    pub(crate) const fn held(&self, boot_ms: u64) -> Held {
        Held {
            nonce: self.nonce,
            attempt: self.attempt,
            claimed_at: self.claimed_at,
            held_for: Duration::from_millis(boot_ms.saturating_sub(self.claimed_boot_ms)),
            ends: self.node.is_none(),
        }
    }

    /// When it ends, by the wall clock; a node's has no end.
    pub(crate) fn leased_until(&self) -> Option<Timestamp> {
        self.node.is_none().then_some(self.until)
    }
}

/// Parts in which leases are kept and walked over: growing one copies so few that nobody notices.
pub(crate) const PARTS: usize = 256;

/// All leases, by timer.
#[derive(Debug)]
pub(crate) struct Leases {
    maps: Box<[FxHashMap<Key, Kept>]>,
    len: usize,
    /// How many have a head.
    heads: usize,
}

#[derive(Debug)]
struct Kept {
    lease: Lease,
    /// The timer as it was claimed, without payload and headers: an ack reads nothing.
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
        match self.maps[map_of(key)].insert(key, Kept { lease, head: None }) {
            Some(old) => self.heads -= usize::from(old.head.is_some()),
            None => self.len += 1,
        }
    }

    /// Keeps the head of a timer whose lease was just put, if there is room.
    pub(crate) fn keep_head(&mut self, key: Key, head: impl FnOnce() -> Timer) {
        if self.heads < HEADS_MAX
            && let Some(held) = self.maps[map_of(key)].get_mut(&key)
        {
            self.heads += usize::from(held.head.is_none());
            held.head = Some(Box::new(head()));
        }
    }

    /// The head of a leased timer, if it was kept.
    pub(crate) fn head(&self, key: Key) -> Option<&Timer> {
        self.maps[map_of(key)].get(&key)?.head.as_deref()
    }

    /// The head of a leased timer, if it was kept, for who is about to end the lease.
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

    /// Keys of one of the [`PARTS`].
    pub(crate) fn part(&self, part: usize) -> impl Iterator<Item = Key> {
        self.maps[part].keys().copied()
    }

    /// Keys of the leases of one part that `wanted` picks; there are [`PARTS`].
    pub(crate) fn keys_where(&self, part: usize, wanted: impl Fn(&Lease) -> bool) -> Vec<Key> {
        let leases = self.maps[part].iter();
        leases.filter(|(_, held)| wanted(&held.lease)).map(|(key, _)| *key).collect()
    }
}

fn map_of(key: Key) -> usize {
    usize::from(key.pack()[0]) % PARTS
}

const TOKEN_BYTES: usize = 20;

/// The token of a lease.
pub(crate) fn token(key: Key, nonce: u64) -> Token {
    let mut own = [0; TOKEN_BYTES];
    own[..12].copy_from_slice(&key.pack());
    own[12..].copy_from_slice(&nonce.to_le_bytes());
    Token::new(ShardId(0), &own)
}

/// What a token names; `None` when it is not one of this store's.
pub(crate) fn parse(token: &Token) -> Option<(Key, u64)> {
    if token.shard() != ShardId(0) || token.own().len() != TOKEN_BYTES {
        return None;
    }
    let (key, nonce) = token.own().split_at(12);
    let key = PackedKey::try_from(key).ok()?;
    Some((Key::unpack(key), u64::from_le_bytes(nonce.try_into().ok()?)))
}
