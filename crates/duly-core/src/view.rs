//! A timer as the API shows it: from its record, or from its tombstone.

use crate::{
    NamespaceName, State, Timer, TimerId, Timestamp, Tombstone, request_hash::RequestHash,
    tombstone::Ended,
};

pub(crate) mod memory;

pub use memory::TooLarge;

/// A timer as the API returns it: from its record, or from its tombstone.
#[derive(Debug, Clone, PartialEq)]
pub struct TimerView {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The state, by the store's clock at the time of the call.
    pub state: State,
    /// The record or the tombstone.
    pub body: Body,
    /// The end of the lease, while in flight.
    pub leased_until: Option<Timestamp>,
    /// The number of the attempt under way, while in flight.
    pub attempt_under_way: Option<u32>,
    /// The time at which that attempt was claimed.
    pub claimed_at: Option<Timestamp>,
    /// `true`: a caller stopped the timer, so no attempt follows the one under way.
    pub stopped: bool,
}

/// The known part of a timer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The whole record.
    Whole(Box<Timer>),
    /// The tombstone of an ended timer.
    Tombstone(Box<Tombstone>),
}

impl TimerView {
    /// Creates a view of a live timer without a lease.
    pub fn unleased(
        namespace: NamespaceName,
        timer: impl Into<Box<Timer>>,
        wall: Timestamp,
    ) -> Self {
        let timer = timer.into();
        Self::whole(namespace, timer.unleased_state(wall), timer)
    }

    /// Creates a view of a timer in this state that is not in flight.
    pub fn whole(namespace: NamespaceName, state: State, timer: impl Into<Box<Timer>>) -> Self {
        Self::of(namespace, state, Body::Whole(timer.into()))
    }

    /// Creates a view of a tombstone.
    pub fn tombstone(namespace: NamespaceName, tombstone: Tombstone) -> Self {
        Self::of(namespace, tombstone.ended.state(), Body::Tombstone(Box::new(tombstone)))
    }

    const fn of(namespace: NamespaceName, state: State, body: Body) -> Self {
        Self {
            namespace,
            state,
            body,
            leased_until: None,
            attempt_under_way: None,
            claimed_at: None,
            stopped: false,
        }
    }

    /// Returns the timer's id.
    pub fn id(&self) -> &TimerId {
        match &self.body {
            Body::Whole(timer) => &timer.id,
            Body::Tombstone(tombstone) => &tombstone.id,
        }
    }

    /// Returns `true` if this is a view of `timer`, as far as its remains tell. The tombstone of a cancelled
    /// timer matches any timer. A dead letter matches one firing only.
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

    /// Returns `true` if this is a view of `timer` at the same firing, so that their delivery ids are equal.
    /// `false` for the tombstone of a cancelled timer.
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

    /// Returns the due time.
    pub fn due_at(&self) -> Timestamp {
        match &self.body {
            Body::Whole(timer) => timer.due_at,
            Body::Tombstone(tombstone) => tombstone.due_at,
        }
    }

    /// Returns its revision, if known.
    pub fn revision(&self) -> Option<u32> {
        match &self.body {
            Body::Whole(timer) => Some(timer.revision),
            Body::Tombstone(tombstone) => tombstone.details.as_ref().map(|d| d.revision),
        }
    }

    /// Returns the number of attempts that were begun, including the one under way.
    pub fn attempts(&self) -> u32 {
        let ended = match &self.body {
            Body::Whole(timer) => timer.attempts,
            Body::Tombstone(tombstone) => tombstone.attempts,
        };
        self.attempt_under_way.unwrap_or(ended).max(ended)
    }

    /// Returns `true` if an attempt may have arrived without a confirmation.
    pub fn maybe_delivered(&self) -> bool {
        match &self.body {
            Body::Whole(timer) => timer.maybe_delivered,
            Body::Tombstone(tombstone) => tombstone.maybe_delivered,
        }
    }

    /// Returns the hash of the request that created it, if known.
    pub fn request_hash(&self) -> Option<RequestHash> {
        match &self.body {
            Body::Whole(timer) => Some(timer.request_hash),
            Body::Tombstone(tombstone) => tombstone.details.as_ref().map(|d| d.request_hash),
        }
    }

    /// Returns the whole record by value; `None` for a tombstone.
    pub fn into_timer(self) -> Option<Box<Timer>> {
        match self.body {
            Body::Whole(timer) => Some(timer),
            Body::Tombstone(_) => None,
        }
    }

    /// Returns the whole record; `None` for a tombstone.
    pub fn timer(&self) -> Option<&Timer> {
        match &self.body {
            Body::Whole(timer) => Some(timer),
            Body::Tombstone(_) => None,
        }
    }
}
