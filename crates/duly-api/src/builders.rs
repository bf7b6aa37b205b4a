//! Constructors and setters for callers that are written in Rust.
//!
//! 1. A setter takes a message and returns it changed. Its name is `with_` and the name of the field:
//!    `prost` gives the bare name to a getter.
//! 2. A setter checks nothing. The server checks the whole message. An invalid time or duration is sent
//!    as a value that the server refuses.
//!
//! ```
//! # use std::time::Duration;
//! # use duly_api::Schedule;
//! let close = Schedule::after(Duration::from_secs(1800)).with_id("order:1").with_text("close it");
//! assert_eq!(close.id(), "order:1");
//! ```

mod payload;

use crate::{
    Ack, Cancel, CancelFilter, CancelManyRequest, DeadLetterNames, DeadVerdict, Destination,
    Duration, ExtendVerdict, Fire, Header, HeaderList, HttpDestination, IfExists, LeaseRequest,
    Operation, PurgeRequest, RedriveRequest, Reschedule, Retry, RetryVerdict, Schedule, Settlement,
    SnoozeVerdict, State, TagList, Time, TimerField, v1::ListRequest,
};

/// Declares setters, each with its field and the type of the value.
macro_rules! setters {
    ($($message:ident { $($(#[$doc:meta])* $setter:ident($field:ident: $value:ty),)+ })+) => {$(
        impl $message {$(
            $(#[$doc])*
            #[must_use]
            pub fn $setter(self, $field: $value) -> Self {
                Self { $field: Some($field.into()), ..self }
            }
        )+}
    )+};
}

setters! {
    LeaseRequest {
        /// Sets the most bytes of payloads and headers.
        with_max_bytes(max_bytes: u64),
        /// Sets the length of the lease.
        with_lease(lease: impl Into<Duration>),
        /// Sets the time to wait for the first firing.
        with_wait(wait: impl Into<Duration>),
    }
    Schedule {
        /// Sets the id, which is unique in its namespace.
        with_id(id: impl Into<String>),
        /// Sets the key by which a broker partitions.
        with_slot_key(slot_key: impl Into<String>),
        /// Sets the destination.
        with_destination(destination: impl Into<Destination>),
        /// Sets the retry policy.
        with_retry(retry: Retry),
        /// Sets the time after its due time at which it becomes a dead letter instead of being delivered.
        with_expire_after(expire_after: impl Into<Duration>),
    }
    Reschedule {
        /// Sets a new destination.
        with_destination(destination: impl Into<Destination>),
        /// Sets a new retry policy.
        with_retry(retry: Retry),
        /// Sets the revision that the timer must have. So the change is made at most once, and a client can
        /// repeat it.
        with_if_revision(if_revision: u32),
    }
    ListRequest {
        /// Sets the most timers of a page.
        with_limit(limit: u32),
        /// Sets the place to continue from.
        with_cursor(cursor: impl Into<String>),
    }
    CancelManyRequest {
        /// Sets the most timers to cancel.
        with_limit(limit: u32),
    }
    RedriveRequest {
        /// Sets the time to wait first.
        with_delay(delay: impl Into<Duration>),
        /// Sets the rate at which they become due.
        with_per_second(per_second: f64),
    }
}

impl Schedule {
    /// Returns a schedule that is due at this time; a past time is due at once.
    pub fn at(due_at: impl Into<Time>) -> Self {
        Self { due_at: Some(due_at.into()), ..Self::default() }
    }

    /// Returns a schedule that is due this long after the server accepts it.
    pub fn after(delay: impl Into<Duration>) -> Self {
        Self { delay: Some(delay.into()), ..Self::default() }
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

    /// Sets the effect if the id is taken.
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

    /// Resets a field to its default.
    #[must_use]
    pub fn with_reset(mut self, field: TimerField) -> Self {
        self.reset.push(field.into());
        self
    }
}

impl Operation {
    /// Returns the operation that changes a pending timer.
    pub fn reschedule(id: impl Into<String>, change: Reschedule) -> Self {
        let reschedule = Some(Box::new(Reschedule { id: id.into(), ..change }));
        Self { reschedule, ..Self::default() }
    }

    /// Returns the operation that cancels a timer at any revision.
    pub fn cancel(id: impl Into<String>) -> Self {
        Self::from(Cancel { id: id.into(), ..Cancel::default() })
    }

    /// Returns the operation that makes a timer or its next attempt due now.
    pub fn fire(id: impl Into<String>) -> Self {
        Self { fire: Some(Fire { id: id.into() }), ..Self::default() }
    }

    /// Returns the name of the operation: `schedule`, `cancel`, `reschedule` or `fire`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self { schedule: Some(_), .. } => "schedule",
            Self { cancel: Some(_), .. } => "cancel",
            Self { reschedule: Some(_), .. } => "reschedule",
            Self { fire: Some(_), .. } => "fire",
            Self { .. } => "",
        }
    }

    /// Returns the id of the timer; empty if a schedule leaves it to the server.
    pub fn timer_id(&self) -> &str {
        match self {
            Self { schedule: Some(schedule), .. } => schedule.id(),
            Self { cancel: Some(cancel), .. } => &cancel.id,
            Self { reschedule: Some(reschedule), .. } => &reschedule.id,
            Self { fire: Some(fire), .. } => &fire.id,
            Self { .. } => "",
        }
    }
}

impl From<Schedule> for Operation {
    fn from(schedule: Schedule) -> Self {
        Self { schedule: Some(Box::new(schedule)), ..Self::default() }
    }
}

impl From<Cancel> for Operation {
    fn from(cancel: Cancel) -> Self {
        Self { cancel: Some(cancel), ..Self::default() }
    }
}

impl From<HttpDestination> for Destination {
    fn from(http: HttpDestination) -> Self {
        Self { pull: None, http: Some(http) }
    }
}

impl Retry {
    /// Returns a policy with this many attempts in all, with exponential waits.
    pub fn attempts(max_attempts: u32) -> Self {
        Self { max_attempts: Some(max_attempts), ..Self::default() }
    }

    /// Returns a policy with these waits; it has one attempt more than waits.
    pub fn waits<D: Into<Duration>>(waits: impl IntoIterator<Item = D>) -> Self {
        Self { delays: waits.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Sets the first and the longest wait.
    #[must_use]
    pub fn with_backoff(self, min: impl Into<Duration>, max: impl Into<Duration>) -> Self {
        Self { min_backoff: Some(min.into()), max_backoff: Some(max.into()), ..self }
    }
}

impl LeaseRequest {
    /// Returns a request for at most this many firings.
    pub fn up_to(max: u32) -> Self {
        Self { max: Some(max), ..Self::default() }
    }
}

impl Settlement {
    /// Returns the verdict that the firing is delivered.
    pub fn ack(token: impl Into<String>) -> Self {
        Self { token: token.into(), ack: Some(Ack {}), ..Self::default() }
    }

    /// Returns the verdict that the firing is to be tried again.
    pub fn retry(token: impl Into<String>, retry: RetryVerdict) -> Self {
        Self { token: token.into(), retry: Some(retry), ..Self::default() }
    }

    /// Returns the verdict that the firing is put off by `after`. The attempt does not count for the retry
    /// policy.
    pub fn snooze(token: impl Into<String>, after: impl Into<Duration>) -> Self {
        let snooze = Some(SnoozeVerdict { after: Some(after.into()) });
        Self { token: token.into(), snooze, ..Self::default() }
    }

    /// Returns the verdict that the firing is never to be tried again.
    pub fn dead(token: impl Into<String>, reason: impl Into<String>) -> Self {
        let dead = Some(DeadVerdict { reason: reason.into() });
        Self { token: token.into(), dead, ..Self::default() }
    }

    /// Returns an extension of the lease to `lease` from now.
    pub fn extend(token: impl Into<String>, lease: impl Into<Duration>) -> Self {
        let extend = Some(ExtendVerdict { lease: Some(lease.into()) });
        Self { token: token.into(), extend, ..Self::default() }
    }
}

macro_rules! filter_setters {
    ($($message:ty)+) => {$(
        impl $message {
            /// Selects timers in this state.
            #[must_use]
            pub fn with_state(self, state: State) -> Self {
                Self { state: state.into(), ..self }
            }

            /// Selects timers that are due at or after this time.
            #[must_use]
            pub fn with_due_from(self, time: impl Into<Time>) -> Self {
                Self { due_from: Some(time.into()), ..self }
            }

            /// Selects timers that are due before this time.
            #[must_use]
            pub fn with_due_to(self, time: impl Into<Time>) -> Self {
                Self { due_to: Some(time.into()), ..self }
            }

            /// Selects timers whose id begins with this.
            #[must_use]
            pub fn with_id_prefix(self, prefix: impl Into<String>) -> Self {
                Self { id_prefix: Some(prefix.into()), ..self }
            }

            /// Selects timers that have this tag.
            #[must_use]
            pub fn with_tag(self, tag: impl Into<String>) -> Self {
                Self { tag: Some(tag.into()), ..self }
            }
        }
    )+};
}

filter_setters!(CancelFilter ListRequest);

/// ```
/// # use duly_api::{CancelFilter, CancelManyRequest};
/// let of_a_customer = CancelFilter::default().with_tag("customer:7");
/// let count = CancelManyRequest::matching(of_a_customer).with_dry_run();
/// ```
impl CancelManyRequest {
    /// Returns a request to cancel the pending timers that meet every condition. A filter without
    /// conditions is refused.
    pub fn matching(filter: CancelFilter) -> Self {
        Self { filter: Some(filter), ..Self::default() }
    }

    /// Returns a request to cancel every pending timer of the namespace.
    pub fn everything() -> Self {
        Self { all: Some(true), ..Self::default() }
    }

    /// Makes it count the timers and change nothing.
    #[must_use]
    pub fn with_dry_run(self) -> Self {
        Self { dry_run: Some(true), ..self }
    }
}

fn names<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Option<DeadLetterNames> {
    Some(DeadLetterNames { names: names.into_iter().map(Into::into).collect() })
}

macro_rules! dead_letter_selections {
    ($($message:ty)+) => {$(
        impl $message {
            /// Returns a request for the latest dead letter of each of these timers.
            pub fn ids<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Self {
                Self { ids: names(ids), ..Self::default() }
            }

            /// Returns a request for the dead letters with these delivery ids.
            pub fn delivery_ids<T: Into<String>>(ids: impl IntoIterator<Item = T>) -> Self {
                Self { delivery_ids: names(ids), ..Self::default() }
            }

            /// Returns a request for every dead letter of the namespace.
            pub fn everything() -> Self {
                Self { all: Some(true), ..Self::default() }
            }
        }
    )+};
}

dead_letter_selections!(RedriveRequest PurgeRequest);
