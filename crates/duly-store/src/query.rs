//! Reading: one timer, lists, counts.

pub use duly_core::view::{Body, TimerView};
use duly_core::{
    Incarnation, Invalid, Millis, NamespaceName, State, TimerId, Timestamp, destination::LaneKey,
    shard::ShardId,
};

use crate::Result;

/// Most timers of one page.
pub const PAGE_MAX: usize = 1_000;

/// Bytes of memory that a page takes at most, unless its request says otherwise.
pub const PAGE_BYTES: u64 = 4 << 20;

/// Which timers to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// The namespace.
    pub namespace: NamespaceName,
    /// In which state.
    pub state: ListState,
    /// Due at or after this.
    pub due_from: Option<Timestamp>,
    /// Due before this.
    pub due_to: Option<Timestamp>,
    /// Id begins with this.
    pub id_prefix: Option<String>,
    /// Has this tag.
    pub tag: Option<String>,
    /// Most timers of the page, 1 to [`PAGE_MAX`]; any other number refuses the call.
    pub limit: usize,
    /// Most bytes of memory of the page's timers ([`TimerView::memory_bytes`]): it ends before the one
    /// that no longer fits. Where not even the first one fits, the call fails with
    /// [`crate::Error::TooLarge`].
    pub bytes_max: u64,
    /// Go on after this position.
    pub after: Option<Position>,
}

impl ListRequest {
    /// The first page of everything in this state, as large as pages get.
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

    /// Returns `true` if only a look at each timer tells whether it is listed, so that a page may take
    /// long and be empty.
    pub fn is_searched(&self) -> bool {
        self.tag.is_some() || self.id_prefix.as_ref().is_some_and(|prefix| !prefix.is_empty())
    }

    /// Refuses a request past its limits.
    ///
    /// # Errors
    /// `Invalid`, which names `limit`.
    pub fn check(&self) -> Result<()> {
        if (1..=PAGE_MAX).contains(&self.limit) {
            return Ok(());
        }
        let allowed = format!("an integer from 1 to {PAGE_MAX}");
        Err(Invalid::new("limit", self.limit, allowed).into())
    }

    /// Returns `true` for a timer that is asked for, whatever its place in the list.
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

/// Which states to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListState {
    /// Scheduled, due, in flight and retrying.
    Pending,
    /// One state.
    Only(State),
}

impl ListState {
    /// Whether a timer in this state is asked for.
    pub fn admits(self, state: State) -> bool {
        match self {
            Self::Pending => state.is_pending(),
            Self::Only(only) => only == state,
        }
    }
}

/// A place in the order of a list: (due time, id, incarnation). The incarnation tells dead letters
/// of one id apart; it is 0 for every other timer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Due time.
    pub due_at: Timestamp,
    /// Id.
    pub id: TimerId,
    /// Incarnation of a dead letter.
    pub incarnation: Incarnation,
    /// Occurrence of a dead letter.
    pub occurrence: u32,
}

impl Position {
    /// The position of a view in a list.
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
    /// Where to go on; absent at the end.
    pub next: Option<Position>,
    /// Timers that were looked at for this page, about, whatever the filters let through.
    pub examined: u64,
}

/// Counts of one namespace in one shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Tombstones of ended timers.
    pub retained: u64,
    /// Estimated bytes of the pending timers' records.
    pub pending_bytes: u64,
    /// Earliest time still ahead at which a timer or retry becomes claimable; leases do not count.
    /// Where the store looks through a very large namespace for it, timers that changed meanwhile may
    /// be told as they were.
    pub next_due_at: Option<Timestamp>,
    /// Earliest due time of what is due and was never attempted.
    pub oldest_due_at: Option<Timestamp>,
    /// Whether it is paused.
    pub paused: bool,
    /// Lanes with pending timers.
    pub lanes: Vec<LaneStats>,
    /// Monotonic totals; they survive a restart.
    pub totals: Totals,
}

impl Stats {
    /// Scheduled, due, in flight and retrying.
    pub const fn pending(&self) -> u64 {
        self.scheduled + self.due + self.in_flight + self.retrying
    }

    /// Adds the counts of a lane to those that are known of it.
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

    /// The counts of two shards together.
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
            totals: self.totals.merge(other.totals),
        }
    }
}

impl Totals {
    const fn merge(self, other: Self) -> Self {
        Self {
            scheduled: self.scheduled + other.scheduled,
            fired: self.fired + other.fired,
            delivered: self.delivered + other.delivered,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            rescheduled: self.rescheduled + other.rescheduled,
            dead: self.dead + other.dead,
        }
    }
}

/// Counts of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneStats {
    /// Which.
    pub key: LaneKey,
    /// Due and unclaimed first attempts.
    pub due: u64,
    /// Due and unclaimed retries.
    pub retry_due: u64,
    /// Under a lease.
    pub in_flight: u64,
}

/// Monotonic totals of a namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Timers made or replaced.
    pub scheduled: u64,
    /// Attempts claimed.
    pub fired: u64,
    /// Firings confirmed.
    pub delivered: u64,
    /// Attempts that ended without a confirmation.
    pub failed: u64,
    /// Timers cancelled.
    pub cancelled: u64,
    /// Changes by PATCH and fire.
    pub rescheduled: u64,
    /// Firings given up.
    pub dead: u64,
}

/// Room on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Free bytes below which new timers are refused.
    pub reserve_bytes: u64,
    /// The same for inodes, where the file system counts them.
    pub inodes: Option<InodeRoom>,
}

/// Inodes of the disk: every file takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InodeRoom {
    /// Files that can still be made.
    pub free: u64,
    /// Free inodes below which new timers are refused.
    pub reserve: u64,
}

/// Why a shard takes no calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardFault {
    /// Its data is gone.
    Missing,
    /// Its data is that of another deployment.
    Foreign,
    /// It came back with older data, and waits for an operator.
    RolledBack,
}

impl ShardFault {
    /// Every fault.
    pub const ALL: [Self; 3] = [Self::Missing, Self::Foreign, Self::RolledBack];

    /// Its name in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Foreign => "foreign",
            Self::RolledBack => "rolled_back",
        }
    }
}

/// How a store feels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it cannot serve; empty when it can. A reason is a sentence for a person.
    pub not_ready: Vec<String>,
    /// What an operator should mend although it can serve. A warning is a sentence for a person.
    pub warnings: Vec<String>,
    /// Shards that take no calls until an operator repairs them, and why.
    pub unavailable_shards: Vec<(ShardId, ShardFault)>,
    /// How often a shard came back with older data, as this node noticed.
    pub rollbacks: u64,
    /// Pending timers in all namespaces.
    pub pending: u64,
    /// Due and unclaimed in all namespaces.
    pub overdue: u64,
    /// Of these, those whose records the disk does not read now: they are tried again.
    pub unreadable: u64,
    /// Under a lease in all namespaces.
    pub in_flight: u64,
    /// Dead letters in all namespaces.
    pub dead: u64,
    /// Tombstones of ended timers in all namespaces.
    pub retained: u64,
    /// Namespaces that are paused.
    pub namespaces_paused: u64,
    /// Namespaces with as many dead letters as they may have: nothing of them is delivered.
    pub namespaces_dead_full: u64,
    /// Namespaces whose record the shard that orders their changes has lost while other shards hold them:
    /// calls for them are refused until they are repaired.
    pub namespaces_to_repair: u64,
    /// Heap bytes of the index.
    pub index_bytes: u64,
    /// What they may be at most before new timers are refused, where there is a bound.
    pub index_bytes_max: Option<u64>,
    /// Heap bytes of the due structures.
    pub calendar_bytes: u64,
    /// Bytes of the data directory's files.
    pub disk_bytes: u64,
    /// The disk below them, where it can be asked.
    pub disk_room: Option<DiskRoom>,
    /// Bytes of old files that wait to be rewritten.
    pub rewrite_backlog_bytes: u64,
    /// Bytes of the journal that an opening would read back, behind the last checkpoint.
    pub replay_bytes: u64,
    /// Age of the oldest due and unclaimed firing.
    pub oldest_due_age: Option<Millis>,
    /// Faults that the store has found in itself since it was opened.
    pub audit_findings: u64,
    /// When it last had looked for them everywhere.
    pub audited_at: Option<Timestamp>,
    /// Where the data is, for a person.
    pub location: String,
}
