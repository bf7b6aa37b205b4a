//! Where firings go, and when a failed one is tried again.

use std::time::Duration;

/// Where a firing goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Destination {
    /// Consumers lease it and settle it.
    Pull,
    /// Duly sends it to a webhook.
    Http(HttpDestination),
}

impl Destination {
    /// A webhook receiver at an absolute URL, with `POST` and the default time-out of 30 s.
    pub fn http(url: impl Into<String>) -> Self {
        let url = url.into();
        Self::Http(HttpDestination { url, method: None, headers: Vec::new(), timeout: None })
    }
}

/// A webhook receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpDestination {
    /// Absolute `http://` or `https://` URL without credentials and fragment.
    pub url: String,
    /// `POST` (when absent), `PUT` or `PATCH`.
    pub method: Option<String>,
    /// Headers of every delivery; answers show `***` for credentials.
    pub headers: Vec<(String, String)>,
    /// Time for the whole exchange, 100 ms to 10 min; 30 s when absent.
    pub timeout: Option<Duration>,
}

/// When a failed firing is tried again; what is absent is the server's default.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Attempts in all, the first included: 1 to 1000.
    pub max_attempts: Option<u32>,
    /// Wait after the first failed attempt.
    pub min_backoff: Option<Duration>,
    /// Longest wait, at most 30 days.
    pub max_backoff: Option<Duration>,
    /// Factor from one wait to the next, 1 to 100.
    pub multiplier: Option<f64>,
    /// Share of the wait by which it is moved up or down, 0 to 1.
    pub jitter: Option<f64>,
    /// The waits themselves, up to 100; with them nothing else may be given.
    pub delays: Vec<Duration>,
}

impl RetryPolicy {
    /// So many attempts in all, at growing distances.
    #[must_use]
    pub fn attempts(max_attempts: u32) -> Self {
        Self { max_attempts: Some(max_attempts), ..Self::default() }
    }

    /// One attempt more than there are waits.
    #[must_use]
    pub fn waits(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { delays: waits.into_iter().collect(), ..Self::default() }
    }

    /// The same policy with these bounds of the wait.
    #[must_use]
    pub fn backoff(mut self, min: Duration, max: Duration) -> Self {
        (self.min_backoff, self.max_backoff) = (Some(min), Some(max));
        self
    }
}
