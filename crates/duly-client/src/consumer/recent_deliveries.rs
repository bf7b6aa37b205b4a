//! Deliveries that were handled recently: a bounded, expiring LRU cache of delivery ids.
//!
//! 1. An id is known for a fixed time after its delivery was handled.
//! 2. A lookup protects the id from eviction by others. It never extends the fixed time.

use std::{num::NonZeroUsize, time::Duration};

use lru::LruCache;
use tokio::time::Instant;

use super::Dedup;

/// Delivery ids, each with the time at which it was handled.
#[derive(Debug)]
pub(super) struct RecentDeliveries {
    /// None if deduplication is off.
    ids: Option<LruCache<Box<str>, Instant>>,
    keep: Duration,
}

impl RecentDeliveries {
    pub(super) fn new(dedup: Dedup) -> Self {
        // The cache grows as it fills; it is not allocated in advance.
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

    /// Returns `true` if a delivery was handled recently.
    pub(super) fn contains(&mut self, delivery_id: &str, now: Instant) -> bool {
        let Some(ids) = &mut self.ids else { return false };
        let is_fresh = |handled: &Instant| now.saturating_duration_since(*handled) < self.keep;
        let contains = ids.get(delivery_id).is_some_and(is_fresh);
        if !contains {
            ids.pop(delivery_id);
        }
        contains
    }
}

#[cfg(test)]
mod tests;
