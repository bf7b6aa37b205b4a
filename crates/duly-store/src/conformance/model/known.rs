//! What the driver knows of one store's own names: tokens and delivery ids.

use std::collections::BTreeMap;

use duly_core::DeliveryId;

use crate::Token;

/// Tokens and delivery ids of one store, in order of first sight.
#[derive(Debug, Default)]
pub struct Known {
    firings: Vec<(Token, DeliveryId)>,
    numbers: BTreeMap<DeliveryId, usize>,
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

    /// The number of a delivery id: how many others were seen before it.
    pub(super) fn number(&mut self, delivery_id: DeliveryId) -> usize {
        let next = self.numbers.len();
        *self.numbers.entry(delivery_id).or_insert(next)
    }
}
