//! Fair scheduling: decides which waiting request gets the next slice of a step.
//!
//! ```text
//!   calls (claims, verdicts, reads)   ▇▇▇▇      all that wait, when it is their turn
//!   namespace a                       ▇▇▇▇▇▇▇▇  ┐
//!   namespace b                       ▇         ├ one slice of a batch each
//!   namespace c                       ▇▇        ┘
//! ```
//!
//! 1. A step ends when its frame is full, and the next step continues with the next requester.
//! 2. However many batches one namespace sends, another namespace waits for at most one slice of each
//!    requester.
//! 3. A batch that is not finished goes to the back of its namespace, so no request waits for a whole
//!    batch.
//! 4. Requests of one requester keep their order. Concurrent requests of several callers have none.

use std::collections::VecDeque;

use duly_core::NamespaceName;
use rustc_hash::FxHashMap;

use super::inbox::Request;

/// The owner of waiting requests: a namespace with its batches, or all calls together.
type Requester = Option<NamespaceName>;

/// The waiting requests.
#[derive(Default)]
pub(super) struct FairQueue {
    waiting: FxHashMap<Requester, VecDeque<Request>>,
    /// Every waiting requester, once; the next is first.
    order: VecDeque<Requester>,
    /// Calls still to be handed out in the present turn of the calls.
    calls_left: usize,
    len: usize,
}

impl FairQueue {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Queues a request behind the others of its requester.
    pub(super) fn push(&mut self, request: Request) {
        let requester = requester_of(&request);
        let waiting = self.waiting.entry(requester.clone()).or_default();
        if waiting.is_empty() {
            self.order.push_back(requester);
        }
        waiting.push_back(request);
        self.len += 1;
    }

    /// Takes the next request.
    pub(super) fn pop(&mut self) -> Option<Request> {
        let requester = self.order.pop_front()?;
        let waiting = self.waiting.get_mut(&requester)?;
        let request = waiting.pop_front()?;
        self.len -= 1;
        let left = waiting.len();
        if requester.is_none() {
            // Calls that come during the turn wait for the next one.
            self.calls_left = if self.calls_left > 0 { self.calls_left - 1 } else { left };
        }
        if left == 0 {
            self.waiting.remove(&requester);
        } else if requester.is_none() && self.calls_left > 0 {
            self.order.push_front(requester);
        } else {
            self.order.push_back(requester);
        }
        Some(request)
    }
}

/// Returns the requester of a request. A batch counts for the namespace of its first command.
fn requester_of(request: &Request) -> Requester {
    match request {
        Request::Apply { commands, .. } => {
            commands.as_slice().first().map(|command| command.namespace.clone())
        }
        Request::Call(_) | Request::Slices(_) | Request::List { .. } => None,
    }
}

#[cfg(test)]
mod tests;
