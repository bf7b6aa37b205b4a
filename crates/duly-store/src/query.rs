//! Reading: one timer, lists, counts.

use duly_core::{
    Incarnation, Millis, NamespaceName, State, Timer, TimerId, Timestamp, Tombstone,
    destination::LaneKey, shard::ShardId, tombstone::Ended,
};

mod memory;

/// Most timers of one page.
pub const PAGE_MAX: usize = 1_000;

/// Bytes of memory that a page takes at most, unless its request says otherwise.
pub const PAGE_BYTES: u64 = 4 << 20;

/// A timer as it is answered: from its record, or from its tombstone.
#[derive(Debug, Clone, PartialEq)]
pub struct TimerView {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The state, by the store's clock at the time of the answer.
    pub state: State,
    /// Record or tombstone.
    pub body: Body,
    /// When the lease ends, while in flight.
    pub leased_until: Option<Timestamp>,
    /// The attempt under way, while in flight.
    pub attempt_under_way: Option<u32>,
    /// When that attempt was claimed.
    pub claimed_at: Option<Timestamp>,
}

/// What is known of a timer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Everything.
    Whole(Box<Timer>),
    /// It has ended.
    Tombstone(Box<Tombstone>),
}

impl TimerView {
    /// A view of a timer that is not in flight.
    pub fn whole(namespace: NamespaceName, state: State, timer: Timer) -> Self {
        Self {
            namespace,
            state,
            body: Body::Whole(Box::new(timer)),
            leased_until: None,
            attempt_under_way: None,
            claimed_at: None,
        }
    }

    /// A view of a tombstone.
    pub fn tombstone(namespace: NamespaceName, tombstone: Tombstone) -> Self {
        Self {
            namespace,
            state: tombstone.ended.state(),
            body: Body::Tombstone(Box::new(tombstone)),
            leased_until: None,
            attempt_under_way: None,
            claimed_at: None,
        }
    }

    /// The timer's id.
    pub fn id(&self) -> &TimerId {
        match &self.body {
            Body::Whole(timer) => &timer.id,
            Body::Tombstone(tombstone) => &tombstone.id,
        }
    }

    /// Whether this is the timer, as far as what is left of it tells: the tombstone of a cancelled one may be
    /// of any. A dead letter is one firing of it.
    pub fn is_of(&self, timer: &Timer) -> bool {
        match &self.body {
            Body::Whole(_) if self.state == State::Dead => self.is_of_firing(timer),
            Body::Whole(own) => own.incarnation == timer.incarnation,
            Body::Tombstone(tombstone) => {
                let own = tombstone.details.as_ref();
                tombstone.ended == Ended::Cancelled
                    || own.is_none_or(|own| own.incarnation == timer.incarnation)
            }
        }
    }

    /// Whether this is the timer with the firing that it is at, so that their delivery ids are one; of a
    /// cancelled one nothing is said.
    pub fn is_of_firing(&self, timer: &Timer) -> bool {
        let firing = (timer.incarnation, timer.occurrence);
        match &self.body {
            Body::Whole(own) => (own.incarnation, own.occurrence) == firing,
            Body::Tombstone(tombstone) => {
                let own = tombstone.details.as_ref().filter(|_| tombstone.ended == Ended::Finished);
                own.is_some_and(|own| (own.incarnation, own.occurrence) == firing)
            }
        }
    }

    /// When it is, or was, due.
    pub fn due_at(&self) -> Timestamp {
        match &self.body {
            Body::Whole(timer) => timer.due_at,
            Body::Tombstone(tombstone) => tombstone.due_at,
        }
    }

    /// Its revision, if known.
    pub fn revision(&self) -> Option<u32> {
        match &self.body {
            Body::Whole(timer) => Some(timer.revision),
            Body::Tombstone(tombstone) => tombstone.details.as_ref().map(|d| d.revision),
        }
    }

    /// Attempts begun, the one under way included.
    pub fn attempts(&self) -> u32 {
        let ended = match &self.body {
            Body::Whole(timer) => timer.attempts,
            Body::Tombstone(tombstone) => tombstone.attempts,
        };
        self.attempt_under_way.unwrap_or(ended).max(ended)
    }

    /// Whether an attempt may have arrived although nobody confirmed it.
    pub fn maybe_delivered(&self) -> bool {
        match &self.body {
            Body::Whole(timer) => timer.maybe_delivered,
            Body::Tombstone(tombstone) => tombstone.maybe_delivered,
        }
    }

    /// The whole record, if it is more than a tombstone.
    pub fn timer(&self) -> Option<&Timer> {
        match &self.body {
            Body::Whole(timer) => Some(timer),
            Body::Tombstone(_) => None,
        }
    }
}

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
