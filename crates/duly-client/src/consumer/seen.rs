//! Deliveries that were handled lately: a bounded, expiring LRU over delivery ids.
//!
//! An id is known for a fixed time after it was handled; being asked for keeps it from being pushed
//! out by others, and never makes that time longer.

use std::{num::NonZeroUsize, time::Duration};

use lru::LruCache;
use tokio::time::Instant;

use super::Dedup;

/// Ids of deliveries, with when they were handled.
#[derive(Debug)]
pub(super) struct Seen {
    /// None where nothing is remembered.
    ids: Option<LruCache<Box<str>, Instant>>,
    keep: Duration,
}

impl Seen {
    pub(super) fn new(dedup: Dedup) -> Self {
        // It grows as it fills, and not before.
        let ids = NonZeroUsize::new(dedup.entries_max).map(|max| {
            let mut ids = LruCache::unbounded();
            ids.resize(max);
            ids
        });
        Self { ids, keep: dedup.keep }
    }

    /// Remembers a delivery that was handled.
    pub(super) fn remember(&mut self, delivery_id: &str, now: Instant) {
        if let Some(ids) = &mut self.ids {
            ids.put(delivery_id.into(), now);
        }
    }

    /// Returns `true` if a delivery was handled lately.
    pub(super) fn knows(&mut self, delivery_id: &str, now: Instant) -> bool {
        let Some(ids) = &mut self.ids else { return false };
        let is_fresh = |handled: &Instant| now.saturating_duration_since(*handled) < self.keep;
        let knows = ids.get(delivery_id).is_some_and(is_fresh);
        if !knows {
            ids.pop(delivery_id);
        }
        knows
    }
}

#[cfg(test)]
mod tests;
