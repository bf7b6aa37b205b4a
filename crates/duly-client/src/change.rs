//! A change of a pending timer, built up field by field.

use std::time::{Duration, SystemTime};

use crate::{
    destination::{Destination, RetryPolicy},
    payload::Payload,
    schedule::When,
};

/// A field of a timer that can go back to its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerField {
    /// No payload.
    Payload,
    /// No headers.
    Headers,
    /// No tags.
    Tags,
    /// The namespace's destination.
    Destination,
    /// The namespace's retry policy.
    Retry,
}

/// What to change: what is not named stays, what is named is replaced whole.
///
/// ```
/// # use std::time::Duration;
/// # use duly_client::Change;
/// let later = Change::after(Duration::from_secs(3_600)).if_revision(2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Change {
    pub(crate) when: Option<When>,
    pub(crate) payload: Option<Payload>,
    pub(crate) headers: Option<Vec<(String, String)>>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) destination: Option<Destination>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) reset: Vec<TimerField>,
    pub(crate) if_revision: Option<u32>,
}

impl Change {
    /// Nothing yet; a change that changes nothing is refused.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A new due time.
    #[must_use]
    pub fn at(due_at: SystemTime) -> Self {
        Self { when: Some(When::At(due_at)), ..Self::default() }
    }

    /// A new due time, so long after the server takes the change.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self { when: Some(When::After(delay)), ..Self::default() }
    }

    /// Another payload.
    #[must_use]
    pub fn payload(mut self, payload: Payload) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Other headers.
    #[must_use]
    pub fn headers<N, V>(mut self, headers: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let headers = headers.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.headers = Some(headers.collect());
        self
    }

    /// Other tags.
    #[must_use]
    pub fn tags<T: Into<String>>(mut self, tags: impl IntoIterator<Item = T>) -> Self {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }

    /// Another destination.
    #[must_use]
    pub fn destination(mut self, destination: Destination) -> Self {
        self.destination = Some(destination);
        self
    }

    /// Another retry policy.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// A field goes back to its default.
    #[must_use]
    pub fn reset(mut self, field: TimerField) -> Self {
        self.reset.push(field);
        self
    }

    /// Only if the timer has this revision. With it the change can be made at most once, so the
    /// client repeats it where an answer got lost.
    #[must_use]
    pub const fn if_revision(mut self, revision: u32) -> Self {
        self.if_revision = Some(revision);
        self
    }
}
