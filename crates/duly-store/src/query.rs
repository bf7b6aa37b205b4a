//! Reads: one timer, lists, counts, health.

pub use duly_core::view::{Body, TimerView};
use duly_core::{
    Incarnation, Millis, NamespaceName, State, TimerId, Timestamp, destination::LaneKey,
    invalid::check_range, shard::ShardId, totals::Totals,
};

use crate::Result;

/// Maximum number of timers of one page.
pub const PAGE_MAX: usize = 1_000;

/// Default maximum memory of a page, in bytes.
pub const PAGE_BYTES: u64 = 4 << 20;

/// A request for a page of timers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The states to list.
    pub state: ListState,
    /// Lower end of the due times, inclusive.
    pub due_from: Option<Timestamp>,
    /// Upper end of the due times, exclusive.
    pub due_to: Option<Timestamp>,
    /// Prefix of the ids.
    pub id_prefix: Option<String>,
    /// A tag of the timers.
    pub tag: Option<String>,
    /// Maximum number of timers of the page, 1 to [`PAGE_MAX`]; any other number refuses the call.
    pub limit: usize,
    /// Maximum memory of the page's timers ([`TimerView::memory_bytes`]), in bytes. The page ends before the
    /// first timer that does not fit. If not even the first timer of the page fits, the call fails with
    /// [`crate::Error::TooLarge`].
    pub bytes_max: u64,
    /// The position after which the page starts.
    pub after: Option<Position>,
}

impl ListRequest {
    /// Creates the request for the first page of all timers in this state, with the largest limits.
    pub const fn new(namespace: NamespaceName, state: ListState) -> Self {
        Self {
            namespace,
            state,
            due_from: None,
            due_to: None,
            id_prefix: None,
            tag: None,
            limit: PAGE_MAX,
            bytes_max: PAGE_BYTES,
            after: None,
        }
    }

    /// Returns `true` if each timer must be examined to know if it is listed, so a page may take long and be
    /// empty.
    pub fn is_searched(&self) -> bool {
        self.tag.is_some() || self.id_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty())
    }

    /// Checks the limits of the request.
    ///
    /// # Errors
    /// `Invalid`, which names `limit`.
    pub fn check(&self) -> Result<()> {
        Ok(check_range("limit", self.limit, 1..=PAGE_MAX)?)
    }

    /// Returns `true` if the timer matches all filters. Does not check `after`.
    pub fn admits(&self, view: &TimerView) -> bool {
        let due_at = view.due_at();
        let prefix = self.id_prefix.as_deref().unwrap_or("");
        let has = |tag| view.timer().is_some_and(|timer| timer.spec.tags.as_slice().contains(tag));
        self.state.admits(view.state)
            && self.due_from.is_none_or(|from| due_at >= from)
            && self.due_to.is_none_or(|to| due_at < to)
            && view.id().as_str().starts_with(prefix)
            && self.tag.as_ref().is_none_or(has)
    }
}

/// The states to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListState {
    /// Scheduled, due, in flight and retrying.
    Pending,
    /// One state.
    Only(State),
}

impl ListState {
    /// Returns `true` if timers in this state are listed.
    pub fn admits(self, state: State) -> bool {
        match self {
            Self::Pending => state.is_pending(),
            Self::Only(only) => only == state,
        }
    }
}

/// A position in the order of a list: (due time, id, incarnation, occurrence). Incarnation and occurrence
/// distinguish the dead letters of one id; they are 0 for every other timer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Due time.
    pub due_at: Timestamp,
    /// Id.
    pub id: TimerId,
    /// Incarnation of a dead letter, else 0.
    pub incarnation: Incarnation,
    /// Occurrence of a dead letter, else 0.
    pub occurrence: u32,
}

impl Position {
    /// Returns the position of a view in a list.
    pub fn of(view: &TimerView) -> Self {
        let (incarnation, occurrence) = match (&view.body, view.state) {
            (Body::Whole(timer), State::Dead) => (timer.incarnation, timer.occurrence),
            _ => (Incarnation(0), 0),
        };
        Self { due_at: view.due_at(), id: view.id().clone(), incarnation, occurrence }
    }
}

/// One page of a list, in order of [`Position`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The timers.
    pub timers: Vec<TimerView>,
    /// The position after which the next page starts; absent at the end.
    pub next: Option<Position>,
    /// Approximate number of timers that were examined for this page, including those that the filters
    /// exclude.
    pub examined: u64,
}

/// Counts of one namespace in one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Timers that wait for their due time.
    pub scheduled: u64,
    /// Timers that are due and not leased, without a failed attempt.
    pub due: u64,
    /// Timers under a lease.
    pub in_flight: u64,
    /// Timers that wait for, or are due for, another attempt.
    pub retrying: u64,
    /// Dead letters.
    pub dead: u64,
    /// Tombstones of ended timers.
    pub retained: u64,
    /// Estimated size of the pending timers' records, in bytes.
    pub pending_bytes: u64,
    /// Earliest future time at which a timer or retry becomes claimable; leases do not count. If the store
    /// searches a very large namespace for it, a timer that changes meanwhile may be taken with its earlier
    /// state.
    pub next_due_at: Option<Timestamp>,
    /// Earliest due time of the timers that are due and were never attempted.
    pub oldest_due_at: Option<Timestamp>,
    /// `true`: the namespace is paused.
    pub paused: bool,
    /// Lanes with pending timers.
    pub lanes: Vec<LaneStats>,
    /// Monotonic totals, which survive a restart.
    pub totals: Totals,
}

impl Stats {
    /// Returns the number of pending timers: scheduled, due, in flight and retrying.
    pub const fn pending(&self) -> u64 {
        self.scheduled + self.due + self.in_flight + self.retrying
    }

    /// Adds the counts of a lane to those of the lane with the same key.
    pub fn add_lane(&mut self, lane: LaneStats) {
        match self.lanes.iter_mut().find(|known| known.key == lane.key) {
            Some(known) => {
                known.due += lane.due;
                known.retry_due += lane.retry_due;
                known.in_flight += lane.in_flight;
            }
            None => self.lanes.push(lane),
        }
    }

    /// Returns the sum of the counts of two shards.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        for lane in other.lanes {
            self.add_lane(lane);
        }
        let earliest = |a: Option<Timestamp>, b| a.into_iter().chain(b).min();
        Self {
            scheduled: self.scheduled + other.scheduled,
            due: self.due + other.due,
            in_flight: self.in_flight + other.in_flight,
            retrying: self.retrying + other.retrying,
            dead: self.dead + other.dead,
            retained: self.retained + other.retained,
            pending_bytes: self.pending_bytes + other.pending_bytes,
            next_due_at: earliest(self.next_due_at, other.next_due_at),
            oldest_due_at: earliest(self.oldest_due_at, other.oldest_due_at),
            paused: self.paused || other.paused,
            lanes: self.lanes,
            totals: self.totals + other.totals,
        }
    }
}

/// Counts of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStats {
    /// The lane.
    pub key: LaneKey,
    /// First attempts that are due and not leased.
    pub due: u64,
    /// Retries that are due and not leased.
    pub retry_due: u64,
    /// Firings under a lease.
    pub in_flight: u64,
}

/// Free space of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Free bytes.
    pub free_bytes: u64,
    /// Free bytes below which new timers are refused.
    pub reserve_bytes: u64,
    /// The same for inodes, if the file system counts them.
    pub inodes: Option<InodeRoom>,
}

/// Free inodes of the disk: every file takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeRoom {
    /// Number of files that can still be created.
    pub free: u64,
    /// Free inodes below which new timers are refused.
    pub reserve: u64,
}

duly_core::named_enum! {
    /// The reason for which a shard takes no calls, or no changes, named as in metrics.
    #[derive(PartialOrd, Ord)]
    pub enum ShardFault {
        /// Its data is gone.
        Missing = "missing",
        /// Its data is that of another deployment.
        Foreign = "foreign",
        /// It came back with older data, and an operator must confirm that.
        RolledBack = "rolled_back",
        /// Its slot is half on another server: a move was interrupted.
        OpenSlot = "open_slot",
        /// Its master does not get its changes confirmed by enough replicas, or refuses them for that reason.
        NoReplicas = "no_replicas",
        /// Its master does not reply, or replies to probes and not to changes.
        Silent = "silent",
        /// Its master refuses the commands of the user.
        Denied = "denied",
        /// Its master refuses or postpones every call: a script or a load of data keeps it busy, or it cannot write.
        NotServing = "not_serving",
        /// Its slot has no master, or the Cluster is down.
        NoOwner = "no_owner",
    }
}

/// The health of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Reasons for which it cannot serve; empty if it can. A reason is a sentence for people.
    pub not_ready: Vec<String>,
    /// Work that hangs, such as a sync of the disk: the store serves nothing until it ends. A sentence for people each.
    pub stalls: Vec<String>,
    /// A change of the keys that hangs, as a sentence for people: a revoked key still works, and timers go on.
    pub keys_stall: Option<String>,
    /// Problems that an operator should fix, although it can serve. A warning is a sentence for people.
    pub warnings: Vec<String>,
    /// Shards that take no calls, or no changes, with the fault of each.
    pub unavailable_shards: Vec<(ShardId, ShardFault)>,
    /// Number of times that a shard came back with older data, as this node noticed.
    pub rollbacks: u64,
    /// `true`: the keys and tenants of the store lack changes that this node knows.
    pub keys_rolled_back: bool,
    /// Pending timers in all namespaces.
    pub pending: u64,
    /// Firings in all namespaces that are due and not leased.
    pub overdue: u64,
    /// Of these, the firings whose records the disk does not return now: they are tried again.
    pub unreadable: u64,
    /// Firings under a lease in all namespaces.
    pub in_flight: u64,
    /// Dead letters in all namespaces.
    pub dead: u64,
    /// Tombstones of ended timers in all namespaces.
    pub retained: u64,
    /// Namespaces that are paused.
    pub namespaces_paused: u64,
    /// Namespaces that have reached their limit of dead letters: none of their firings is delivered.
    pub namespaces_dead_full: u64,
    /// Namespaces whose coordinator shard has lost their record while other shards hold them. Calls for them
    /// are refused until they are repaired.
    pub namespaces_to_repair: u64,
    /// Heap bytes of the index.
    pub index_bytes: u64,
    /// Maximum of these bytes before new timers are refused, if there is one.
    pub index_bytes_max: Option<u64>,
    /// Heap bytes of the due queue.
    pub calendar_bytes: u64,
    /// Size of the files of the data directory, in bytes.
    pub disk_bytes: u64,
    /// Free space of the disk of the data directory, if it can be determined.
    pub disk_room: Option<DiskRoom>,
    /// Size of the old files that wait for the rewriter, in bytes.
    pub rewrite_backlog_bytes: u64,
    /// Size of the journal after the last checkpoint, in bytes: a start reads it back.
    pub replay_bytes: u64,
    /// Age of the oldest firing that is due and not leased.
    pub oldest_due_age: Option<Millis>,
    /// Number of faults that the store's invariant check has found since the store was opened.
    pub audit_findings: u64,
    /// The time at which the invariant check last completed.
    pub audited_at: Option<Timestamp>,
}
