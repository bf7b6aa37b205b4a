//! Selections: timers to list or to cancel, dead letters to redrive or to purge.

use crate::{
    CancelFilter, CancelManyRequest, DeadLetterNames, Duration, PurgeRequest, RedriveRequest,
    State, Time, v1::ListRequest,
};

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

impl ListRequest {
    /// Sets the most timers of a page.
    #[must_use]
    pub fn with_limit(self, timers: u32) -> Self {
        Self { limit: Some(timers), ..self }
    }

    /// Sets the place to continue from.
    #[must_use]
    pub fn with_cursor(self, cursor: impl Into<String>) -> Self {
        Self { cursor: Some(cursor.into()), ..self }
    }
}

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

    /// Sets the most timers to cancel.
    #[must_use]
    pub fn with_limit(self, timers: u32) -> Self {
        Self { limit: Some(timers), ..self }
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

impl RedriveRequest {
    /// Sets the time to wait first.
    #[must_use]
    pub fn with_delay(self, delay: impl Into<Duration>) -> Self {
        Self { delay: Some(delay.into()), ..self }
    }

    /// Sets the rate at which they become due.
    #[must_use]
    pub fn with_per_second(self, rate: f64) -> Self {
        Self { per_second: Some(rate), ..self }
    }
}
