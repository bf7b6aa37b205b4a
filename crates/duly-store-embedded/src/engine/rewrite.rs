//! The rewriter: old files are read once, and what is still live of them goes into runs.
//!
//! ```text
//!   pick files ─► background: read one, skim ─► engine: which are live? ─► next part, next file …
//!                                                                          │ all read
//!      engine: locations move, one by one ◄─ background: sort, write runs ◄┘
//! ```
//!
//! Files are picked when they are older than the young generation (a timer that is cancelled or
//! fires within it is never written again), or mostly dead. Pending timers, tombstones and dead letters go
//! to runs of their own, each in the order in which its records go: so whole stretches of a run die
//! together.
//!
//! Invariants: a location moves only if the entry still points at the old place; what could not be
//! read stays where it is; the old files go when both kept checkpoints have the new places
//! ([`Engine::reclaim`]).

use std::sync::Arc;

use crate::{
    disk,
    effect::Firing,
    files::FileId,
    format::run,
    index::{Key, Location},
    open::OpenError,
};

use super::{Engine, backoff::Backoff, letters, namespaces::Moved};

mod gather;
mod judge;
mod write;

use gather::{Candidate, Gathered, Mark};
use write::{Make, Written, write};

/// Bytes of live records that one job takes on; it reads no further file when it has them.
const JOB_BYTES: u64 = 32 << 20;
/// Files that one job takes on.
const JOB_FILES: usize = 16;
/// Records that one step looks at or moves, at least and at most.
const RECORDS_PER_STEP: (usize, usize) = (256, 4_096);
/// One more for so many bytes that the step before wrote: a few for each record, so that the rewriter
/// keeps up with any load, and takes little of the engine's time while it has little.
const BYTES_PER_RECORD: u64 = 64;
/// The pause before a job that failed is tried again, at first and at most.
const PAUSES_MS: (u64, u64) = (1_000, 60_000);

/// A live record that is carried over.
#[derive(Debug)]
struct Survivor {
    kind: run::Kind,
    namespace: u32,
    key: Key,
    /// Of a dead letter.
    firing: Option<Box<Firing>>,
    time_ms: u64,
    old: Location,
    /// Where its bytes stand among those of the job.
    start: usize,
    end: usize,
}

/// A location that moves.
#[derive(Debug)]
struct Move {
    kind: run::Kind,
    key: Key,
    firing: Option<Box<Firing>>,
    old: Location,
    /// Which of the job's runs, and where in it.
    run: usize,
    unit: u32,
    bytes: u64,
}

/// A job.
#[derive(Debug, Default)]
struct Job {
    /// Slots still to be read.
    to_read: Vec<u16>,
    buffers: Buffers,
}

/// The large buffers of a job, which the next one uses again: memory that goes back to the system
/// and is asked for again costs more than what is done with it.
#[derive(Debug, Default)]
struct Buffers {
    /// The part of a file that was read last.
    part: Gathered,
    survivors: Vec<Survivor>,
    /// Their bytes.
    bytes: Vec<u8>,
    moves: Vec<Move>,
}

/// What the rewriter is at.
#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// Something is away in the background.
    Away,
    /// A part of a file was read; its records are looked at.
    Judging { job: Job, slot: u16, next: usize },
    /// Runs were written; locations move.
    Moving { slots: Vec<u16>, buffers: Buffers, next: usize },
}

/// The rewriter.
#[derive(Debug)]
pub(super) struct Rewriter {
    state: State,
    /// Slots that the job reads from.
    sources: Vec<u16>,
    /// Empty ones, of the last job.
    buffers: Buffers,
    /// Highest number of a run.
    pub(super) latest_run: u64,
    /// Bytes of the journal at the last step, and how many of them the step before it wrote.
    journal_bytes: (u64, u64),
    /// After a job that failed.
    backoff: Backoff,
    /// Whether there may be something to do.
    pub(super) is_wanted: bool,
}

impl Default for Rewriter {
    fn default() -> Self {
        Self {
            state: State::default(),
            sources: Vec::new(),
            buffers: Buffers::default(),
            latest_run: 0,
            journal_bytes: (0, 0),
            backoff: Backoff::new(PAUSES_MS.0, PAUSES_MS.1),
            is_wanted: false,
        }
    }
}

impl Rewriter {
    /// Whether locations move: not all that will point into the new runs does yet.
    pub(super) const fn is_moving(&self) -> bool {
        matches!(self.state, State::Moving { .. })
    }

    /// Says whether it has no job.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Slots that the job reads from.
    #[cfg(test)]
    pub(super) fn sources(&self) -> &[u16] {
        &self.sources
    }

    /// Bytes of live records that the job has read.
    #[cfg(test)]
    pub(super) fn job_bytes(&self) -> usize {
        match &self.state {
            State::Judging { job, .. } => job.buffers.bytes.len(),
            _ => 0,
        }
    }

    fn records_per_step(&self) -> usize {
        let (least, most) = RECORDS_PER_STEP;
        let wanted = usize::try_from(self.journal_bytes.1 / BYTES_PER_RECORD);
        wanted.map_or(most, |wanted| wanted.clamp(least, most))
    }

    /// Whether the job has to do with the file in this slot: that nothing points at it is no reason for
    /// it to go. Locations move into it; or records were read from it, and would be taken for those of
    /// the file that comes into its slot.
    pub(super) fn is_at(&self, slot: u16) -> bool {
        let is_moving_into =
            matches!(&self.state, State::Moving { slots, .. } if slots.contains(&slot));
        is_moving_into || self.sources.contains(&slot)
    }
}

impl Engine {
    /// One step.
    pub(super) fn rewrite_step(&mut self) {
        let bytes = self.journal.bytes_written();
        let (before, _) = self.rewriter.journal_bytes;
        self.rewriter.journal_bytes = (bytes, bytes - before);
        match std::mem::take(&mut self.rewriter.state) {
            State::Idle => {
                if !self.rewriter.backoff.is_over(self.now.boot_ms)
                    || !std::mem::take(&mut self.rewriter.is_wanted)
                {
                    return;
                }
                match self.pick_sources() {
                    Some(sources) => {
                        let buffers = self.buffers_for(&sources);
                        self.rewriter.sources.clone_from(&sources);
                        self.read_next(Job { to_read: sources, buffers });
                    }
                    None => self.rewriter.buffers = Buffers::default(),
                }
            }
            State::Away => self.rewriter.state = State::Away,
            State::Judging { job, slot, next } => self.judge(job, slot, next),
            State::Moving { slots, buffers, next } => self.move_some(slots, buffers, next),
        }
    }

    /// The oldest segment of the young generation, which is left as it is.
    fn first_young_segment(&self) -> u64 {
        let young = (self.options.young_bytes / self.options.segment_bytes).max(1);
        self.journal.active_sequence().saturating_sub(young)
    }

    /// Bytes of the segments that wait for the rewriter.
    pub(super) fn rewrite_backlog_bytes(&self) -> u64 {
        let first_young = self.first_young_segment();
        let waits = |id| matches!(id, FileId::Segment(sequence) if sequence < first_young);
        let waiting = self
            .files
            .iter()
            .filter(|(_, file, counts)| counts.live > 0 && !file.is_stuck && waits(file.id));
        waiting.map(|(_, file, _)| file.bytes()).sum()
    }

    /// Files for the next job: the oldest segments past the young generation, or files that are
    /// mostly dead.
    fn pick_sources(&self) -> Option<Vec<u16>> {
        let first_young = self.first_young_segment();
        let mut old = Vec::new();
        let mut sparse = Vec::new();
        let mut dead_bytes = 0;
        for (slot, file, counts) in self.files.iter() {
            if counts.live == 0 || file.is_stuck {
                continue;
            }
            match file.id {
                FileId::Segment(sequence) if sequence < first_young => {
                    old.push((sequence, slot, counts.live_bytes));
                }
                FileId::Segment(_) => {}
                FileId::Run(_) => {
                    // A merge is not for what holes give back.
                    let bytes = self.files.held_bytes(file, counts);
                    if counts.live_bytes < bytes / 2 {
                        dead_bytes += bytes - counts.live_bytes;
                        sparse.push((counts.live_bytes, slot, counts.live_bytes));
                    }
                }
            }
        }
        old.sort_unstable();
        sparse.sort_unstable();
        let picked = if !old.is_empty() {
            old
        } else if sparse.len() > 1 && dead_bytes > self.options.checkpoint_bytes {
            sparse
        } else {
            return None;
        };
        let mut left = JOB_BYTES;
        let mut slots = Vec::new();
        for (_, slot, live_bytes) in picked.into_iter().take(JOB_FILES) {
            if !slots.is_empty() && live_bytes > left {
                break;
            }
            left = left.saturating_sub(live_bytes);
            slots.push(slot);
        }
        Some(slots)
    }

    /// Buffers with room for what is live in some files.
    fn buffers_for(&mut self, sources: &[u16]) -> Buffers {
        let mut buffers = std::mem::take(&mut self.rewriter.buffers);
        let (mut live, mut bytes) = (0, 0);
        for counts in sources.iter().filter_map(|slot| self.files.counts(*slot)) {
            live += counts.live as usize;
            bytes += usize::try_from(counts.live_bytes).expect("of a few files");
        }
        // Size classes say too little of very large records. One file is read in any case, the last.
        let last = sources.last().and_then(|slot| self.files.get(*slot));
        let bytes = bytes.max(last.map_or(0, |file| usize::try_from(file.bytes()).unwrap_or(0)));
        buffers.survivors.reserve(live);
        buffers.bytes.reserve(bytes);
        buffers.moves.reserve(live);
        buffers
    }

    /// Has the next file read, or the runs written when all are.
    fn read_next(&mut self, mut job: Job) {
        if job.buffers.bytes.len() as u64 >= JOB_BYTES {
            // Files were picked by size classes, which say little of very large records.
            let later = std::mem::take(&mut job.to_read);
            self.rewriter.sources.retain(|slot| !later.contains(slot));
        }
        let Some(slot) = job.to_read.pop() else {
            self.write_runs(job);
            return;
        };
        self.read_part(job, slot, None);
    }

    /// Has the next part of a file read, or the next file.
    fn read_part(&mut self, mut job: Job, slot: u16, from: Option<Mark>) {
        let Some(file) = self.files.get(slot) else {
            self.read_next(job);
            return;
        };
        let (id, file, length) = (file.id, Arc::clone(&file.file), file.length);
        let (hash_key, seed) = (self.hash_key, self.seed);
        self.rewriter.state = State::Away;
        self.in_background(
            move || {
                job.buffers.carry_over_unasked();
                let source = gather::Source { file, id, length, hash_key, seed };
                job.buffers.part = source.part(from, std::mem::take(&mut job.buffers.part))?;
                Ok(job)
            },
            move |engine, read: disk::Result<Job>| match read {
                Ok(job) => {
                    engine.rewriter.state = State::Judging { job, slot, next: 0 };
                    engine.busy = true;
                }
                Err(error) => engine.give_up_rewrite(&error.into()),
            },
        );
    }

    fn give_up_rewrite(&mut self, error: &OpenError) {
        self.rewriter.backoff.failed(self.now.boot_ms);
        let pause_ms = self.rewriter.backoff.left_ms(self.now.boot_ms);
        tracing::warn!(%error, pause_ms, "old files could not be rewritten; it is tried again");
        self.rewriter.state = State::Idle;
        self.rewriter.sources.clear();
        self.rewriter.is_wanted = true;
    }

    fn write_runs(&mut self, mut job: Job) {
        let first_run = self.rewriter.latest_run + 1;
        // More than a job can fill: a number is used once, whatever becomes of it.
        self.rewriter.latest_run += 16;
        let manifest = self.manifest;
        let (disk, now_ms) = (Arc::clone(&self.disk), self.now.wall_ms);
        let chunk_bytes = self.options.chunk_bytes;
        let make = Make { first_run, manifest, pace: self.background_pace(), now_ms, chunk_bytes };
        self.rewriter.state = State::Away;
        self.in_background(
            move || {
                job.buffers.carry_over_unasked();
                write(&disk, job, &make)
            },
            move |engine, written| match written {
                Ok(written) => engine.runs_written(written),
                Err(error) => engine.give_up_rewrite(&error),
            },
        );
    }

    fn runs_written(&mut self, written: Written) {
        self.rewriter.backoff = Backoff::new(PAUSES_MS.0, PAUSES_MS.1);
        let Written { runs, buffers, .. } = written;
        let mut slots = Vec::new();
        for run in runs {
            match self.files.add_run(run) {
                Ok(slot) => slots.push(slot),
                // What was written goes at the next opening.
                Err(error) => return self.give_up_rewrite(&error.into()),
            }
        }
        self.rewriter.state = State::Moving { slots, buffers, next: 0 };
        self.busy = true;
    }

    fn move_some(&mut self, slots: Vec<u16>, mut buffers: Buffers, next: usize) {
        let moves = &buffers.moves;
        let end = (next + self.rewriter.records_per_step()).min(moves.len());
        self.namespaces.warm(moves[next..end].iter().map(|moved| moved.key));
        for moved in &moves[next..end] {
            let to = Location::new(slots[moved.run], u64::from(moved.unit), moved.bytes);
            self.relocate(moved, to);
        }
        self.busy = true;
        if end < moves.len() {
            self.rewriter.state = State::Moving { slots, buffers, next: end };
            return;
        }
        buffers.moves.clear();
        self.rewriter.buffers = buffers;
        // What is left in them could not be read, or has just been written over.
        for slot in std::mem::take(&mut self.rewriter.sources) {
            let is_left = self.files.counts(slot).is_some_and(|counts| counts.live > 0);
            if let Some(file) = self.files.get_mut(slot) {
                file.is_stuck = is_left;
            }
        }
        self.rewriter.is_wanted = true;
        // Some may have waited for this.
        self.reclaim();
    }

    fn relocate(&mut self, moved: &Move, to: Location) {
        let number = moved.key.namespace();
        let (hash_key, old) = (self.hash_key, moved.old);
        let mut is_held = false;
        let did = self.namespaces.with(number, |namespace| match moved.kind {
            run::Kind::Pending => {
                let relocated = namespace.relocate(moved.key, old, to);
                is_held = relocated == Some(Moved::InWindow);
                relocated.is_some()
            }
            run::Kind::Tombstones => {
                namespace.tombstones.index_mut().relocate(moved.key, old, to).is_some()
            }
            run::Kind::DeadLetters => moved.firing.as_ref().is_some_and(|firing| {
                let delivery = firing.delivery_id(namespace.name.as_str());
                let letter = letters::key_of(hash_key, number, delivery);
                namespace.letters.relocate(letter, old, to)
            }),
        });
        if did == Some(true) {
            self.files.release(old);
            self.files.retain(to);
        }
        if is_held {
            self.step_back.places_moved();
        }
    }
}
