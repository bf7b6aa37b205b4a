//! Many timers at once: cancelling by filter, and what becomes of dead letters.

use std::time::{Duration, SystemTime};

use crate::{error::Error, list::Filter};

/// Which pending timers to cancel.
///
/// ```
/// # use duly_client::{CancelMany, Filter};
/// let of_a_customer = CancelMany::fitting(Filter::new().tag("customer:7")).dry_run();
/// ```
#[derive(Debug, Clone)]
pub struct CancelMany {
    /// Those that fit; every pending one without.
    pub(crate) filter: Option<Filter>,
    pub(crate) limit: Option<u64>,
    pub(crate) dry_run: bool,
}

impl CancelMany {
    /// Those that match all that the filter says. An empty filter is refused, and never means all;
    /// of states only those can be said that can be cancelled.
    #[must_use]
    pub const fn fitting(filter: Filter) -> Self {
        Self { filter: Some(filter), limit: None, dry_run: false }
    }

    /// Every pending timer of the namespace.
    #[must_use]
    pub const fn all() -> Self {
        Self { filter: None, limit: None, dry_run: false }
    }

    /// At most so many, and at least one; without it as many as there are.
    #[must_use]
    pub const fn limit(mut self, timers: u64) -> Self {
        self.limit = Some(timers);
        self
    }

    /// Nothing is cancelled: what would be is counted.
    #[must_use]
    pub const fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What a cancel by filter did, or in a dry run would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CancelledMany {
    /// Timers that were cancelled, and are never delivered after this.
    pub cancelled: u64,
    /// Of these, such as may have been delivered: the outcome of an attempt is not known.
    pub maybe_delivered: u64,
    /// Timers that fit and were left as they are: an attempt was under way, or they were changed
    /// meanwhile.
    pub skipped: u64,
}

/// Which dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Letters {
    /// The latest one of each of these timers, at most 10,000.
    Ids(Vec<String>),
    /// Those with these delivery ids, at most 10,000.
    DeliveryIds(Vec<String>),
    /// Every one of the namespace.
    All,
}

impl Letters {
    /// The latest one of each of these timers.
    pub fn ids<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Self {
        Self::Ids(ids.into_iter().map(Into::into).collect())
    }

    /// Those with these delivery ids.
    pub fn delivery_ids<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Self {
        Self::DeliveryIds(ids.into_iter().map(Into::into).collect())
    }
}

/// Which dead letters to send again, and when.
#[derive(Debug, Clone)]
pub struct Redrive {
    pub(crate) letters: Letters,
    pub(crate) delay: Option<Duration>,
    pub(crate) per_second: Option<f64>,
}

impl Redrive {
    /// These, at once. Their delivery ids stay, and attempts go on counting, with a fresh budget.
    #[must_use]
    pub const fn new(letters: Letters) -> Self {
        Self { letters, delay: None, per_second: None }
    }

    /// Not before so long, at most 30 days.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// So many a second, 0.001 to 1,000,000, one after the other.
    #[must_use]
    pub const fn per_second(mut self, rate: f64) -> Self {
        self.per_second = Some(rate);
        self
    }
}

/// What was done with dead letters.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DeadLetterResult {
    /// Those that were redriven, or purged.
    pub done: u64,
    /// Of those that were named: the places of such as were not, from 0, and why.
    pub refused: Vec<(usize, Error)>,
}

/// What was given up because it was overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLettered {
    /// Timers that became dead letters, with the reason `overdue`.
    pub dead_lettered: u64,
    /// By when they were due.
    pub due_by: Option<SystemTime>,
}
