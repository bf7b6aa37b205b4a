//! Whose turn it is: requests that wait for a share of a step.
//!
//! ```text
//!   calls (claims, verdicts, reads)   ▇▇▇▇      all that wait, when it is their turn
//!   namespace a                       ▇▇▇▇▇▇▇▇  ┐
//!   namespace b                       ▇         ├ one share of a batch each
//!   namespace c                       ▇▇        ┘
//! ```
//!
//! A step ends when its frame is full, and the next one goes on with who comes next: however many
//! batches one namespace sends, another waits for one share of each that has something to do. A
//! batch that is not done goes to the back of its namespace, so nobody waits for the whole of one.
//! Requests of one party keep their order; what several callers ask at once has none.

use std::collections::VecDeque;

use duly_core::NamespaceName;
use rustc_hash::FxHashMap;

use super::inbox::Request;

/// Who waits: a namespace with its batches, or all calls together.
type Party = Option<NamespaceName>;

/// The requests that wait.
#[derive(Default)]
pub(super) struct Turns {
    waiting: FxHashMap<Party, VecDeque<Request>>,
    /// Every party that waits, once, the next first.
    order: VecDeque<Party>,
    /// Calls that are still to be handed out in this turn of theirs.
    calls_left: usize,
    len: usize,
}

impl Turns {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a request behind the others of its party.
    pub(super) fn push(&mut self, request: Request) {
        let party = party_of(&request);
        let waiting = self.waiting.entry(party.clone()).or_default();
        if waiting.is_empty() {
            self.order.push_back(party);
        }
        waiting.push_back(request);
        self.len += 1;
    }

    /// The next request.
    pub(super) fn pop(&mut self) -> Option<Request> {
        let party = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&party)?;
        let request = waiting.pop_front()?;
        self.len -= 1;
        let left = waiting.len();
        if party.is_none() {
            // What comes while they have their turn waits for the next.
            self.calls_left = if self.calls_left > 0 { self.calls_left - 1 } else { left };
        }
        if left == 0 {
            self.waiting.remove(&party);
        } else if party.is_none() && self.calls_left > 0 {
            self.order.push_front(party);
        } else {
            self.order.push_back(party);
        }
        Some(request)
    }
}

/// A batch counts for the namespace of its first command.
fn party_of(request: &Request) -> Party {
    match request {
        Request::Apply { commands, .. } => {
            commands.as_slice().first().map(|command| command.namespace.clone())
        }
        Request::Call(_) | Request::Shares(_) | Request::List { .. } => None,
    }
}

#[cfg(test)]
mod tests;
