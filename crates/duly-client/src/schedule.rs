//! What to deliver, and when: the request to schedule, built up field by field.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::{
    destination::{Destination, RetryPolicy},
    error::Invalid,
    payload::Payload,
};

/// What the schedule of an id that is taken by another request does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfExists {
    /// It is refused.
    #[default]
    Fail,
    /// The timer that is there is answered, and stays: the first one counts (throttle).
    Keep,
    /// The new timer takes its place: the last one counts.
    Replace,
}

/// When a timer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    At(SystemTime),
    After(Duration),
}

/// A timer to be made.
///
/// ```
/// # use std::time::Duration;
/// # use duly_client::Schedule;
/// let close = Schedule::after(Duration::from_secs(30 * 60)).id("order:1").text("close it");
/// ```
#[derive(Debug, Clone)]
pub struct Schedule {
    pub(crate) when: When,
    pub(crate) id: Option<String>,
    pub(crate) payload: Option<Payload>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) tags: Vec<String>,
    pub(crate) slot_key: Option<String>,
    pub(crate) destination: Option<Destination>,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) expire_after: Option<Duration>,
    pub(crate) if_exists: IfExists,
    /// Why it cannot be sent; told by the call.
    pub(crate) invalid: Option<Invalid>,
}

impl Schedule {
    /// One that is due at a moment, 1970 to 2200; what has passed is due at once.
    pub fn at(due_at: SystemTime) -> Self {
        Self::when(When::At(due_at))
    }

    /// One that is due so long after the server takes it.
    pub fn after(delay: Duration) -> Self {
        Self::when(When::After(delay))
    }

    const fn when(when: When) -> Self {
        Self {
            when,
            id: None,
            payload: None,
            headers: Vec::new(),
            tags: Vec::new(),
            slot_key: None,
            destination: None,
            retry: None,
            expire_after: None,
            if_exists: IfExists::Fail,
            invalid: None,
        }
    }

    /// Your own id, unique in its namespace: 1 to 256 bytes of UTF-8. Without one the client makes
    /// a UUIDv7, so that the call can be repeated safely either way.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What it carries.
    #[must_use]
    pub fn payload(mut self, payload: Payload) -> Self {
        self.payload = Some(payload);
        self
    }

    /// It carries this value as JSON.
    #[must_use]
    pub fn json(mut self, value: &impl Serialize) -> Self {
        match Payload::json(value) {
            Ok(payload) => self.payload = Some(payload),
            Err(invalid) => self.invalid = Some(invalid),
        }
        self
    }

    /// It carries this text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.payload(Payload::text(text))
    }

    /// A header that travels with it: at most 64, 8 KiB in all.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// A tag to find it by: at most 16 of at most 64 bytes.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Key by which a broker partitions.
    #[must_use]
    pub fn slot_key(mut self, key: impl Into<String>) -> Self {
        self.slot_key = Some(key.into());
        self
    }

    /// Where it goes; where the namespace says, without this.
    #[must_use]
    pub fn destination(mut self, destination: Destination) -> Self {
        self.destination = Some(destination);
        self
    }

    /// When a failed attempt is repeated; as the namespace says, without this.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Later than this after due it becomes a dead letter.
    #[must_use]
    pub const fn expire_after(mut self, expire_after: Duration) -> Self {
        self.expire_after = Some(expire_after);
        self
    }

    /// What an existing timer with this id means.
    #[must_use]
    pub const fn if_exists(mut self, if_exists: IfExists) -> Self {
        self.if_exists = if_exists;
        self
    }

    /// It takes the place of a pending timer with its id. The same request again is a repetition
    /// and changes nothing; see [`Client::debounce`](crate::Client::debounce) for what moves each
    /// time.
    #[must_use]
    pub const fn replace(self) -> Self {
        self.if_exists(IfExists::Replace)
    }
}
