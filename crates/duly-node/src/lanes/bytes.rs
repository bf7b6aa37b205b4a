//! Limits the memory of the push attempts under way: the bytes of their payloads and headers (P10).
//!
//! Workers limit the number of attempts; this limits their bytes. The rule is the same as for workers: a
//! namespace gets more only while it holds less than twice the free bytes, times its weight. So large
//! payloads to a receiver that hangs leave memory for the other namespaces (P9).

use duly_core::NamespaceName;
use rustc_hash::FxHashMap;

use super::{
    Lanes,
    fair_share::{LaneLimits, NAMESPACE_PART},
};

/// The bytes of attempts under way.
#[derive(Debug)]
pub(super) struct AttemptBytes {
    max: u64,
    held: u64,
    /// Bytes by namespace; absent when it holds none.
    namespaces: FxHashMap<NamespaceName, u64>,
}

impl AttemptBytes {
    pub(super) fn new(max: u64) -> Self {
        Self { max, held: 0, namespaces: FxHashMap::default() }
    }

    /// Returns the bytes that are free.
    pub(super) const fn free(&self) -> u64 {
        self.max.saturating_sub(self.held)
    }

    /// Returns `true` if a namespace may take more.
    pub(super) fn has_capacity(&self, namespace: &NamespaceName, limits: LaneLimits) -> bool {
        let part = limits.weight.saturating_mul(NAMESPACE_PART) as u64;
        let own = self.namespaces.get(namespace).copied().unwrap_or(0);
        own < self.free().saturating_mul(part)
    }

    /// Adds the bytes of an attempt to its namespace.
    pub(super) fn add(&mut self, namespace: &NamespaceName, bytes: u64) {
        self.held += bytes;
        match self.namespaces.get_mut(namespace) {
            Some(own) => *own += bytes,
            None if bytes > 0 => drop(self.namespaces.insert(namespace.clone(), bytes)),
            None => {}
        }
    }

    /// Subtracts the bytes of an attempt from its namespace.
    pub(super) fn release(&mut self, namespace: &NamespaceName, bytes: u64) {
        self.held -= bytes;
        if let Some(own) = self.namespaces.get_mut(namespace) {
            *own -= bytes;
            if *own == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }
}

impl Lanes {
    /// Returns the most bytes of payload and headers for the next claim of a shard: its part of the free
    /// bytes.
    pub(crate) fn claim_bytes(&self) -> u64 {
        self.bytes.free() / self.backlogs.len().max(1) as u64
    }
}
