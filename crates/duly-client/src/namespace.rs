//! Namespaces: settings, what the server shows of them, and counts.

use std::time::{Duration, SystemTime};

use crate::destination::{Destination, RetryPolicy};

/// Settings of a namespace; what is absent is its default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// Where firings go whose timer names no destination; pull when absent.
    pub destination: Option<Destination>,
    /// Where webhooks go whose own receiver does not take them.
    pub fallback: Option<Fallback>,
    /// Retry policy of timers that name none.
    pub retry: Option<RetryPolicy>,
    /// Lease of a claim that names none, 1 s to 12 h; 30 s when absent.
    pub lease: Option<Duration>,
    /// How long tombstones of ended timers are kept; a day when absent.
    pub retention: Option<Duration>,
    /// Share when workers are scarce, 1 to 1000; 1 when absent.
    pub weight: Option<u32>,
    /// Secrets that webhooks are signed with, at most two; those that are there stay when absent.
    pub signing_secrets: Option<Vec<String>>,
    /// What is allowed.
    pub limits: Option<Limits>,
}

/// A setting that can go back to its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsField {
    /// Pull.
    Destination,
    /// No second receiver.
    Fallback,
    /// The server's retry policy.
    Retry,
    /// 30 s.
    Lease,
    /// A day.
    Retention,
    /// 1.
    Weight,
    /// None: webhooks are not signed.
    SigningSecrets,
    /// Every one its default.
    Limits,
}

/// What to change of a namespace's settings: what is absent stays, what is given is replaced whole.
///
/// ```
/// # use duly_client::{Settings, SettingsChange, namespace::SettingsField};
/// let heavier = Settings { weight: Some(5), ..Settings::default() };
/// let change = SettingsChange::from(heavier).reset(SettingsField::Retry);
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SettingsChange {
    pub(crate) settings: Settings,
    pub(crate) reset: Vec<SettingsField>,
}

impl SettingsChange {
    /// Nothing yet; a change that changes nothing is refused.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A setting goes back to its default.
    #[must_use]
    pub fn reset(mut self, field: SettingsField) -> Self {
        self.reset.push(field);
        self
    }
}

impl From<Settings> for SettingsChange {
    fn from(settings: Settings) -> Self {
        Self { settings, reset: Vec::new() }
    }
}

/// A second receiver of a namespace's webhooks, which takes over when the first fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The receiver: a webhook.
    pub destination: Destination,
    /// It gets the attempts of a firing after so many failed ones; 5 when absent.
    pub after_attempts: Option<u32>,
    /// It gets every firing of a lane whose breaker has stayed open so long; 1 min when absent.
    pub after_open: Option<Duration>,
}

/// Limits of a namespace. In a request an absent one is its default, in an answer it is unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Schedules taken per second.
    pub schedule_per_second: Option<u32>,
    /// Attempts begun per second and push lane.
    pub deliver_per_second: Option<u32>,
    /// Attempts under way at once per push lane.
    pub max_in_flight: Option<u32>,
    /// Pending timers.
    pub max_pending: Option<u64>,
    /// Bytes of one payload as stored.
    pub max_payload_bytes: Option<u64>,
    /// Longest time from now to due.
    pub max_delay: Option<Duration>,
    /// Dead letters; at the limit the namespace's lanes stop.
    pub max_dead: Option<u64>,
    /// Tombstones of ended timers; past it the oldest go first.
    pub max_retained: Option<u64>,
}

/// A namespace as the server shows it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Whether claims are refused.
    pub paused: bool,
    /// When it goes on by itself, while it is paused.
    pub resumes_at: Option<SystemTime>,
    /// Its settings; secrets are never shown.
    pub settings: Settings,
    /// Fingerprints of its signing secrets.
    pub signing_secret_fingerprints: Vec<String>,
    /// When it was made.
    pub created_at: Option<SystemTime>,
    /// When its settings last changed.
    pub updated_at: Option<SystemTime>,
}

/// Counts of a namespace.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Waiting for their due time.
    pub scheduled: u64,
    /// Due and unclaimed.
    pub due: u64,
    /// Under a lease.
    pub in_flight: u64,
    /// Waiting for, or due for, another attempt.
    pub retrying: u64,
    /// Dead letters.
    pub dead: u64,
    /// Scheduled, due, in flight and retrying.
    pub pending: u64,
    /// Estimated bytes of the pending timers.
    pub pending_bytes: u64,
    /// Tombstones of ended timers.
    pub retained: u64,
    /// Earliest due time still ahead.
    pub next_due_at: Option<SystemTime>,
    /// Earliest due time of what is due and unclaimed.
    pub oldest_due_at: Option<SystemTime>,
    /// Whether claims are refused.
    pub paused: bool,
    /// Whether no claim is granted because there are `max_dead` dead letters.
    pub dead_letters_full: bool,
    /// Lanes with pending timers.
    pub lanes: Vec<Lane>,
    /// The breaker of the namespace's fallback, if it has one: `closed`, `open`, `half_open`.
    pub fallback_breaker: Option<String>,
    /// Totals since the namespace was made; they survive a restart.
    pub totals: Totals,
}

/// Counts of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lane {
    /// `pull`, an HTTP origin, or `overflow`.
    pub lane: String,
    /// Due and unclaimed first attempts.
    pub due: u64,
    /// Due and unclaimed retries.
    pub retry_due: u64,
    /// Under a lease.
    pub in_flight: u64,
    /// The breaker of a push lane that the server has served lately: `closed`, `open`, `half_open`.
    pub breaker: Option<String>,
}

/// Totals of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Timers made.
    pub scheduled: u64,
    /// First attempts begun.
    pub fired: u64,
    /// Deliveries confirmed.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Timers changed.
    pub rescheduled: u64,
    /// Dead letters made.
    pub dead: u64,
}

/// How many pending timers become claimable when: each is counted once. While timers change it is a
/// fuzzy picture.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// The moment that it is seen from.
    pub now: Option<SystemTime>,
    /// Length of a bucket.
    pub bucket: Duration,
    /// Claimable already.
    pub overdue: u64,
    /// Under a lease.
    pub in_flight: u64,
    /// One after the other; the first is the one that `now` lies in.
    pub buckets: Vec<Bucket>,
    /// Due when the last bucket ends, or after it.
    pub later: u64,
    /// The sum of all.
    pub pending: u64,
}

/// One bucket of a forecast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bucket {
    /// Where it begins.
    pub from: Option<SystemTime>,
    /// Timers that become claimable in it.
    pub due: u64,
}
