//! The rewriter: old files are read once, and what is still live of them goes into runs.
//!
//! ```text
//!   pick files ─► background: read one, skim ─► engine: which are live? ─► next file …
//!                                                                          │ all read
//!      engine: locations move, one by one ◄─ background: sort, write runs ◄┘
//! ```
//!
//! Files are picked when they are older than the young generation (a timer that is cancelled or
//! fires within it is never written again), or mostly dead. Pending timers, stubs and dead letters go
//! to runs of their own, each in the order in which its records go: so whole stretches of a run die
//! together.
//!
//! Invariants: a location moves only if the entry still points at the old place; what could not be
//! read stays where it is; the old files go when both kept checkpoints have the new places
//! ([`Engine::reclaim`]).

use std::sync::Arc;

use crate::{
    disk::{self, Disk},
    effect::{Effect, Firing},
    files::FileId,
    format::{self, run},
    index::{Key, Location},
    manifest::Manifest,
    open::OpenError,
    runs::{self, Pushed, Run},
};

use super::{Engine, work::Pace};

mod gather;

use gather::{Candidate, Gathered, Mark};

/// Bytes of live records, by size class, that one job takes on.
const JOB_BYTES: u64 = 32 << 20;
/// Files that one job takes on.
const JOB_FILES: usize = 16;
/// Records that one step looks at.
const RECORDS_PER_STEP: usize = 2_048;
/// When a job that failed is tried again.
const AGAIN_MS: u64 = 10_000;

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
    sources: Vec<u16>,
    survivors: Vec<Survivor>,
    bytes: Vec<u8>,
}

/// What the rewriter is at.
#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    /// Something is away in the background.
    Away,
    /// A part of a file was read; its records are looked at.
    Judging { job: Job, slot: u16, gathered: Gathered, next: usize },
    /// Runs were written; locations move.
    Moving { sources: Vec<u16>, slots: Vec<u16>, moves: std::vec::IntoIter<Move> },
}

/// The rewriter.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    state: State,
    /// Highest number of a run.
    pub(super) latest_run: u64,
    /// Not before, by the boot-time clock.
    not_before_ms: u64,
    /// Whether there may be something to do.
    pub(super) is_wanted: bool,
}

/// How runs are made.
struct Make {
    first_run: u64,
    manifest: Manifest,
    pace: Pace,
    now_ms: u64,
    chunk_bytes: u64,
}

/// Runs that were written.
struct Written {
    ids: Vec<u64>,
    runs: Vec<Run>,
    moves: Vec<Move>,
}

impl Rewriter {
    /// Whether locations move: not all that will point into the new runs does yet.
    pub(super) const fn is_moving(&self) -> bool {
        matches!(self.state, State::Moving { .. })
    }
}

impl Engine {
    /// One step.
    pub(super) fn rewrite_step(&mut self) {
        match std::mem::take(&mut self.rewriter.state) {
            State::Idle => {
                if self.now.boot_ms < self.rewriter.not_before_ms
                    || !std::mem::take(&mut self.rewriter.is_wanted)
                {
                    return;
                }
                if let Some(sources) = self.pick_sources() {
                    let job = Job { to_read: sources.clone(), sources, ..Job::default() };
                    self.read_next(job);
                }
            }
            State::Away => self.rewriter.state = State::Away,
            State::Judging { job, slot, gathered, next } => self.judge(job, slot, gathered, next),
            State::Moving { sources, slots, moves } => self.move_some(sources, slots, moves),
        }
    }

    /// Files for the next job: the oldest segments past the young generation, or files that are
    /// mostly dead.
    fn pick_sources(&self) -> Option<Vec<u16>> {
        let active = self.journal.active_sequence();
        let young = (self.options.young_bytes / self.options.segment_bytes).max(1);
        let mut old = Vec::new();
        let mut sparse = Vec::new();
        let mut dead_bytes = 0;
        for (slot, file, counts) in self.files.iter() {
            if counts.live == 0 || file.is_stuck {
                continue;
            }
            match file.id {
                FileId::Segment(sequence) if sequence + young < active => {
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

    /// Has the next file read, or the runs written when all are.
    fn read_next(&mut self, mut job: Job) {
        let Some(slot) = job.to_read.pop() else {
            self.write_runs(job);
            return;
        };
        self.read_part(job, slot, None);
    }

    /// Has the next part of a file read, or the next file.
    fn read_part(&mut self, job: Job, slot: u16, from: Option<Mark>) {
        let Some(file) = self.files.get(slot) else {
            self.read_next(job);
            return;
        };
        let (id, file, length) = (file.id, Arc::clone(&file.file), file.length);
        let (hash_key, seed) = (self.hash_key, self.seed);
        self.rewriter.state = State::Away;
        self.in_background(
            move || gather::Source { file, id, length, hash_key, seed }.part(from),
            move |engine, gathered| match gathered {
                Ok(gathered) => {
                    engine.rewriter.state = State::Judging { job, slot, gathered, next: 0 };
                    engine.busy = true;
                }
                Err(error) => engine.give_up_rewrite(&error.into()),
            },
        );
    }

    fn give_up_rewrite(&mut self, error: &OpenError) {
        tracing::warn!(%error, "old files could not be rewritten; it is tried again");
        self.rewriter.state = State::Idle;
        self.rewriter.not_before_ms = self.now.boot_ms + AGAIN_MS;
        self.rewriter.is_wanted = true;
    }

    /// Looks at some of a file's records and carries over what the indexes point at.
    fn judge(&mut self, mut job: Job, slot: u16, gathered: Gathered, next: usize) {
        let end = (next + RECORDS_PER_STEP).min(gathered.candidates.len());
        for candidate in &gathered.candidates[next..end] {
            let Candidate { namespace, unit, start, end: stop, bytes, .. } = *candidate;
            let old = Location::new(slot, u64::from(unit), bytes);
            if let Some(survivor) = self.survivor(namespace, candidate, old) {
                let at = job.bytes.len();
                job.bytes.extend_from_slice(&gathered.bytes[start..stop]);
                let end = job.bytes.len();
                job.survivors.push(Survivor { start: at, end, ..survivor });
            }
        }
        self.busy = true;
        if end < gathered.candidates.len() {
            self.rewriter.state = State::Judging { job, slot, gathered, next: end };
        } else if let Some(next) = gathered.next {
            self.read_part(job, slot, Some(next));
        } else {
            self.read_next(job);
        }
    }

    fn survivor(&self, number: u32, candidate: &Candidate, old: Location) -> Option<Survivor> {
        let namespace = self.namespaces.get(number)?;
        let (kind, key, firing, entry) = match &candidate.effect {
            Effect::Pending(pending) => {
                (run::Kind::Pending, pending.key, None, namespace.live.get(pending.key))
            }
            Effect::Redriven(redriven) => {
                let key = redriven.pending.key;
                (run::Kind::Pending, key, None, namespace.live.get(key))
            }
            Effect::Ended { key, .. } => {
                (run::Kind::Stubs, *key, None, namespace.stubs.index().get(*key))
            }
            Effect::Dead { key, firing, .. } => {
                let delivery = firing.delivery_id(namespace.name.as_str());
                let entry = namespace.letters.entry(self.hash_key, number, delivery);
                (run::Kind::DeadLetters, *key, Some(firing.clone()), entry)
            }
            _ => return None,
        };
        let entry = entry.filter(|entry| entry.location() == old)?;
        let time_ms = entry.claimable().at_ms;
        Some(Survivor { kind, namespace: number, key, firing, time_ms, old, start: 0, end: 0 })
    }

    fn write_runs(&mut self, job: Job) {
        let first_run = self.rewriter.latest_run + 1;
        // More than a job can fill: a number is used once, whatever becomes of it.
        self.rewriter.latest_run += 16;
        let manifest = self.manifest;
        let (disk, now_ms) = (Arc::clone(&self.disk), self.now.wall_ms);
        let chunk_bytes = self.options.chunk_bytes;
        let make = Make { first_run, manifest, pace: self.pace, now_ms, chunk_bytes };
        self.rewriter.state = State::Away;
        let sources = job.sources.clone();
        self.in_background(
            move || write(&disk, job, &make),
            move |engine, written| match written {
                Ok(written) => engine.runs_written(sources, written),
                Err(error) => engine.give_up_rewrite(&error),
            },
        );
    }

    fn runs_written(&mut self, sources: Vec<u16>, written: Written) {
        let Written { runs, moves, .. } = written;
        let mut slots = Vec::new();
        for run in runs {
            match self.files.add_run(run) {
                Ok(slot) => slots.push(slot),
                // What was written goes at the next opening.
                Err(error) => return self.give_up_rewrite(&error.into()),
            }
        }
        self.rewriter.state = State::Moving { sources, slots, moves: moves.into_iter() };
        self.busy = true;
    }

    fn move_some(
        &mut self,
        sources: Vec<u16>,
        slots: Vec<u16>,
        mut moves: std::vec::IntoIter<Move>,
    ) {
        for moved in moves.by_ref().take(RECORDS_PER_STEP) {
            let to = Location::new(slots[moved.run], u64::from(moved.unit), moved.bytes);
            self.relocate(&moved, to);
        }
        self.busy = true;
        if moves.len() > 0 {
            self.rewriter.state = State::Moving { sources, slots, moves };
            return;
        }
        // What is left in them could not be read, or has just been written over.
        for slot in sources {
            let is_left = self.files.counts(slot).is_some_and(|counts| counts.live > 0);
            if let Some(file) = self.files.get_mut(slot) {
                file.is_stuck = is_left;
            }
        }
        self.rewriter.is_wanted = true;
    }

    fn relocate(&mut self, moved: &Move, to: Location) {
        let number = moved.key.namespace();
        let (hash_key, old) = (self.hash_key, moved.old);
        let did = self.namespaces.with(number, |namespace| match moved.kind {
            run::Kind::Pending => namespace.live.relocate(moved.key, old, to),
            run::Kind::Stubs => namespace.stubs.index_mut().relocate(moved.key, old, to),
            run::Kind::DeadLetters => moved.firing.as_ref().is_some_and(|firing| {
                let delivery = firing.delivery_id(namespace.name.as_str());
                namespace.letters.relocate(hash_key, moved.key, delivery, (old, to))
            }),
        });
        if did == Some(true) {
            self.files.release(old);
            self.files.retain(to);
        }
    }
}

/// Writes the survivors of a job into runs; all of them, or none is left.
fn write(disk: &Arc<dyn Disk>, job: Job, make: &Make) -> Result<Written, OpenError> {
    let moves = Vec::with_capacity(job.survivors.len());
    let mut written = Written { ids: Vec::new(), runs: Vec::new(), moves };
    match write_all(disk, job, make, &mut written) {
        Ok(()) => Ok(written),
        Err(error) => {
            for id in &written.ids {
                // What cannot be removed goes at the next opening.
                disk.remove(&runs::FILES.name(*id)).ok();
            }
            Err(error)
        }
    }
}

fn write_all(
    disk: &Arc<dyn Disk>,
    job: Job,
    make: &Make,
    written: &mut Written,
) -> Result<(), OpenError> {
    let Make { first_run, manifest, pace, now_ms, chunk_bytes } = make;
    let Job { mut survivors, bytes, .. } = job;
    survivors.sort_unstable_by_key(|survivor| {
        (survivor.kind as u8, run::hour_of(survivor.time_ms), survivor.namespace, survivor.time_ms)
    });
    let mut writer: Option<(run::Kind, runs::Writer)> = None;
    for survivor in survivors {
        let record = &bytes[survivor.start..survivor.end];
        loop {
            if writer.as_ref().is_none_or(|(kind, _)| *kind != survivor.kind) {
                finish(disk, writer.take(), &written.ids)?;
                let id = first_run + written.ids.len() as u64;
                let header = header(id, survivor.kind, manifest, *now_ms);
                let (seed, throttle) = (manifest.frame_seed(), pace.throttle());
                let next = runs::Writer::create(Arc::clone(disk), &header, seed, throttle)?;
                written.ids.push(id);
                writer = Some((survivor.kind, next.with_chunk_bytes(*chunk_bytes)));
            }
            let Some((_, open)) = &mut writer else {
                unreachable!("it was made above");
            };
            match open.push(survivor.namespace, survivor.time_ms, record)? {
                Pushed::At(unit) => {
                    let Survivor { kind, key, firing, old, .. } = survivor;
                    let (run, bytes) = (written.ids.len() - 1, record.len() as u64);
                    written.moves.push(Move { kind, key, firing, old, run, unit, bytes });
                    break;
                }
                Pushed::Full => finish(disk, writer.take(), &written.ids)?,
            }
        }
    }
    finish(disk, writer.take(), &written.ids)?;
    for id in &written.ids {
        written.runs.push(runs::open(disk.as_ref(), *id, manifest)?);
    }
    Ok(())
}

fn header(id: u64, kind: run::Kind, manifest: &Manifest, now_ms: u64) -> run::Header {
    run::Header { version: format::VERSION, store: manifest.store, id, kind, created_at_ms: now_ms }
}

fn finish(
    disk: &Arc<dyn Disk>,
    writer: Option<(run::Kind, runs::Writer)>,
    ids: &[u64],
) -> Result<(), disk::Error> {
    if let (Some((_, writer)), Some(id)) = (writer, ids.last()) {
        writer.finish()?;
        runs::publish(disk.as_ref(), *id)?;
    }
    Ok(())
}
