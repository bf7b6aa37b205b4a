//! A timer as a caller sees it: from its record, or from its tombstone.

use crate::{
    NamespaceName, State, Timer, TimerId, Timestamp, Tombstone, request_hash::RequestHash,
    tombstone::Ended,
};

pub(crate) mod memory;

pub use memory::TooLarge;

/// A timer as it is answered: from its record, or from its tombstone.
#[derive(Debug, Clone, PartialEq)]
pub struct TimerView {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The state, by the store's clock at the time of the answer.
    pub state: State,
    /// Record or tombstone.
    pub body: Body,
    /// When the lease ends, while in flight.
    pub leased_until: Option<Timestamp>,
    /// The attempt under way, while in flight.
    pub attempt_under_way: Option<u32>,
    /// When that attempt was claimed.
    pub claimed_at: Option<Timestamp>,
}

/// What is known of a timer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Everything.
    Whole(Box<Timer>),
    /// It has ended.
    Tombstone(Box<Tombstone>),
}

impl TimerView {
    /// A view of a live timer under no lease.
    pub fn unleased(
        namespace: NamespaceName,
        timer: impl Into<Box<Timer>>,
        wall: Timestamp,
    ) -> Self {
        let timer = timer.into();
        Self::whole(namespace, timer.unleased_state(wall), timer)
    }

    /// A view of a timer in this state and not in flight.
    pub fn whole(namespace: NamespaceName, state: State, timer: impl Into<Box<Timer>>) -> Self {
        Self {
            namespace,
            state,
            body: Body::Whole(timer.into()),
            leased_until: None,
            attempt_under_way: None,
            claimed_at: None,
        }
    }

    /// A view of a tombstone.
    pub fn tombstone(namespace: NamespaceName, tombstone: Tombstone) -> Self {
        Self {
            namespace,
            state: tombstone.ended.state(),
            body: Body::Tombstone(Box::new(tombstone)),
            leased_until: None,
            attempt_under_way: None,
            claimed_at: None,
        }
    }

    /// The timer's id.
    pub fn id(&self) -> &TimerId {
        match &self.body {
            Body::Whole(timer) => &timer.id,
            Body::Tombstone(tombstone) => &tombstone.id,
        }
    }

    /// Whether this is the timer, as far as what is left of it tells: the tombstone of a cancelled one may be
    /// of any. A dead letter is one firing of it.
    pub fn is_of(&self, timer: &Timer) -> bool {
        match &self.body {
            Body::Whole(_) if self.state == State::Dead => self.is_of_firing(timer),
            Body::Whole(own) => own.incarnation == timer.incarnation,
            Body::Tombstone(tombstone) => {
                let own = tombstone.details.as_ref();
                tombstone.ended == Ended::Cancelled
                    || own.is_none_or(|own| own.incarnation == timer.incarnation)
            }
        }
    }

    /// Whether this is the timer with the firing that it is at, so that their delivery ids are one; of a
    /// cancelled one nothing is said.
    pub fn is_of_firing(&self, timer: &Timer) -> bool {
        let firing = (timer.incarnation, timer.occurrence);
        match &self.body {
            Body::Whole(own) => (own.incarnation, own.occurrence) == firing,
            Body::Tombstone(tombstone) => {
                let own = tombstone.details.as_ref().filter(|_| tombstone.ended == Ended::Finished);
                own.is_some_and(|own| (own.incarnation, own.occurrence) == firing)
            }
        }
    }

    /// When it is, or was, due.
    pub fn due_at(&self) -> Timestamp {
        match &self.body {
            Body::Whole(timer) => timer.due_at,
            Body::Tombstone(tombstone) => tombstone.due_at,
        }
    }

    /// Its revision, if known.
    pub fn revision(&self) -> Option<u32> {
        match &self.body {
            Body::Whole(timer) => Some(timer.revision),
            Body::Tombstone(tombstone) => tombstone.details.as_ref().map(|d| d.revision),
        }
    }

    /// Attempts begun, the one under way included.
    pub fn attempts(&self) -> u32 {
        let ended = match &self.body {
            Body::Whole(timer) => timer.attempts,
            Body::Tombstone(tombstone) => tombstone.attempts,
        };
        self.attempt_under_way.unwrap_or(ended).max(ended)
    }

    /// Whether an attempt may have arrived although nobody confirmed it.
    pub fn maybe_delivered(&self) -> bool {
        match &self.body {
            Body::Whole(timer) => timer.maybe_delivered,
            Body::Tombstone(tombstone) => tombstone.maybe_delivered,
        }
    }

    /// The hash of the request that made it, if known.
    pub fn request_hash(&self) -> Option<RequestHash> {
        match &self.body {
            Body::Whole(timer) => Some(timer.request_hash),
            Body::Tombstone(tombstone) => tombstone.details.as_ref().map(|d| d.request_hash),
        }
    }

    /// The whole record by value, if it is more than a tombstone.
    pub fn into_timer(self) -> Option<Box<Timer>> {
        match self.body {
            Body::Whole(timer) => Some(timer),
            Body::Tombstone(_) => None,
        }
    }

    /// The whole record, if it is more than a tombstone.
    pub fn timer(&self) -> Option<&Timer> {
        match &self.body {
            Body::Whole(timer) => Some(timer),
            Body::Tombstone(_) => None,
        }
    }
}
