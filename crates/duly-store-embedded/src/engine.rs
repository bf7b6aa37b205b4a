//! The engine: one thread's state machine over a disk and two clocks.
//!
//! ```text
//!   operation ──► operate (duly_core) ──► Effect ──► Record ──► journal.append ──► absorb
//!                                                                                  ▲
//!   open ──► recovery reads the journal ───────────── Record ──────────────────────┘
//! ```
//!
//! * Every change is a record, and [`Engine::absorb`] is the only function that turns a record
//!   into state. Replay runs the very same function, so what is there after a restart is what was
//!   there before.
//! * A timer gets into the calendar, and so can be claimed, only when its record is durable
//!   ([`Engine::synced`]); a calendar entry that disagrees with the index is dropped.
//! * The engine neither sleeps nor syncs nor answers: the shells do ([`crate::shell`]).
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
    files::{Answers, FileId, Files, ReadError},
    format::{
        frame,
        record::{self, Decoded, Record},
    },
    index::{Claimable, Key, Kind, Location, PackedKey},
    journal::{AppendError, Journal, Mark, Position},
    manifest::Manifest,
    options::Options,
};

mod absorb;
mod allowance;
mod apply;
mod aside;
mod audit;
mod backoff;
pub(crate) mod backup;
mod checkpoint;
mod claim;
mod clock_watch;
mod earliest;
mod graves;
mod idle;
pub(crate) mod inspect;
pub(crate) mod lanes;
pub(crate) mod leases;
mod letters;
pub(crate) mod list;
mod load;
mod namespace_ops;
pub(crate) mod namespaces;
mod near;
mod numbers;
mod open;
mod operate;
mod overdue;
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
mod stop;
pub(crate) mod survey;
pub(crate) mod terminal;
mod time;
mod tombstones;
mod view;
pub(crate) mod work;

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
    /// What the checksums of this store's files start from.
    seed: frame::Seed,
    /// Times of the present step.
    now: Times,
    /// What the steady clock starts from: wall and boot time at open, in milliseconds; see
    /// [`Engine::go_on_from_steady`].
    anchor: (u64, u64),
    journal: Journal,
    /// The files that locations point into.
    files: Files,
    checkpoints: checkpoint::Checkpoints,
    stopping: stop::Stopping,
    rewriter: rewrite::Rewriter,
    puncher: punch::Puncher,
    /// When namespaces whose time to go on could not be written are tried again, by the boot-time clock.
    resume_not_before_ms: u64,
    /// When the journal last grew, by the boot-time clock.
    journal_grew_ms: u64,
    backups: backup::Backups,
    auditor: audit::Auditor,
    /// Work for the background.
    outbox: work::Outbox,
    /// How fast the background may write.
    pace: work::Pace,
    leases: Leases,
    /// Settings and counts, and the entries of all timers.
    namespaces: Namespaces,
    /// What can be claimed soon.
    near: near::Near,
    /// What is due and cannot be read now.
    aside: aside::Aside,
    refills: refill::Refills,
    surveys: survey::Surveys,
    step_back: step_back::StepBack,
    /// Ends of leases, by the boot-time clock.
    lease_ends: Calendar<PackedKey>,
    /// Ends of `expire_after` of what is due or retrying, by the wall clock.
    expiries: Calendar<PackedKey>,
    tombstone_passes: tombstones::Passes,
    /// What gets into the calendar once its frame is durable.
    unpublished: VecDeque<(u64, Publish)>,
    /// How often a retry stands in `unpublished`, where any does.
    unpublished_retries: FxHashMap<Key, u32>,
    /// Reused by the passes over the calendars.
    popped: Vec<(u64, PackedKey)>,
    graves: graves::Graves,
    numbers: numbers::Numbers,
    space: Space,
    rolls: roll::Rolls,
    stall: stall::Stall,
    /// Set when the store has ended for good: nothing is done any more.
    terminal_error: Option<String>,
    /// The same, for those who wait for it.
    terminal: Terminal,
    /// Due retries that wait for the wall clock to reach their due time again, after it stepped
    /// back behind it.
    held_back: BTreeSet<HeldBack>,
    /// The latest due time of any retry there has been, by the wall clock.
    retry_due_max_ms: u64,
    /// The steady clock at the last frame that was read at the opening.
    steady_seen_ms: u64,
    /// The wall clock of the last step.
    last_wall_ms: u64,
    clock_watch: ClockWatch,
    /// Whether records come from the journal being read back.
    replaying: bool,
    /// The frame whose records are being read back.
    replay_lsn: u64,
    /// Files that a checkpoint names and that are not there, while a store is opened.
    missing_files: Vec<(u16, FileId)>,
    /// Retries of a checkpoint whose expiry is still to be looked up.
    retries_that_expire: Vec<Key>,
    /// Whether the loop has more to do at once.
    busy: bool,
    /// Set when something may have become claimable earlier than was said.
    wake: bool,
    /// When the last answer said that something would become claimable, by the wall clock.
    announced_ms: Option<u64>,
}

/// A timer that waits for its frame to be durable.
#[derive(Debug, Clone, Copy)]
struct Publish {
    key: Key,
    claimable: Claimable,
}

/// A due retry that waits for the wall clock; stale if `at_ms` disagrees with the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HeldBack {
    due_ms: u64,
    at_ms: u64,
    key: PackedKey,
}

/// Why an item could not be written.
#[derive(Debug)]
enum Stop {
    /// This item is refused; the store goes on.
    Refused(Refusal),
    /// A record that this item needs cannot be read now, or takes more memory than its answer may;
    /// nothing was done.
    Unread(Error),
    /// The store cannot write it now, and tries again; nothing was done.
    NotNow(Error),
    /// The store has ended for good.
    Terminal,
}

impl Engine {
    /// Reads the clocks and does what time has brought: the first call of every step.
    pub(crate) fn begin_step(&mut self) {
        self.now = self.read_times();
        self.busy = false;
        if self.terminal_error.is_none() && !self.is_stalled() {
            self.checkpoint_step();
            // What is written from the last checkpoint on would have to be read back.
            if !self.stopping.is_begun() {
                self.rewrite_step();
                self.punch_step();
                self.tick();
            }
        }
    }

    /// Writes what the step appended. Answers what has to be synced. After a failure nothing is
    /// written any more: not even what the disk would take now.
    pub(crate) fn commit(&mut self) -> Result<Option<Mark>, Error> {
        if let Some(reason) = &self.terminal_error {
            return Err(Error::InDoubt { reason: reason.clone() });
        }
        if let Some(mark) = self.write_frame()? {
            self.journal_grew_ms = self.now.boot_ms;
            return Ok(Some(mark));
        }
        self.close_journal()
    }

    /// Takes note that frames up to `lsn` are durable: their timers become claimable.
    pub(crate) fn synced(&mut self, lsn: u64, position: Position) {
        self.journal.synced(lsn, position);
        self.publish_durable();
    }

    fn publish_durable(&mut self) {
        let durable = self.journal.durable_lsn();
        while let Some((lsn, publish)) = self.unpublished.front().copied() {
            if lsn > durable {
                break;
            }
            self.unpublished.pop_front();
            if publish.claimable.kind == Kind::Retry {
                self.no_longer_unpublished(publish.key);
            }
            self.publish(publish);
        }
    }

    /// Has a timer wait for its record to be durable.
    fn publish_when_durable(&mut self, publish: Publish) {
        if publish.claimable.kind == Kind::Retry {
            *self.unpublished_retries.entry(publish.key).or_default() += 1;
        }
        self.unpublished.push_back((self.journal.written_lsn() + 1, publish));
    }

    fn no_longer_unpublished(&mut self, key: Key) {
        if let std::collections::hash_map::Entry::Occupied(mut count) =
            self.unpublished_retries.entry(key)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Ends the store for good: the disk may hold a part of what was written last.
    pub(crate) fn end(&mut self, error: &disk::Error) -> Error {
        self.end_because(&error.to_string())
    }

    fn end_because(&mut self, what: &str) -> Error {
        let reason = self.terminal.set(format!(
            "the store has ended: writing the journal failed ({what}); the server must be \
             restarted, or the store opened again: recovery checks what is on the disk"
        ));
        self.backups.fail(&reason);
        self.terminal_error = Some(reason.clone());
        let error = Error::InDoubt { reason };
        self.fail_surveys(&error);
        error
    }

    /// Refuses when the store has ended for good, or the journal waits for room.
    pub(crate) fn check_usable(&self) -> Result<(), Error> {
        match &self.terminal_error {
            None => self.check_stall(),
            Some(reason) => Err(Error::Unavailable {
                reason: reason.clone(),
                retry_after: duly_core::Millis::from_secs(10),
            }),
        }
    }

    /// Why the store has ended, for those who wait for it.
    pub(crate) fn terminal(&self) -> Terminal {
        self.terminal.clone()
    }

    /// Whether there is more to do without waiting for anything.
    pub(crate) const fn is_busy(&self) -> bool {
        self.busy && self.terminal_error.is_none() && !self.is_stalled()
    }

    /// Whether a waiting claimer should look again; answers once.
    pub(crate) const fn take_wake(&mut self) -> bool {
        std::mem::replace(&mut self.wake, false)
    }

    /// Newest frame written and newest frame durable.
    pub(crate) const fn lsns(&self) -> (u64, u64) {
        (self.journal.written_lsn(), self.journal.durable_lsn())
    }

    /// Bytes waiting to be committed.
    pub(crate) const fn uncommitted_bytes(&self) -> usize {
        self.journal.frame_bytes()
    }

    /// Appends a record and absorbs it.
    fn write(&mut self, namespace: u32, record: &Record) -> Result<(), Stop> {
        let location = self.append(namespace, record)?;
        let effect = Effect::of(self.hash_key, namespace, record);
        self.absorb(location, namespace, effect);
        Ok(())
    }

    /// The same for a record of a timer whose key is known.
    fn write_keyed(&mut self, key: Key, record: &Record) -> Result<(), Stop> {
        let namespace = key.namespace();
        let location = self.append(namespace, record)?;
        self.absorb(location, namespace, Effect::keyed(record, |_| key));
        Ok(())
    }

    /// Appends a record, behind a roll if it needs one. After a failure nothing is: a pass that goes on
    /// would fill the segment that a failed roll has given a successor, and with that no opening would
    /// find its frames in order.
    fn append(&mut self, namespace: u32, record: &Record) -> Result<Location, Stop> {
        if self.terminal_error.is_some() {
            return Err(Stop::Terminal);
        }
        self.check_stall().map_err(Stop::NotNow)?;
        match self.journal.append(namespace, record) {
            Ok(location) => return Ok(location),
            Err(AppendError::Full) => self.roll()?,
            Err(AppendError::TooLarge { bytes, bytes_max }) => {
                return Err(Stop::Refused(too_large(bytes, bytes_max)));
            }
        }
        self.journal.append(namespace, record).map_err(|error| match error {
            AppendError::TooLarge { bytes, bytes_max } => {
                Stop::Refused(too_large(bytes, bytes_max))
            }
            AppendError::Full => Stop::Refused(Refusal::Exhausted {
                limit: Limit::Segment,
                reason: "the record does not fit a journal segment; raise store.segment_bytes"
                    .into(),
                retry_after: None,
            }),
        })
    }

    /// Reads a record, wherever it stands.
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

    /// Reads many records, in the order asked; when the disk has refused `failures_max` reads it is
    /// asked for no others, and `None` stands for what was not read.
    fn read_many(&self, locations: &[Location], failures_max: usize) -> Answers {
        let is_built = |place: &&Location| self.journal.under_construction(**place).is_some();
        if !locations.iter().any(|place| is_built(&place)) {
            return self.files.read_many(locations, failures_max);
        }
        let mut answers = Answers::new(locations.len(), failures_max);
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

fn too_large(bytes: u64, bytes_max: u64) -> Refusal {
    Refusal::Exhausted {
        limit: Limit::Segment,
        reason: format!(
            "the record has {bytes} bytes and a journal segment takes {bytes_max}; raise \
             store.segment_bytes or send a smaller payload"
        ),
        retry_after: None,
    }
}

#[cfg(test)]
mod tests;
