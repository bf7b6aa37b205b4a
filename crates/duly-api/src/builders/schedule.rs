//! Schedules, and changes of timers.

use crate::{
    Destination, Duration, Header, HeaderList, IfExists, Reschedule, Retry, Schedule, TagList,
    Time, TimerField,
};

impl Schedule {
    /// Returns a schedule that is due at this time; a past time is due at once.
    pub fn at(due_at: impl Into<Time>) -> Self {
        Self { due_at: Some(due_at.into()), ..Self::default() }
    }

    /// Returns a schedule that is due this long after the server accepts it.
    pub fn after(delay: impl Into<Duration>) -> Self {
        Self { delay: Some(delay.into()), ..Self::default() }
    }

    /// Sets the id, which is unique in its namespace.
    #[must_use]
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push(Header { name: name.into(), value: value.into() });
        self
    }

    /// Adds a tag.
    #[must_use]
    pub fn with_tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the key by which a broker partitions.
    #[must_use]
    pub fn with_slot_key(self, key: impl Into<String>) -> Self {
        Self { slot_key: Some(key.into()), ..self }
    }

    /// Sets the destination.
    #[must_use]
    pub fn with_destination(self, destination: impl Into<Destination>) -> Self {
        Self { destination: Some(destination.into()), ..self }
    }

    /// Sets the retry policy.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// Sets the time after its due time at which it becomes a dead letter instead of being delivered.
    #[must_use]
    pub fn with_expire_after(self, expire_after: impl Into<Duration>) -> Self {
        Self { expire_after: Some(expire_after.into()), ..self }
    }

    /// Sets the effect if the id is taken by another request.
    #[must_use]
    pub fn with_if_exists(self, if_exists: IfExists) -> Self {
        Self { if_exists: if_exists.into(), ..self }
    }
}

/// ```
/// # use std::time::Duration;
/// # use duly_api::Reschedule;
/// let later = Reschedule::after(Duration::from_secs(3600)).with_if_revision(2);
/// ```
impl Reschedule {
    /// Returns a change to this due time.
    pub fn at(due_at: impl Into<Time>) -> Self {
        Self { due_at: Some(due_at.into()), ..Self::default() }
    }

    /// Returns a change to a due time this long after the server accepts it.
    pub fn after(delay: impl Into<Duration>) -> Self {
        Self { delay: Some(delay.into()), ..Self::default() }
    }

    /// Sets new headers, which replace all present ones.
    #[must_use]
    pub fn with_headers<N, V>(self, headers: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let header = |(name, value): (N, V)| Header { name: name.into(), value: value.into() };
        let headers = headers.into_iter().map(header).collect();
        Self { headers: Some(HeaderList { headers }), ..self }
    }

    /// Sets new tags, which replace all present ones.
    #[must_use]
    pub fn with_tags<T: Into<String>>(self, tags: impl IntoIterator<Item = T>) -> Self {
        let tags = tags.into_iter().map(Into::into).collect();
        Self { tags: Some(TagList { tags }), ..self }
    }

    /// Sets a new destination.
    #[must_use]
    pub fn with_destination(self, destination: impl Into<Destination>) -> Self {
        Self { destination: Some(destination.into()), ..self }
    }

    /// Sets a new retry policy.
    #[must_use]
    pub fn with_retry(self, retry: Retry) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// Resets a field to its default.
    #[must_use]
    pub fn with_reset(mut self, field: TimerField) -> Self {
        self.reset.push(field.into());
        self
    }

    /// Sets the revision that the timer must have. So the change is made at most once, and a client can
    /// repeat it.
    #[must_use]
    pub fn with_if_revision(self, revision: u32) -> Self {
        Self { if_revision: Some(revision), ..self }
    }
}
