//! The queues of lease calls by namespace, in order of arrival. Pure.
//!
//! 1. A namespace is *served* by at most one task at a time. So a later call cannot overtake an earlier
//!    one.
//! 2. An event during that time (a new call, a claimable firing) is stored as `Again`. So no signal is
//!    lost between the last empty claim and the end of serving.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use duly_core::NamespaceName;
use rustc_hash::FxHashMap;

/// Namespaces remembered although no call waits in them.
const IDLE_REMEMBERED_MAX: usize = 4_096;
/// One in this many leases of a namespace prefers retries to first attempts.
const RETRIES_FIRST_EVERY: u32 = 4;

/// Waiting lease calls; `R` is the request, `A` receives the reply.
#[derive(Debug)]
pub(crate) struct Waiters<R, A> {
    /// Namespaces for which a call has waited since they were last taken.
    waited: BTreeSet<NamespaceName>,
    queues: FxHashMap<NamespaceName, Queue<R, A>>,
    total: usize,
    total_max: usize,
    next_id: u64,
}

#[derive(Debug)]
struct Queue<R, A> {
    waiting: VecDeque<Waiter<R, A>>,
    serving: ServingState,
    leases: u32,
}

#[derive(Debug)]
struct Waiter<R, A> {
    id: u64,
    request: R,
    mode: WaitMode,
    answer: A,
}

/// The serving state of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServingState {
    No,
    Yes,
    /// It is served, and an event has occurred since the last claim began.
    Again,
}

/// The waiting mode of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// One try, then a reply without firings.
    OneTry,
    /// Until it is answered or its caller disconnects.
    Waits,
}

impl WaitMode {
    pub(crate) fn of(wait: Duration) -> Self {
        if wait.is_zero() { Self::OneTry } else { Self::Waits }
    }
}

/// The decision whether to start serving a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Serve {
    /// It is not served: start.
    Start,
    /// It is served already, or no call waits.
    Not,
}

/// The call at the head of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeadCall<R> {
    /// Identifies the call.
    pub(crate) id: u64,
    /// The request of the call.
    pub(crate) request: R,
    /// The kind that is claimed first.
    pub(crate) order: ClaimOrder,
    /// The waiting mode.
    pub(crate) mode: WaitMode,
    /// The first id that had not arrived when the claim began.
    pub(crate) arrived_before: u64,
}

/// The kind with which a lease is filled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimOrder {
    /// First attempts, then retries.
    FirstAttempts,
    /// Retries, then first attempts.
    Retries,
}

/// The next action after a claim that brought nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EmptyClaim {
    /// An event occurred meanwhile: claim again.
    Again,
    /// Serving has ended.
    Ended,
}

impl<R: Clone, A> Waiters<R, A> {
    pub(crate) fn new(total_max: usize) -> Self {
        Self {
            waited: BTreeSet::new(),
            queues: FxHashMap::default(),
            total: 0,
            total_max,
            next_id: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.total
    }

    /// Returns the namespaces for which calls wait.
    pub(crate) fn waited_for(&self) -> Vec<NamespaceName> {
        let waited = self.queues.iter().filter(|(_, queue)| !queue.waiting.is_empty());
        waited.map(|(namespace, _)| namespace.clone()).collect()
    }

    /// Takes the namespaces for which a call waits, or has waited since they were last taken.
    pub(crate) fn take_waited(&mut self) -> BTreeSet<NamespaceName> {
        let mut waited = std::mem::take(&mut self.waited);
        waited.extend(self.waited_for());
        waited
    }

    /// Returns `true` if a call waits for a namespace, or has waited since [`Self::take_waited`].
    pub(crate) fn was_waited_for(&self, namespace: &NamespaceName) -> bool {
        self.waited.contains(namespace) || self.is_waited_for(namespace)
    }

    /// Appends a call to its queue. Returns `None` if the node has the maximum of waiting calls.
    pub(crate) fn push(
        &mut self,
        namespace: &NamespaceName,
        request: R,
        mode: WaitMode,
        answer: A,
    ) -> Option<(u64, Serve)> {
        if self.total >= self.total_max {
            return None;
        }
        self.forget_idle();
        if !self.waited.contains(namespace) {
            self.waited.insert(namespace.clone());
        }
        let id = self.next_id;
        self.next_id += 1;
        self.total += 1;
        let queue = self.queues.entry(namespace.clone()).or_insert_with(|| Queue {
            waiting: VecDeque::new(),
            serving: ServingState::No,
            leases: 0,
        });
        queue.waiting.push_back(Waiter { id, request, mode, answer });
        Some((id, queue.signal()))
    }

    /// Handles a firing of the namespace that may be claimable.
    pub(crate) fn ready(&mut self, namespace: &NamespaceName) -> Serve {
        self.queues.get_mut(namespace).map_or(Serve::Not, Queue::signal)
    }

    /// Returns `true` if calls wait.
    pub(crate) fn is_waited_for(&self, namespace: &NamespaceName) -> bool {
        self.queues.get(namespace).is_some_and(|queue| !queue.waiting.is_empty())
    }

    /// Returns `true` if calls wait and no task serves the namespace.
    pub(crate) fn is_neglected(&self, namespace: &NamespaceName) -> bool {
        let queue = self.queues.get(namespace);
        queue.is_some_and(|queue| queue.serving == ServingState::No && !queue.waiting.is_empty())
    }

    /// Returns the call to serve next. Serving ends with `None`.
    pub(crate) fn head(&mut self, namespace: &NamespaceName) -> Option<HeadCall<R>> {
        let arrived_before = self.next_id;
        let queue = self.queues.get_mut(namespace)?;
        let Some(first) = queue.waiting.front() else {
            queue.serving = ServingState::No;
            return None;
        };
        queue.serving = ServingState::Yes;
        queue.leases = queue.leases.wrapping_add(1);
        let order = if queue.leases.is_multiple_of(RETRIES_FIRST_EVERY) {
            ClaimOrder::Retries
        } else {
            ClaimOrder::FirstAttempts
        };
        Some(HeadCall {
            id: first.id,
            request: first.request.clone(),
            order,
            mode: first.mode,
            arrived_before,
        })
    }

    /// Removes a call, to be answered or because its caller is gone.
    pub(crate) fn take(&mut self, namespace: &NamespaceName, id: u64) -> Option<A> {
        let queue = self.queues.get_mut(namespace)?;
        let place = queue.waiting.binary_search_by_key(&id, |w| w.id).ok()?;
        let waiter = queue.waiting.remove(place)?;
        self.total -= 1;
        Some(waiter.answer)
    }

    /// Handles a claim that brought nothing. Removes the calls with one try that had arrived when it
    /// began.
    pub(crate) fn empty(
        &mut self,
        namespace: &NamespaceName,
        arrived_before: u64,
    ) -> (Vec<A>, EmptyClaim) {
        let Some(queue) = self.queues.get_mut(namespace) else {
            return (Vec::new(), EmptyClaim::Ended);
        };
        let tried = |w: &Waiter<R, A>| w.mode == WaitMode::OneTry && w.id < arrived_before;
        let mut answers = Vec::new();
        if queue.waiting.iter().any(tried) {
            for waiter in std::mem::take(&mut queue.waiting) {
                if tried(&waiter) {
                    answers.push(waiter.answer);
                } else {
                    queue.waiting.push_back(waiter);
                }
            }
        }
        self.total -= answers.len();
        let next = if queue.serving == ServingState::Again && !queue.waiting.is_empty() {
            queue.serving = ServingState::Yes;
            EmptyClaim::Again
        } else {
            queue.serving = ServingState::No;
            EmptyClaim::Ended
        };
        (answers, next)
    }

    /// Removes all calls of a namespace and ends serving it.
    pub(crate) fn take_namespace(&mut self, namespace: &NamespaceName) -> Vec<A> {
        let Some(queue) = self.queues.get_mut(namespace) else {
            return Vec::new();
        };
        queue.serving = ServingState::No;
        self.total -= queue.waiting.len();
        queue.waiting.drain(..).map(|w| w.answer).collect()
    }

    /// Removes all calls.
    pub(crate) fn take_all(&mut self) -> Vec<A> {
        self.total = 0;
        self.queues
            .values_mut()
            .flat_map(|queue| queue.waiting.drain(..))
            .map(|waiter| waiter.answer)
            .collect()
    }

    fn forget_idle(&mut self) {
        if self.queues.len() >= IDLE_REMEMBERED_MAX + self.total {
            self.queues.retain(|_, q| !q.waiting.is_empty() || q.serving != ServingState::No);
        }
    }
}

impl<R, A> Queue<R, A> {
    fn signal(&mut self) -> Serve {
        match self.serving {
            ServingState::No if self.waiting.is_empty() => Serve::Not,
            ServingState::No => {
                self.serving = ServingState::Yes;
                Serve::Start
            }
            ServingState::Yes | ServingState::Again => {
                self.serving = ServingState::Again;
                Serve::Not
            }
        }
    }
}

#[cfg(test)]
mod tests;
