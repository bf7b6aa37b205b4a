//! Dead letters: found by delivery id and by timer, kept whole in the journal.

use std::collections::HashMap;

use duly_core::DeliveryId;
use rustc_hash::FxHashMap;

use crate::index::{Key, Location};

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Letter {
    pub(crate) key: Key,
    pub(crate) due_ms: u64,
    pub(crate) location: Location,
}

/// All dead letters.
#[derive(Debug, Default)]
pub(crate) struct Letters {
    by_delivery: HashMap<u128, Letter>,
    /// Delivery ids of one timer's dead letters, oldest first.
    by_key: FxHashMap<Key, Vec<u128>>,
}

impl Letters {
    pub(crate) fn put(&mut self, delivery: DeliveryId, letter: Letter) -> Option<Letter> {
        let old = self.by_delivery.insert(delivery.to_u128(), letter);
        if old.is_none() {
            self.by_key.entry(letter.key).or_default().push(delivery.to_u128());
        }
        old
    }

    pub(crate) fn remove(&mut self, delivery: DeliveryId) -> Option<Letter> {
        let letter = self.by_delivery.remove(&delivery.to_u128())?;
        if let Some(ids) = self.by_key.get_mut(&letter.key) {
            ids.retain(|id| *id != delivery.to_u128());
            if ids.is_empty() {
                self.by_key.remove(&letter.key);
            }
        }
        Some(letter)
    }

    pub(crate) fn get(&self, delivery: DeliveryId) -> Option<Letter> {
        self.by_delivery.get(&delivery.to_u128()).copied()
    }

    /// All dead letters of a timer, oldest first.
    pub(crate) fn of(&self, key: Key) -> impl Iterator<Item = Letter> {
        let ids = self.by_key.get(&key).map_or(&[][..], Vec::as_slice);
        ids.iter().filter_map(|id| self.by_delivery.get(id).copied())
    }

    /// The latest dead letter of a timer.
    pub(crate) fn latest(&self, key: Key) -> Option<(DeliveryId, Letter)> {
        let id = DeliveryId::from_u128(*self.by_key.get(&key)?.last()?);
        Some((id, self.get(id)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_delivery.len()
    }
}
