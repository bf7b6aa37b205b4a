//! Every metric of Duly: name, unit, labels, meaning. No other file spells a metric name.
//!
//! Each part of the code records its own metrics (with the `metrics` facade). The server describes and
//! exports them. Tests compare this table with the alert rules and the dashboard of `docs/operate`.

use crate::{
    access::TenantLimit,
    lane_states::{BreakerState, LaneActivity},
    refusal::Limit,
    timer::AttemptOutcome,
};

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A count that only rises.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// A distribution.
    Histogram,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    /// The name of the label.
    pub name: &'static str,
    /// All possible values; empty if any value is possible.
    pub values: &'static [&'static str],
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// The name, with the unit last.
    pub name: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The labels, without `le` of a histogram.
    pub labels: &'static [Label],
    /// The meaning.
    pub help: &'static str,
}

impl Metric {
    /// Returns `true` if the metric has a label of this name that can have this value.
    pub fn allows(&self, label: &str, value: &str) -> bool {
        let mut labels = self.labels.iter().filter(|it| it.name == label);
        labels.any(|it| it.values.is_empty() || it.values.contains(&value))
    }
}

/// Returns the metric of this name.
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().find(|metric| metric.name == name)
}

const ANY: &[&str] = &[];
const DELIVERY_KINDS: &[&str] = &["push", "pull"];
const ATTEMPT_KINDS: &[&str] = &["first", "retry"];
const ATTEMPT_OUTCOMES: &[&str] = &AttemptOutcome::NAMES;
/// Kinds of operations on timers, as labels.
pub const OPERATIONS: &[&str] = &[
    "schedule",
    "reschedule",
    "cancel",
    "fire",
    "redrive",
    "purge",
    "dead_letter",
    "import",
    "forget",
];
/// Outcomes of operations, as labels.
pub const OUTCOMES: &[&str] = &[
    "created",
    "existing",
    "replaced",
    "changed",
    "unchanged",
    "cancelled",
    "stopped",
    "purged",
    "refused",
    "failed",
];
/// Limits at which operations are refused, as labels.
pub const LIMITS: &[&str] = &Limit::NAMES;
const TENANT_LIMITS: &[&str] = &TenantLimit::NAMES;
const BACKUP_OUTCOMES: &[&str] = &["made", "failed"];
const TRACE_OUTCOMES: &[&str] = &["exported", "failed"];
const SHARD_FAULTS: &[&str] = &[
    "missing",
    "foreign",
    "rolled_back",
    "open_slot",
    "no_replicas",
    "silent",
    "denied",
    "not_serving",
    "no_owner",
];
const LANE_STATES: &[&str] = &LaneActivity::NAMES;
const BREAKER_STATES: &[&str] = &BreakerState::NAMES;
const FINDINGS: &[&str] =
    &["file", "record", "lane", "lease", "early", "forgotten", "count", "neglected"];

const AUDIT_TARGETS: &[&str] = &["file", "store"];
const AUDIT_DROPS: &[&str] = &["unwritten", "stranger", "share", "displaced"];

macro_rules! metrics {
    ($($ident:ident = $name:literal $kind:ident
        $([$($label:literal: $values:ident),*])? $help:literal;)*) => {
        $(#[doc = $help] pub const $ident: &str = $name;)*
        /// Every metric.
        pub const ALL: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($(Label { name: $label, values: $values }),*)?],
            help: $help,
        }),*];
    };
}

metrics! {
    LATENESS_SECONDS = "duly_lateness_seconds" Histogram ["kind": DELIVERY_KINDS, "attempt": ATTEMPT_KINDS]
        "Time from claimable to the attempt (push: request sent; pull: firing handed out). Labels: kind (push, pull), attempt (first, retry).";
    ATTEMPTS_TOTAL = "duly_attempts_total" Counter ["kind": DELIVERY_KINDS, "outcome": ATTEMPT_OUTCOMES, "namespace": ANY]
        "Attempts that ended. Labels: kind, outcome, namespace (first 100, then other).";
    SNOOZES_TOTAL = "duly_snoozes_total" Counter ["kind": DELIVERY_KINDS, "namespace": ANY]
        "Attempts whose firing the consumer or receiver put off; they do not count for the retry policy. Labels: kind, namespace (first 100, then other).";
    DELIVERY_SECONDS = "duly_delivery_seconds" Histogram
        "Time a push attempt took, from request to verdict.";
    OPERATIONS_TOTAL = "duly_operations_total" Counter ["operation": OPERATIONS, "outcome": OUTCOMES]
        "Operations on timers. Labels: operation, outcome.";
    LIMIT_REFUSALS_TOTAL = "duly_limit_refusals_total" Counter ["limit": LIMITS]
        "Operations on timers that were refused at a limit (429). Label: limit (schedule_per_second, max_pending, max_dead, disk, memory, segment).";
    NAMESPACE_REFUSALS_TOTAL = "duly_namespace_refusals_total" Counter ["namespace": ANY, "limit": LIMITS]
        "Operations on timers of a namespace that were refused at a limit (429). Labels: namespace (first 100, then other), limit.";
    TENANT_REFUSALS_TOTAL = "duly_tenant_refusals_total" Counter ["tenant": ANY, "limit": TENANT_LIMITS]
        "Calls, schedules, connections and namespaces that were refused at a limit of a tenant (429). Labels: tenant (first 100, then other), limit.";
    TENANT_USE_RATIO = "duly_tenant_use_ratio" Gauge ["tenant": ANY, "limit": TENANT_LIMITS]
        "Use of a limit of a tenant, as a part of the limit: 1 is full. Namespaces and timers are those of the deployment, the rest is of this node. Labels: tenant (first 100), limit (except the two rates).";
    NAMESPACE_PENDING = "duly_namespace_pending" Gauge ["namespace": ANY]
        "Pending timers of a namespace: every node reports the same, as for the two gauges that follow. Label: namespace (100 at a node: the first by name when it first counted, then new ones).";
    NAMESPACE_DEAD = "duly_namespace_dead" Gauge ["namespace": ANY]
        "Dead letters of a namespace. Label: namespace (as for duly_namespace_pending).";
    NAMESPACE_OLDEST_DUE_SECONDS = "duly_namespace_oldest_due_seconds" Gauge ["namespace": ANY]
        "Age of the oldest firing of a namespace that is due and was never attempted; 0 if there is none. Label: namespace (as for duly_namespace_pending).";
    NAMESPACE_LATENESS_SECONDS = "duly_namespace_lateness_seconds" Histogram ["namespace": ANY]
        "Time from claimable to the attempt, by namespace, with the bounds 0.1, 1 and 10 s. Label: namespace (first 100, then other).";
    BACKUPS_TOTAL = "duly_backups_total" Counter ["outcome": BACKUP_OUTCOMES]
        "Scheduled backups. Label: outcome (made, failed).";
    BACKUP_DUE_TIMESTAMP_SECONDS = "duly_backup_due_timestamp_seconds" Gauge
        "Unix time at which the next scheduled backup is due. In the past while a due one fails or does not end.";
    START_TIME_SECONDS = "duly_start_time_seconds" Gauge
        "Time at which the process started its server, in seconds since 1970.";
    TRACE_SPANS_TOTAL = "duly_trace_spans_total" Counter ["outcome": TRACE_OUTCOMES]
        "Spans of timers that were sent to the collector. Label: outcome (exported, failed).";
    COMMIT_SECONDS = "duly_commit_seconds" Histogram
        "Time from taking a batch to its being durable.";
    FSYNC_SECONDS = "duly_fsync_seconds" Histogram
        "Time of one fdatasync of the journal.";
    COMMIT_BYTES_TOTAL = "duly_commit_bytes_total" Counter
        "Bytes appended to the journal.";
    PENDING = "duly_deployment_pending" Gauge
        "Pending timers of the deployment: every node reports the same, as for each duly_deployment_ metric.";
    DUE = "duly_deployment_due" Gauge
        "Due and unclaimed firings of the deployment.";
    UNREADABLE = "duly_unreadable" Gauge
        "Due firings whose records are unreadable now: the reads are retried, and the firings are \
         delivered once a read succeeds.";
    IN_FLIGHT = "duly_deployment_in_flight" Gauge
        "Firings of the deployment under a lease.";
    DEAD = "duly_deployment_dead" Gauge
        "Dead letters of the deployment.";
    RETAINED = "duly_deployment_retained" Gauge
        "Tombstones of ended timers, kept for the namespaces' retention.";
    NAMESPACES_PAUSED = "duly_deployment_namespaces_paused" Gauge
        "Namespaces that are paused.";
    NAMESPACES_DEAD_FULL = "duly_deployment_namespaces_dead_full" Gauge
        "Namespaces with as many dead letters as limits.namespace.max_dead allows: nothing of them is delivered.";
    STORE_SHARDS_UNAVAILABLE = "duly_deployment_shards_unavailable" Gauge ["reason": SHARD_FAULTS]
        "Shards of a store on Redis that take no calls, or no changes. Label: reason (missing, foreign, rolled_back, open_slot, no_replicas, silent, denied, not_serving, no_owner).";
    AUDIT_DROPPED_TOTAL = "duly_audit_dropped_total" Counter ["target": AUDIT_TARGETS, "reason": AUDIT_DROPS]
        "Lines of the audit log that were lost: not written for too long (unwritten), or too many of callers without a key (stranger) or of calls that changed nothing (share). A full store loses the oldest of the caller with the most (displaced). Labels: target (file, store), reason.";
    STORE_ROLLBACKS_TOTAL = "duly_store_rollbacks_total" Counter
        "Rollbacks of shards of a store on Redis that this node detected: a shard returned with \
         data more than 5 s older.";
    KEYS_ROLLED_BACK = "duly_keys_rolled_back" Gauge
        "1 while the keys and tenants in Redis lack changes that this node knows: they cannot be changed until `duly store repair --keys`.";
    NAMESPACES_TO_REPAIR = "duly_deployment_namespaces_to_repair" Gauge
        "Namespaces whose coordinator shard in Redis has lost their record, or whose shards do not agree on it: calls for them are refused until `duly namespace repair`.";
    OLDEST_DUE_SECONDS = "duly_deployment_oldest_due_seconds" Gauge
        "Age of the oldest due and unclaimed firing of the deployment.";
    LANES = "duly_lanes" Gauge ["state": LANE_STATES]
        "Push lanes that have attempts or quota, or request some. Label: state (flowing, capped, \
         starved, throttled, shut).";
    BREAKERS = "duly_breakers" Gauge ["state": BREAKER_STATES]
        "Push lanes with attempts under way or a breaker that is not closed. Label: state (closed, open, half_open).";
    LANES_NEGLECTED = "duly_lanes_neglected" Gauge
        "Lanes with timers due that made no progress between the last two checks of the auditor: anything but 0 is an alarm.";
    NAMESPACES_UNLEASED = "duly_namespaces_unleased" Gauge
        "Namespaces whose timers for consumers have been due for a minute without a lease call: at most 10, named in `/readyz` and in the log.";
    LANES_DIVERTED = "duly_lanes_diverted" Gauge
        "Push lanes whose firings go to their namespace's fallback because their own receiver has \
         failed for too long.";
    FALLBACK_BREAKERS = "duly_fallback_breakers" Gauge ["state": BREAKER_STATES]
        "Breakers of namespaces' fallbacks, of those that attempts went to lately. Label: state (closed, open, half_open).";
    LANES_OVERFLOW = "duly_lanes_overflow" Gauge
        "Overflow lanes that have attempts or quota, or request some: timers of their namespaces \
         name more HTTP origins than have lanes of their own.";
    LEASE_WAITERS = "duly_lease_waiters" Gauge
        "Lease calls that wait for a firing.";
    INDEX_BYTES = "duly_index_bytes" Gauge
        "Heap bytes of the index.";
    INDEX_BYTES_MAX = "duly_index_bytes_max" Gauge
        "Heap bytes of the index past which new timers are refused (store.index_memory_max).";
    CALENDAR_BYTES = "duly_calendar_bytes" Gauge
        "Heap bytes of the due queue.";
    DISK_BYTES = "duly_disk_bytes" Gauge
        "Bytes of the files in the data directory.";
    DISK_FREE_BYTES = "duly_disk_free_bytes" Gauge
        "Free bytes of the file system that the data directory is on.";
    DISK_RESERVE_BYTES = "duly_disk_reserve_bytes" Gauge
        "Free bytes below which new timers are refused (store.min_free_bytes, store.min_free_percent).";
    DISK_FREE_INODES = "duly_disk_free_inodes" Gauge
        "Free inodes of the file system that the data directory is on, where it counts them: every file takes one.";
    DISK_RESERVE_INODES = "duly_disk_reserve_inodes" Gauge
        "Free inodes below which new timers are refused.";
    REWRITE_BACKLOG_BYTES = "duly_rewrite_backlog_bytes" Gauge
        "Bytes of journal segments that are old enough to be rewritten and still wait for it.";
    REPLAY_BYTES = "duly_replay_bytes" Gauge
        "Bytes of the journal after the last checkpoint, which the next recovery reads.";
    RESIDENT_BYTES = "duly_resident_bytes" Gauge
        "Memory of the process that is in RAM (Linux).";
    TLS_CERTIFICATE_EXPIRY = "duly_tls_certificate_expiry_timestamp_seconds" Gauge
        "Unix time at which the server's TLS certificate expires.";
    ADMIN_KEY_EXPIRY = "duly_admin_key_expiry_timestamp_seconds" Gauge
        "End of the administrator key that is valid longest, in Unix time; 0 if it has no end, or if no keys are required.";
    READY = "duly_ready" Gauge
        "1 while /readyz returns 200, 0 while it returns the reasons why not.";
    QUARANTINED_TOTAL = "duly_quarantined_total" Counter
        "Timers whose record could not be read and that became dead letters.";
    AUDIT_FINDINGS_TOTAL = "duly_audit_findings_total" Counter ["kind": FINDINGS]
        "Faults that the invariant checks of the store have found. Label: kind (file, record, \
         lane, lease, early, forgotten, count, neglected).";
    AUDIT_TIMESTAMP_SECONDS = "duly_audit_timestamp_seconds" Gauge
        "Unix time at which the last complete invariant check of the store ended.";
    CLOCK_STEPS_TOTAL = "duly_clock_steps_total" Counter
        "Steps of the wall clock against the boot-time clock that were noticed.";
    WATCHDOG_RESTARTS_TOTAL = "duly_watchdog_restarts_total" Counter
        "Background tasks, calls and deliveries that stalled or failed and were restarted.";
    HTTP_REQUESTS_TOTAL = "duly_http_requests_total" Counter ["route": ANY, "status": ANY]
        "HTTP requests that got a response. Labels: route, status.";
    HTTP_SECONDS = "duly_http_seconds" Histogram ["route": ANY]
        "Time from an HTTP request to its response. Label: route.";
}

#[cfg(test)]
mod tests;
