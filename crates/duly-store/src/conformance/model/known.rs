//! What the driver knows of one store's own names: tokens and delivery ids.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::DeliveryId;

use crate::{Firing, Outcome, Token, query::Body};

/// Tokens and delivery ids of one store, in order of first sight.
#[derive(Debug, Default)]
pub struct Known {
    firings: Vec<(Token, DeliveryId)>,
    numbers: BTreeMap<DeliveryId, usize>,
    /// Redriven, so that whatever comes of them is a retry.
    redriven: BTreeSet<DeliveryId>,
}

impl Known {
    /// Notes a firing that was granted.
    pub(super) fn note(&mut self, token: Token, delivery_id: DeliveryId) {
        self.firings.push((token, delivery_id));
    }

    /// The firing before the last `back` ones, going round.
    pub(super) fn firing(&self, back: u64) -> Option<&(Token, DeliveryId)> {
        let back = usize::try_from(back).ok()?.checked_rem(self.firings.len())?;
        self.firings.get(self.firings.len() - 1 - back)
    }

    /// Notes what was redriven.
    pub(super) fn note_outcome(&mut self, outcome: &Outcome) {
        if let Outcome::Changed(view) = outcome
            && let Body::Whole(timer) = &view.body
            && timer.next_attempt_at.is_some()
        {
            self.redriven.insert(timer.delivery_id(view.namespace.as_str()));
        }
    }

    /// Whether a firing was granted as a retry. Its times do not tell: a retry's wait runs by the
    /// steady clock, and the port does not say what a store that tells it by the wall clock makes of a
    /// step, so it may be the due time in one store and another in the next. Nor does the number of
    /// the attempt: the first of a timer that was given up and redriven is a retry, too.
    pub(super) fn is_retry(&self, firing: &Firing) -> bool {
        firing.attempt > 1 || self.redriven.contains(&firing.delivery_id)
    }

    /// The number of a delivery id: how many others were seen before it.
    pub(super) fn number(&mut self, delivery_id: DeliveryId) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(delivery_id).or_insert(next)
    }
}
