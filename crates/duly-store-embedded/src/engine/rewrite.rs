//! The rewriter: reads old files once, and copies their live records into sorted runs.
//!
//! ```text
//!   pick files ─► background: read one, skim ─► engine: which are live? ─► next part, next file …
//!                                                                          │ all read
//!      engine: locations move, one by one ◄─ background: sort, write runs ◄┘
//! ```
//!
//! How it works:
//!
//! 1. A file is picked if it is older than the young generation, or if it is mostly dead. A timer that is
//!    cancelled or delivered within the young generation is never written again.
//! 2. Pending timers, tombstones and dead letters go to separate runs, each in the order in which its
//!    records will be removed. So whole stretches of a run die together.
//!
//! What must stay true:
//!
//! 1. A location moves only if the entry still points at the old place.
//! 2. A record that could not be read stays where it is.
//! 3. The old files are removed when both kept checkpoints have the new places ([`Engine::reclaim`]).

use std::{ops::Range, sync::Arc};

use crate::{
    disk,
    effect::Firing,
    files::FileId,
    format::sorted_run,
    index::{Key, Location},
    open::OpenError,
};

use super::{Engine, backoff::Backoff, dead_letters, namespaces::Moved};

mod gather;
mod select;
mod write;

use gather::{Candidate, GatheredPart, PartStart};
use write::{RunParameters, WrittenRuns, write};

/// Bytes of live records after which a job reads no further file.
const JOB_BYTES: u64 = 32 << 20;
/// Most files of a job.
const JOB_FILES: usize = 16;
/// Records that one step visits or moves: the least and the most.
const RECORDS_PER_STEP: (usize, usize) = (256, 4_096);
/// Bytes written by the step before for which this step handles one more record. That is a few records
/// for each record written. So the rewriter keeps up with any load, and takes little of the engine's time
/// under a light one.
const BYTES_PER_RECORD: u64 = 64;
/// Pause before a failed job is tried again: the first and the longest.
const PAUSES_MS: (u64, u64) = (1_000, 60_000);

/// A live record that is copied to a run, until its location has moved there.
#[derive(Debug)]
struct Survivor {
    kind: sorted_run::RunKind,
    key: Key,
    /// Firing of a dead letter.
    firing: Option<Box<Firing>>,
    time_ms: u64,
    old: Location,
    /// Place of its bytes among those of the job.
    bytes: Range<usize>,
    /// Run of the job, and unit in it, once it is written.
    new: (usize, u32),
}

/// A job of the rewriter.
#[derive(Debug, Default)]
struct RewriteJob {
    /// Slots still to be read.
    to_read: Vec<u16>,
    buffers: JobBuffers,
}

/// Large buffers of a job, which the next job reuses. To return memory to the system and to ask for it
/// again costs more than the work done with it.
#[derive(Debug, Default)]
struct JobBuffers {
    /// Part of a file that was read last.
    part: GatheredPart,
    survivors: Vec<Survivor>,
    /// Bytes of the survivors.
    bytes: Vec<u8>,
}

/// State of the rewriter.
#[derive(Debug, Default)]
enum RewriterState {
    #[default]
    Idle,
    /// The background thread has the job.
    InBackground,
    /// A part of a file was read; its records are checked.
    Selecting { job: RewriteJob, slot: u16, next: usize },
    /// Runs were written; locations move to them.
    Moving { slots: Vec<u16>, buffers: JobBuffers, next: usize },
}

/// The rewriter.
#[derive(Debug, Default)]
pub(super) struct Rewriter {
    state: RewriterState,
    /// Slots from which the job reads.
    sources: Vec<u16>,
    /// Empty buffers of the last job.
    buffers: JobBuffers,
    /// Highest number of a run.
    pub(super) latest_run: u64,
    /// Bytes of the journal at the last step, and how many of them the step before it wrote.
    journal_bytes: (u64, u64),
    /// Pause after a failed job.
    backoff: Backoff<{ PAUSES_MS.0 }, { PAUSES_MS.1 }>,
    /// `true`: there may be work.
    pub(super) is_wanted: bool,
}

impl Rewriter {
    /// Returns `true` if locations move: some entries do not point into the new runs yet.
    pub(super) const fn is_moving(&self) -> bool {
        matches!(self.state, RewriterState::Moving { .. })
    }

    /// Returns `true` if it has no job.
    pub(super) const fn is_idle(&self) -> bool {
        matches!(self.state, RewriterState::Idle)
    }

    fn records_per_step(&self) -> usize {
        let (least, most) = RECORDS_PER_STEP;
        let wanted = usize::try_from(self.journal_bytes.1 / BYTES_PER_RECORD);
        wanted.map_or(most, |wanted| wanted.clamp(least, most))
    }

    /// Returns `true` if the job uses the file in this slot, which then must not be removed even if no
    /// entry points at it. Locations move into it, or records were read from it: those would be taken for
    /// records of the next file in its slot.
    pub(super) fn is_using(&self, slot: u16) -> bool {
        let is_moving_into =
            matches!(&self.state, RewriterState::Moving { slots, .. } if slots.contains(&slot));
        is_moving_into || self.sources.contains(&slot)
    }
}

impl Engine {
    /// Runs one step.
    pub(super) fn rewrite_step(&mut self) {
        let bytes = self.journal.bytes_written;
        let (before, _) = self.rewriter.journal_bytes;
        self.rewriter.journal_bytes = (bytes, bytes - before);
        match std::mem::take(&mut self.rewriter.state) {
            RewriterState::Idle => {
                if !self.rewriter.backoff.is_over(self.now.boot_ms)
                    || !std::mem::take(&mut self.rewriter.is_wanted)
                {
                    return;
                }
                match self.pick_sources() {
                    Some(sources) => {
                        let buffers = self.buffers_for(&sources);
                        self.rewriter.sources.clone_from(&sources);
                        self.read_next(RewriteJob { to_read: sources, buffers });
                    }
                    None => self.rewriter.buffers = JobBuffers::default(),
                }
            }
            RewriterState::InBackground => self.rewriter.state = RewriterState::InBackground,
            RewriterState::Selecting { job, slot, next } => self.select(job, slot, next),
            RewriterState::Moving { slots, buffers, next } => self.move_some(slots, buffers, next),
        }
    }

    /// Returns the oldest segment of the young generation, which the rewriter leaves alone.
    fn first_young_segment(&self) -> u64 {
        let young = (self.options.young_bytes / self.options.segment_bytes).max(1);
        self.journal.active_sequence().saturating_sub(young)
    }

    /// Returns the bytes of the segments that wait for the rewriter.
    pub(super) fn rewrite_backlog_bytes(&self) -> u64 {
        let first_young = self.first_young_segment();
        let waits = |id| matches!(id, FileId::Segment(sequence) if sequence < first_young);
        let waiting = self
            .files
            .iter()
            .filter(|(_, file, counts)| counts.live > 0 && !file.is_stuck && waits(file.id));
        waiting.map(|(_, file, _)| file.bytes()).sum()
    }

    /// Picks files for the next job: the oldest segments before the young generation, or files that are
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
                FileId::SortedRun(_) => {
                    // Space that holes can free is no reason for a merge.
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

    /// Returns buffers with capacity for the live records of some files.
    fn buffers_for(&mut self, sources: &[u16]) -> JobBuffers {
        let mut buffers = std::mem::take(&mut self.rewriter.buffers);
        let (mut live, mut bytes) = (0, 0);
        for counts in sources.iter().filter_map(|slot| self.files.counts(*slot)) {
            live += counts.live as usize;
            bytes += usize::try_from(counts.live_bytes).expect("of a few files");
        }
        // Size classes say little about very large records. One file is read in any case: the last.
        let last = sources.last().and_then(|slot| self.files.get(*slot));
        let bytes = bytes.max(last.map_or(0, |file| usize::try_from(file.bytes()).unwrap_or(0)));
        buffers.survivors.reserve(live);
        buffers.bytes.reserve(bytes);
        buffers
    }

    /// Reads the next file, or writes the runs when all are read.
    fn read_next(&mut self, mut job: RewriteJob) {
        if job.buffers.bytes.len() as u64 >= JOB_BYTES {
            // Files were picked by size classes, which say little about very large records.
            let later = std::mem::take(&mut job.to_read);
            self.rewriter.sources.retain(|slot| !later.contains(slot));
        }
        let Some(slot) = job.to_read.pop() else {
            self.write_runs(job);
            return;
        };
        self.read_part(job, slot, None);
    }

    /// Reads the next part of a file, or the next file.
    fn read_part(&mut self, mut job: RewriteJob, slot: u16, from: Option<PartStart>) {
        let Some(file) = self.files.get(slot) else {
            self.read_next(job);
            return;
        };
        let (id, file, length) = (file.id, Arc::clone(&file.file), file.length);
        let (hash_key, seed) = (self.hash_key, self.seed);
        self.rewriter.state = RewriterState::InBackground;
        self.in_background(
            move || {
                job.buffers.copy_without_lookup();
                let source = gather::SourceFile { file, id, length, hash_key, seed };
                job.buffers.part = source.part(from, std::mem::take(&mut job.buffers.part))?;
                Ok(job)
            },
            move |engine, read: disk::Result<RewriteJob>| match read {
                Ok(job) => {
                    engine.rewriter.state = RewriterState::Selecting { job, slot, next: 0 };
                    engine.busy = true;
                }
                Err(error) => engine.abandon_rewrite(&error.into()),
            },
        );
    }

    fn abandon_rewrite(&mut self, error: &OpenError) {
        self.rewriter.backoff.failed(self.now.boot_ms);
        let pause_ms = self.rewriter.backoff.left_ms(self.now.boot_ms);
        tracing::warn!(%error, pause_ms, "rewrite of old files failed, will retry");
        self.rewriter.state = RewriterState::Idle;
        self.rewriter.sources.clear();
        self.rewriter.is_wanted = true;
    }

    fn write_runs(&mut self, mut job: RewriteJob) {
        let first_run = self.rewriter.latest_run + 1;
        // More runs than a job can fill. A number is used once, even if the job fails.
        self.rewriter.latest_run += 16;
        let disk = Arc::clone(&self.disk);
        let parameters = RunParameters {
            first_run,
            manifest: self.manifest,
            pace: self.background_pace(),
            now_ms: self.now.wall_ms,
            chunk_bytes: self.options.chunk_bytes,
        };
        self.rewriter.state = RewriterState::InBackground;
        self.in_background(
            move || {
                job.buffers.copy_without_lookup();
                write(&disk, job, &parameters)
            },
            move |engine, written| match written {
                Ok(written) => engine.runs_written(written),
                Err(error) => engine.abandon_rewrite(&error),
            },
        );
    }

    fn runs_written(&mut self, written: WrittenRuns) {
        self.rewriter.backoff = Backoff::default();
        let WrittenRuns { runs, buffers, .. } = written;
        let mut slots = Vec::new();
        for run in runs {
            match self.files.add_run(run) {
                Ok(slot) => slots.push(slot),
                // The next startup removes the written runs.
                Err(error) => return self.abandon_rewrite(&error.into()),
            }
        }
        self.rewriter.state = RewriterState::Moving { slots, buffers, next: 0 };
        self.busy = true;
    }

    fn move_some(&mut self, slots: Vec<u16>, mut buffers: JobBuffers, next: usize) {
        let moves = &buffers.survivors;
        let end = (next + self.rewriter.records_per_step()).min(moves.len());
        self.namespaces.warm(moves[next..end].iter().map(|moved| moved.key));
        for moved in &moves[next..end] {
            let (run, unit) = moved.new;
            let to = Location::new(slots[run], u64::from(unit), moved.bytes.len() as u64);
            self.relocate(moved, to);
        }
        self.busy = true;
        if end < moves.len() {
            self.rewriter.state = RewriterState::Moving { slots, buffers, next: end };
            return;
        }
        buffers.survivors.clear();
        self.rewriter.buffers = buffers;
        // Records that are left in the sources could not be read, or were replaced just now.
        for slot in std::mem::take(&mut self.rewriter.sources) {
            let is_left = self.files.counts(slot).is_some_and(|counts| counts.live > 0);
            if let Some(file) = self.files.get_mut(slot) {
                file.is_stuck = is_left;
            }
        }
        self.rewriter.is_wanted = true;
        // Some files may have waited for this.
        self.reclaim();
    }

    fn relocate(&mut self, moved: &Survivor, to: Location) {
        let number = moved.key.namespace();
        let (hash_key, old) = (self.hash_key, moved.old);
        let mut is_held = false;
        let did = self.namespaces.with(number, |namespace| match moved.kind {
            sorted_run::RunKind::Pending => {
                let relocated = namespace.relocate(moved.key, old, to);
                is_held = relocated == Some(Moved::InWindow);
                relocated.is_some()
            }
            sorted_run::RunKind::Tombstones => {
                namespace.tombstones.index.relocate(moved.key, old, to).is_some()
            }
            sorted_run::RunKind::DeadLetters => moved.firing.as_ref().is_some_and(|firing| {
                let delivery = firing.delivery_id(namespace.record.name.as_str());
                let letter = dead_letters::key_of(hash_key, number, delivery);
                namespace.dead_letters.relocate(letter, old, to)
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
