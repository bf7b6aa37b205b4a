//! Deficit round-robin: flows take turns, each for as much as its weight. Pure.
//!
//! 1. A flow whose turn comes gets a credit of its weight. It keeps the turn until the credit is spent
//!    or it has no items left.
//! 2. Credit that was not spent is lost, so no flow can accumulate it.
//! 3. Of two flows that always have items and are never denied, neither gets more than one turn's worth
//!    ahead of the other, regardless of other flows.
//! 4. Every operation takes constant time, for any number of flows.
//!
//! The backlog of a shard uses it to choose the starved lane that gets a freed worker: flows are
//! namespaces, items are their lanes.

use std::{collections::VecDeque, hash::Hash};

use rustc_hash::FxHashMap;

/// Flows in the order of their turns.
#[derive(Debug)]
pub(super) struct Drr<F, I> {
    /// Each flow that has items, once; the first has the turn.
    ring: VecDeque<F>,
    flows: FxHashMap<F, Flow<I>>,
    items: usize,
}

#[derive(Debug)]
struct Flow<I> {
    items: VecDeque<I>,
    weight: usize,
    /// The credit left of its turn; `None` before the turn starts.
    credit: Option<usize>,
}

/// An item whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DrrTurn<I> {
    pub(super) item: I,
    /// Most that the item may take now, at least 1.
    pub(super) credit: usize,
}

impl<F, I> Default for Drr<F, I> {
    fn default() -> Self {
        Self { ring: VecDeque::new(), flows: FxHashMap::default(), items: 0 }
    }
}

impl<F: Clone + Eq + Hash, I> Drr<F, I> {
    /// Appends an item to its flow, and sets the weight of the flow.
    pub(super) fn push(&mut self, flow: &F, item: I, weight: usize) {
        let weight = weight.max(1);
        self.items += 1;
        if let Some(known) = self.flows.get_mut(flow) {
            known.items.push_back(item);
            known.weight = weight;
            return;
        }
        self.flows.insert(flow.clone(), Flow { items: [item].into(), weight, credit: None });
        self.ring.push_back(flow.clone());
    }

    /// Returns the next item of the flow whose turn it is. The caller must report its result with
    /// [`Self::charge`] before it takes the next item.
    pub(super) fn next(&mut self) -> Option<DrrTurn<I>> {
        loop {
            let flow = self.flows.get_mut(self.ring.front()?)?;
            let weight = flow.weight;
            let credit = *flow.credit.get_or_insert(weight);
            if let Some(item) = flow.items.pop_front() {
                self.items -= 1;
                return Some(DrrTurn { item, credit });
            }
            self.end_flow();
        }
    }

    /// Charges `used` for the item taken last. If it is 0 the turn ends: the flow was denied.
    pub(super) fn charge(&mut self, used: usize) {
        let Some(name) = self.ring.front() else {
            return;
        };
        let Some(flow) = self.flows.get_mut(name) else {
            return;
        };
        if flow.items.is_empty() {
            self.end_flow();
            return;
        }
        let left = flow.credit.unwrap_or(0).saturating_sub(used);
        if used > 0 && left > 0 {
            flow.credit = Some(left);
            return;
        }
        flow.credit = None;
        self.ring.rotate_left(1);
    }

    /// Moves the item taken last, which was pushed again, to the front of its flow, and ends the turn:
    /// the whole flow was denied, not only this item.
    pub(super) fn deny(&mut self) {
        let front = self.ring.front();
        if let Some(flow) = front.and_then(|name| self.flows.get_mut(name))
            && let Some(last) = flow.items.pop_back()
        {
            flow.items.push_front(last);
        }
        self.charge(0);
    }

    /// Skips the item taken last: its flow keeps the turn while it has others.
    pub(super) fn skip(&mut self) {
        let front = self.ring.front();
        if front.and_then(|name| self.flows.get(name)).is_some_and(|flow| flow.items.is_empty()) {
            self.charge(0);
        }
    }

    /// Returns the items of a flow in order, without its first `skip`.
    pub(super) fn items_of(&self, flow: &F, skip: usize) -> impl Iterator<Item = &I> {
        let flow = self.flows.get(flow).into_iter();
        flow.flat_map(move |flow| flow.items.range(skip.min(flow.items.len())..))
    }

    /// Returns the number of items.
    pub(super) const fn len(&self) -> usize {
        self.items
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Removes the flow that has the turn, which has no items left.
    fn end_flow(&mut self) {
        if let Some(name) = self.ring.pop_front() {
            self.flows.remove(&name);
        }
    }

    /// Keeps only the items that `keep` accepts. The flow that has the turn stays, so that it can be
    /// charged.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&I) -> bool) {
        let mut items = 0;
        let front = self.ring.front();
        self.flows.retain(|name, flow| {
            flow.items.retain(&mut keep);
            items += flow.items.len();
            !flow.items.is_empty() || Some(name) == front
        });
        let flows = &self.flows;
        self.ring.retain(|name| flows.contains_key(name));
        self.items = items;
    }
}

#[cfg(test)]
mod tests;
