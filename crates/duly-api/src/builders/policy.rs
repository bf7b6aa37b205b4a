//! Destinations and retry policies.

use crate::{Destination, Duration, HttpDestination, Retry};

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
