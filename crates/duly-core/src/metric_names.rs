//! Every metric of Duly: name, unit, meaning. No other file spells a metric name.
//!
//! Recording is each part's own business (the `metrics` facade); describing and exporting them is
//! the server's.

/// What kind of metric it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, unit last.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($ident:ident = $name:literal $kind:ident $help:literal;)*) => {
        $(#[doc = $help] pub const $ident: &str = $name;)*
        /// Every metric.
        pub const ALL: &[Metric] =
            &[$(Metric { name: $name, kind: Kind::$kind, help: $help }),*];
    };
}

metrics! {
    LATENESS_SECONDS = "duly_lateness_seconds" Histogram
        "Time from claimable to the attempt (push: request sent; pull: firing handed out). Labels: kind (push, pull), attempt (first, retry).";
    ATTEMPTS_TOTAL = "duly_attempts_total" Counter
        "Attempts that ended. Labels: kind, outcome, namespace (first 100, then other).";
    DELIVERY_SECONDS = "duly_delivery_seconds" Histogram
        "Time a push attempt took, from request to verdict.";
    OPERATIONS_TOTAL = "duly_operations_total" Counter
        "Operations on timers. Labels: operation, outcome.";
    COMMIT_SECONDS = "duly_commit_seconds" Histogram
        "Time from taking a batch to its being durable.";
    FSYNC_SECONDS = "duly_fsync_seconds" Histogram
        "Time of one fdatasync of the journal.";
    COMMIT_BYTES_TOTAL = "duly_commit_bytes_total" Counter
        "Bytes appended to the journal.";
    PENDING = "duly_pending" Gauge
        "Pending timers.";
    DUE = "duly_due" Gauge
        "Due and unclaimed firings.";
    IN_FLIGHT = "duly_in_flight" Gauge
        "Firings under a lease.";
    DEAD = "duly_dead" Gauge
        "Dead letters.";
    OLDEST_DUE_SECONDS = "duly_oldest_due_seconds" Gauge
        "Age of the oldest due and unclaimed firing.";
    LANES = "duly_lanes" Gauge
        "Push lanes that hold or want something. Label: state (flowing, capped, starved, throttled, shut).";
    BREAKERS = "duly_breakers" Gauge
        "Push lanes with attempts under way or a breaker that is not closed. Label: state (closed, open, half_open).";
    LANES_NEGLECTED = "duly_lanes_neglected" Gauge
        "Lanes with something due that nobody worked on at the last two looks of the auditor: anything but 0 is an alarm.";
    LEASE_WAITERS = "duly_lease_waiters" Gauge
        "Lease calls that wait for a firing.";
    INDEX_BYTES = "duly_index_bytes" Gauge
        "Heap bytes of the index.";
    CALENDAR_BYTES = "duly_calendar_bytes" Gauge
        "Heap bytes of the calendar and the due sets.";
    DISK_BYTES = "duly_disk_bytes" Gauge
        "Bytes of the files in the data directory.";
    QUARANTINED_TOTAL = "duly_quarantined_total" Counter
        "Timers whose record could not be read and that became dead letters.";
    AUDIT_FINDINGS_TOTAL = "duly_audit_findings_total" Counter
        "Faults that the store has found in itself. Label: kind (file, record, lane, lease, early, forgotten, count, neglected).";
    AUDIT_TIMESTAMP_SECONDS = "duly_audit_timestamp_seconds" Gauge
        "When the store last had looked for faults everywhere, in Unix time.";
    CLOCK_STEPS_TOTAL = "duly_clock_steps_total" Counter
        "Steps of the wall clock against the boot-time clock that were noticed.";
    WATCHDOG_RESTARTS_TOTAL = "duly_watchdog_restarts_total" Counter
        "Loops, calls and deliveries that stood still or broke and were begun again.";
    POISONED = "duly_poisoned" Gauge
        "1 after a failed write or fsync; the process must be restarted.";
    HTTP_REQUESTS_TOTAL = "duly_http_requests_total" Counter
        "HTTP requests answered. Labels: route, status.";
    HTTP_SECONDS = "duly_http_seconds" Histogram
        "Time to answer an HTTP request. Label: route.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_prefixed_and_carry_their_unit() {
        let mut seen = std::collections::BTreeSet::new();
        for metric in ALL {
            assert!(seen.insert(metric.name), "{} stands twice", metric.name);
            assert!(metric.name.starts_with("duly_"), "{}", metric.name);
            let counts = metric.name.ends_with("_total");
            assert_eq!(counts, metric.kind == Kind::Counter, "{}", metric.name);
        }
    }
}
