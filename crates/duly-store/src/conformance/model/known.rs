//! The driver's table of one store's own names: tokens and delivery ids.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::DeliveryId;

use crate::{Firing, Outcome, Token, query::Body};

/// Tokens and delivery ids of one store, in the order in which they were first seen.
#[derive(Debug, Default)]
pub struct Known {
    firings: Vec<(Token, DeliveryId)>,
    numbers: BTreeMap<DeliveryId, usize>,
    /// Firings that were redriven: their later attempts are retries.
    redriven: BTreeSet<DeliveryId>,
}

impl Known {
    /// Records a granted firing.
    pub(super) fn note(&mut self, token: Token, delivery_id: DeliveryId) {
        self.firings.push((token, delivery_id));
    }

    /// Returns the firing before the last `back` ones, cyclically.
    pub(super) fn firing(&self, back: u64) -> Option<&(Token, DeliveryId)> {
        let back = usize::try_from(back).ok()?.checked_rem(self.firings.len())?;
        self.firings.get(self.firings.len() - 1 - back)
    }

    /// Records a redriven firing.
    pub(super) fn note_outcome(&mut self, outcome: &Outcome) {
        if let Outcome::Changed(view) = outcome
            && let Body::Whole(timer) = &view.body
            && timer.next_attempt_at.is_some()
        {
            self.redriven.insert(timer.delivery_id(view.namespace.as_str()));
        }
    }

    /// Returns `true` if a firing was granted as a retry.
    ///
    /// 1. Its times do not tell. The wait of a retry runs by the steady clock. The port does not define how
    ///    a store that shows it by the wall clock treats a step. So the time may be the due time in one
    ///    store, and another time in the next.
    /// 2. The number of the attempt does not tell either: the first attempt of a redriven dead letter is a
    ///    retry too.
    pub(super) fn is_retry(&self, firing: &Firing) -> bool {
        firing.attempt > 1 || self.redriven.contains(&firing.delivery_id)
    }

    /// Returns the number of a delivery id: the count of ids that were seen before it.
    pub(super) fn number(&mut self, delivery_id: DeliveryId) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(delivery_id).or_insert(next)
    }
}
