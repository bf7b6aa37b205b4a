//! The engine: the state machine of one shard. One thread runs it over a disk and two clocks.
//!
//! ```text
//!   operation ──► operate (duly_core) ──► Effect ──► Record ──► journal.append ──► absorb
//!                                                                                  ▲
//!   open ──► recovery reads the journal ───────────── Record ──────────────────────┘
//! ```
//!
//! What must stay true:
//!
//! 1. Every change is a record, and [`Engine::absorb`] is the only function that turns a record into
//!    state. Replay runs the same function, so the state after a restart is the state before it.
//! 2. A timer enters the calendar, and so can be claimed, only when its record is durable
//!    ([`Engine::synced`]). A calendar entry that disagrees with the index is dropped.
//! 3. The engine does not sleep, sync or reply to callers. The shells do that ([`crate::shell`]).
//!
//! Start at `absorb.rs`, then `operate.rs` and `claim.rs`.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use duly_core::{env::Clock, timer::Timer, tombstone::Tombstone};
use duly_store::{Error, Limit, Refusal};
use duly_wheel::Calendar;
use rand::{RngCore, SeedableRng, rngs::StdRng};
use rustc_hash::FxHashMap;

use crate::{
    clock::Times,
    disk::{self, Disk},
    effect::Effect,
    files::{FileId, Files, ReadError, ReadResults},
    format::{
        frame,
        record::{self, Decoded, Record},
    },
    index::{AttemptKind, Claimable, Key, Location, PackedKey},
    journal::{AppendError, Journal, Position, SyncMark},
    manifest::Manifest,
    options::Options,
};

mod absorb;
pub(crate) mod async_count;
mod audit;
pub(crate) mod background_work;
mod backoff;
pub(crate) mod backup;
mod checkpoint;
mod claim;
mod clock_watch;
mod dead_letters;
mod earliest;
pub(crate) mod invariants;
mod lane_due;
pub(crate) mod lanes;
pub(crate) mod leases;
pub(crate) mod list;
mod load;
mod namespace_numbers;
mod namespace_ops;
mod namespace_reclamation;
pub(crate) mod namespaces;
mod near_horizon;
mod open;
mod operate;
mod punch;
mod ready;
mod reclaim;
mod refill;
mod rewrite;
mod roll;
pub(crate) mod settle;
mod space;
mod stall;
mod stats;
mod step_back;
mod step_budget;
mod stop;
pub(crate) mod terminal;
mod time;
mod tombstones;
mod unreadable;
mod view;

use clock_watch::ClockWatch;
use leases::Leases;
use namespaces::Namespaces;
use space::Space;
use terminal::Terminal;

/// The state of an open store.
#[derive(Debug)]
pub(crate) struct Engine {
    options: Options,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    random: StdRng,
    manifest: Manifest,
    hash_key: u128,
    /// Seed of the checksums of this store's files.
    seed: frame::Seed,
    /// Times of the current step.
    now: Times,
    /// Origin of the steady clock: wall and boot time at open, in milliseconds; see
    /// [`Engine::continue_steady_clock`].
    anchor: (u64, u64),
    journal: Journal,
    /// The files that locations point into.
    files: Files,
    checkpoints: checkpoint::Checkpoints,
    stopping: stop::Stopping,
    rewriter: rewrite::Rewriter,
    puncher: punch::Puncher,
    /// Time from which due resumes of namespaces are written again after a failure, by the boot-time
    /// clock.
    resume_not_before_ms: u64,
    /// Time at which the journal last grew, by the boot-time clock.
    journal_grew_ms: u64,
    backups: backup::Backups,
    auditor: audit::Auditor,
    /// Work that waits for the background thread.
    outbox: background_work::Outbox,
    /// Speed at which background work may write.
    pace: background_work::Pace,
    leases: Leases,
    /// Settings, counts and index entries of all namespaces.
    namespaces: Namespaces,
    /// Timers that can be claimed soon: the near horizon.
    near_horizon: near_horizon::NearHorizon,
    /// Due timers whose records are unreadable now.
    unreadable: unreadable::UnreadableTimers,
    refills: refill::Refills,
    async_counts: async_count::AsyncCounts,
    step_back: step_back::StepBack,
    /// Ends of leases, by the boot-time clock.
    lease_ends: Calendar<PackedKey>,
    /// Ends of `expire_after` of due and retrying timers, by the wall clock.
    expiries: Calendar<PackedKey>,
    tombstone_passes: tombstones::TombstonePasses,
    /// Timers that become claimable when their frame is durable, each with the number of that frame.
    awaiting_durability: VecDeque<(u64, PendingClaimable)>,
    /// Number of entries in `awaiting_durability` for each retry that has any.
    retries_awaiting_durability: FxHashMap<Key, u32>,
    /// Buffer that the passes over the calendars reuse.
    popped: Vec<(u64, PackedKey)>,
    reclamation: namespace_reclamation::Reclamation,
    namespace_numbers: namespace_numbers::NamespaceNumbers,
    space: Space,
    failed_rolls: roll::FailedRolls,
    stall: stall::Stall,
    /// Set when the store has ended for good. Then the engine does nothing any more.
    terminal_error: Option<String>,
    /// The same reason, for callers that wait for the end of the store.
    terminal: Terminal,
    /// Deferred retries: due by the steady clock, while the wall clock has stepped back behind their due
    /// time. They wait until the wall clock reaches it again.
    deferred_retries: BTreeSet<DeferredRetry>,
    /// Latest due time that any retry has had, by the wall clock.
    retry_due_max_ms: u64,
    /// Steady clock at the last frame that startup read.
    steady_seen_ms: u64,
    /// Wall clock of the last step.
    last_wall_ms: u64,
    clock_watch: ClockWatch,
    /// `true`: records come from the replay of the journal.
    replaying: bool,
    /// Number of the frame that is replayed now.
    replay_lsn: u64,
    /// Files that a checkpoint names and that do not exist; used during startup.
    missing_files: Vec<(u16, FileId)>,
    /// Retries from a checkpoint whose expiry is not looked up yet.
    retries_that_expire: Vec<Key>,
    /// `true`: the loop has more work and should not wait.
    busy: bool,
    /// `true`: a timer may be claimable earlier than `announced_ms`.
    wake: bool,
    /// Time at which the last reply promised the next claimable timer, by the wall clock.
    announced_ms: Option<u64>,
}

/// A timer that becomes claimable when its frame is durable.
#[derive(Debug, Clone, Copy)]
struct PendingClaimable {
    key: Key,
    claimable: Claimable,
}

/// A deferred retry: due, but waiting for the wall clock. It is stale if `at_ms` disagrees with the
/// index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DeferredRetry {
    due_ms: u64,
    at_ms: u64,
    key: PackedKey,
}

/// Reason for which an item was not written.
#[derive(Debug)]
enum NotWritten {
    /// This item is refused; the store continues.
    Refused(Refusal),
    /// A record that this item needs cannot be read now, or is larger than its reply may be. Nothing was
    /// done.
    Unread(Error),
    /// The store cannot write now and tries again later. Nothing was done.
    NotNow(Error),
    /// The store has ended for good.
    Terminal,
}

impl Engine {
    /// Reads the clocks and does the work that is due by time. This is the first call of every step.
    pub(crate) fn begin_step(&mut self) {
        self.now = self.read_times();
        self.busy = false;
        if self.terminal_error.is_none() && !self.is_stalled() {
            self.checkpoint_step();
            // A clean stop takes a last checkpoint. Startup would have to replay what is written after
            // it.
            if !self.stopping.is_begun() {
                self.rewrite_step();
                self.punch_step();
                self.tick();
            }
        }
    }

    /// Writes the frame of this step. Returns the mark to sync. After a terminal error it writes nothing,
    /// even if the disk would accept it now.
    pub(crate) fn commit(&mut self) -> Result<Option<SyncMark>, Error> {
        if let Some(reason) = &self.terminal_error {
            return Err(Error::InDoubt { reason: reason.clone() });
        }
        if let Some(mark) = self.write_frame()? {
            self.journal_grew_ms = self.now.boot_ms;
            return Ok(Some(mark));
        }
        self.close_journal()
    }

    /// Marks frames up to `lsn` as durable and makes their timers claimable.
    pub(crate) fn synced(&mut self, lsn: u64, position: Position) {
        self.journal.synced(lsn, position);
        self.make_durable_claimable();
    }

    fn make_durable_claimable(&mut self) {
        let durable = self.journal.durable_lsn();
        while let Some((lsn, pending_claimable)) = self.awaiting_durability.front().copied() {
            if lsn > durable {
                break;
            }
            self.awaiting_durability.pop_front();
            if pending_claimable.claimable.kind == AttemptKind::Retry {
                self.note_durable_retry(pending_claimable.key);
            }
            self.make_claimable(pending_claimable);
        }
    }

    /// Makes a timer claimable later, when its record is durable.
    fn make_claimable_when_durable(&mut self, pending_claimable: PendingClaimable) {
        if pending_claimable.claimable.kind == AttemptKind::Retry {
            *self.retries_awaiting_durability.entry(pending_claimable.key).or_default() += 1;
        }
        self.awaiting_durability.push_back((self.journal.written_lsn() + 1, pending_claimable));
    }

    fn note_durable_retry(&mut self, key: Key) {
        if let std::collections::hash_map::Entry::Occupied(mut count) =
            self.retries_awaiting_durability.entry(key)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Ends the store for good: the disk may hold only a part of the last write.
    pub(crate) fn fail_terminally(&mut self, error: &disk::Error) -> Error {
        self.fail_terminally_because(&error.to_string())
    }

    fn fail_terminally_because(&mut self, what: &str) -> Error {
        let reason = self.terminal.set(format!(
            "the store has ended: writing the journal failed ({what}); the server must be \
             restarted, or the store opened again: recovery checks what is on the disk"
        ));
        self.backups.fail(&reason);
        self.terminal_error = Some(reason.clone());
        let error = Error::InDoubt { reason };
        self.fail_counts(&error);
        error
    }

    /// Refuses if the store has ended for good, or if the journal waits for disk space.
    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        match &self.terminal_error {
            None => self.check_stall(),
            Some(reason) => Err(Error::Unavailable {
                reason: reason.clone(),
                retry_after: duly_core::Millis::from_secs(10),
            }),
        }
    }

    /// Returns a handle to the reason for which the store has ended.
    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal.clone()
    }

    /// Returns `true` if there is more to do without a wait.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy && self.terminal_error.is_none() && !self.is_stalled()
    }

    /// Returns `true`, once, if claimers that wait should claim again.
    pub(crate) const fn take_wake(&mut self) -> bool {
        std::mem::replace(&mut self.wake, false)
    }

    /// Returns the newest frame written and the newest frame durable.
    pub(crate) const fn lsns(&self) -> (u64, u64) {
        (self.journal.written_lsn(), self.journal.durable_lsn())
    }

    /// Returns the bytes that wait to be committed.
    pub(crate) const fn uncommitted_bytes(&self) -> usize {
        self.journal.frame_bytes()
    }

    /// Appends a record and absorbs it.
    fn write(&mut self, namespace: u32, record: &Record) -> Result<(), NotWritten> {
        let location = self.append(namespace, record)?;
        let effect = Effect::of(self.hash_key, namespace, record);
        self.absorb(location, namespace, effect);
        Ok(())
    }

    /// Appends a record of a timer whose key is known, and absorbs it.
    fn write_keyed(&mut self, key: Key, record: &Record) -> Result<(), NotWritten> {
        let namespace = key.namespace();
        let location = self.append(namespace, record)?;
        self.absorb(location, namespace, Effect::keyed(record, |_| key));
        Ok(())
    }

    /// Appends a record. Rolls to a new segment first if the active one is full.
    ///
    /// After a terminal error nothing is appended. A pass that continued would fill a segment to which a
    /// failed roll has already given a successor, and no startup would
    /// find its frames in order.
    fn append(&mut self, namespace: u32, record: &Record) -> Result<Location, NotWritten> {
        if self.terminal_error.is_some() {
            return Err(NotWritten::Terminal);
        }
        self.check_stall().map_err(NotWritten::NotNow)?;
        let mut appended = self.journal.append(namespace, record);
        if matches!(appended, Err(AppendError::Full)) {
            self.roll()?;
            appended = self.journal.append(namespace, record);
        }
        appended.map_err(|error| NotWritten::Refused(does_not_fit(&error)))
    }

    /// Reads a record from the frame under construction or from its file.
    fn read(&self, location: Location) -> Result<Decoded, ReadError> {
        match self.journal.under_construction(location) {
            Some(bytes) => record::decode(bytes).map_err(|source| ReadError::Damaged {
                file: "the frame under construction".into(),
                offset: 0,
                source,
            }),
            None => self.files.read(location),
        }
    }

    /// Reads many records, in the order of `locations`. After `failures_max` failed reads it sends the
    /// disk no more; `None` stands for a record that was not read.
    fn read_many(&self, locations: &[Location], failures_max: usize) -> ReadResults {
        let is_built = |place: &&Location| self.journal.under_construction(**place).is_some();
        if !locations.iter().any(|place| is_built(&place)) {
            return self.files.read_many(locations, failures_max);
        }
        let mut answers = ReadResults::new(locations.len(), failures_max);
        for (nth, place) in locations.iter().enumerate() {
            answers.take(nth, || self.read(*place));
        }
        answers
    }

    /// Reads the timer that an index entry points at.
    fn load_timer(&self, location: Location) -> Result<Box<Timer>, ReadError> {
        match self.read(location)?.record {
            Record::Pending(_, timer) | Record::Dead(_, timer) => Ok(timer),
            other => Err(wrong_kind(&other)),
        }
    }

    /// Reads the tombstone that an index entry points at.
    fn load_tombstone(&self, location: Location) -> Result<Tombstone, ReadError> {
        match self.read(location)?.record {
            Record::Ended { tombstone, .. } => Ok(*tombstone),
            other => Err(wrong_kind(&other)),
        }
    }

    fn key(&self, namespace: u32, id: &str) -> Key {
        Key::of(self.hash_key, namespace, id)
    }

    fn random_u64(&mut self) -> u64 {
        self.random.next_u64()
    }

    fn random_from(seed: Option<u64>) -> StdRng {
        seed.map_or_else(StdRng::from_os_rng, StdRng::seed_from_u64)
    }
}

fn wrong_kind(record: &Record) -> ReadError {
    let name = match record {
        Record::Pending(..) => "pending",
        Record::Dead(..) => "dead",
        Record::Ended { .. } => "ended",
        _ => "other",
    };
    ReadError::Damaged {
        file: "index".into(),
        offset: 0,
        source: crate::format::DecodeError::Impossible(format!(
            "it points at a record of kind {name}"
        )),
    }
}

fn does_not_fit(error: &AppendError) -> Refusal {
    let reason = match error {
        AppendError::TooLarge { bytes, bytes_max } => format!(
            "the record has {bytes} bytes and a journal segment takes {bytes_max}; raise \
             store.segment_bytes or send a smaller payload"
        ),
        AppendError::Full => {
            "the record does not fit a journal segment; raise store.segment_bytes".into()
        }
    };
    Refusal::Exhausted { limit: Limit::Segment, reason, retry_after: None }
}

#[cfg(test)]
mod tests;
