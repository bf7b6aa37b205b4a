//! Checkpoints: copies the index to disk while the engine continues.
//!
//! ```text
//!   begin (replay point) ─► walk: namespace, its entries, leases … ─► files ─► durable? ─► name
//!                             a few tables a step        │ pieces
//!                                                        ▼
//!                                                  background: write
//! ```
//!
//! What must stay true:
//!
//! 1. A step copies only records that are written: it waits for the frame under construction ([`walk`]).
//! 2. A checkpoint gets its name when every record that it saw is durable.
//! 3. The newest two checkpoints are kept, with all files that they need ([`Engine::reclaim`]).

use std::{collections::VecDeque, sync::Arc};

use crate::{
    checkpoint::{CheckpointWriter, FinishedCheckpoint},
    disk::{self, Disk, deallocate},
    format::{self, checkpoint as layout},
    numbered::CHECKPOINTS,
    open::Result,
};

use super::{Engine, backoff::Backoff};

mod walk;

use walk::{CheckpointPiece, CheckpointUnderWay, WalkPlace};

/// Number of checkpoints that are kept.
const KEPT: usize = 2;
/// Bytes of journal that a startup replays in a few seconds.
const REPLAY_BYTES: u64 = 1 << 30;
/// Bytes of pieces above which the walk waits for the writer.
const PIECES_BYTES_MAX: usize = 4 << 20;
/// Time without a write after which the journal counts as quiet.
const QUIET_MS: u64 = 2_000;
/// Pause before a failed checkpoint is tried again: the first and the longest.
const PAUSES_MS: (u64, u64) = (1_000, 60_000);

/// A checkpoint that can be loaded.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptCheckpoint {
    pub(super) number: u64,
    /// Segment in which its replay begins.
    pub(super) sequence: u64,
}

/// State of all checkpoints.
#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Kept checkpoints, oldest first.
    pub(super) kept: VecDeque<KeptCheckpoint>,
    /// Number of the latest checkpoint that was begun.
    pub(super) latest: u64,
    taking: Option<CheckpointUnderWay>,
    /// Buffers of the latest checkpoint, for the next one. To return memory to the system and to ask for
    /// it again costs more than the work done with it.
    buffers: Vec<Vec<u8>>,
    /// Bytes of the journal at which the latest complete checkpoint began.
    begun_at_bytes: u64,
    /// Bytes of the latest complete checkpoint.
    pub(super) bytes: u64,
    /// Pause after a failed checkpoint.
    backoff: Backoff<{ PAUSES_MS.0 }, { PAUSES_MS.1 }>,
    /// `true`: files are being removed.
    pub(super) is_reclaiming: bool,
}

impl Checkpoints {
    /// Returns `true` if a checkpoint is being taken.
    pub(super) const fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    /// The oldest that must be loadable; while there are not two, nothing may go.
    pub(super) fn oldest(&self) -> Option<KeptCheckpoint> {
        self.kept.front().copied().filter(|_| self.kept.len() >= KEPT)
    }
}

/// Returns the bytes by which the journal may grow before the next checkpoint is due.
///
/// 1. The growth is the size of the last checkpoint, limited to `REPLAY_BYTES`, so a startup stays short.
/// 2. The growth is at least half of that size. So at most two bytes of checkpoints are written for each
///    byte of journal.
fn growth(checkpoint_bytes: u64) -> u64 {
    checkpoint_bytes.min(REPLAY_BYTES.max(checkpoint_bytes / 2))
}

impl Engine {
    /// Runs one step: begins a checkpoint if one is due, or continues the one under way. It must run
    /// before anything is appended in this step.
    pub(super) fn checkpoint_step(&mut self) {
        if self.journal.frame_bytes() > 0 {
            return;
        }
        if self.checkpoints.taking.is_none() {
            if self.wants_checkpoint() {
                self.begin_checkpoint();
            }
            return;
        }
        self.walk_step();
        self.hand_to_writer();
    }

    fn wants_checkpoint(&self) -> bool {
        if self.stopping.is_begun() {
            return self.wants_last_checkpoint();
        }
        if self.backups.is_waiting() {
            return true;
        }
        let checkpoints = &self.checkpoints;
        if !checkpoints.backoff.is_over(self.now.boot_ms) {
            return false;
        }
        let grown = self.replay_bytes();
        let needed = self.options.checkpoint_bytes.max(growth(checkpoints.bytes));
        grown >= needed || self.is_worth_freeing()
    }

    /// Returns the bytes of the journal that a startup would replay.
    pub(super) fn replay_bytes(&self) -> u64 {
        self.journal.bytes_written - self.checkpoints.begun_at_bytes
    }

    /// Returns `true` if enough bytes would be freed by a checkpoint: many, or fewer while the journal is
    /// quiet.
    fn is_worth_freeing(&self) -> bool {
        if self.backups.is_held() {
            // No file is removed while a backup is held, so a checkpoint would free nothing.
            return false;
        }
        let oldest = self.checkpoints.oldest().map_or(0, |oldest| oldest.number);
        let waiting = self.files.waiting_bytes(oldest);
        let is_quiet =
            self.now.boot_ms.saturating_sub(self.journal_grew_ms) >= QUIET_MS && waiting > 0;
        waiting > self.options.checkpoint_bytes.max(self.files.bytes() / 16)
            || (is_quiet && waiting > self.options.checkpoint_bytes / 2)
    }

    fn begin_checkpoint(&mut self) {
        let number = self.checkpoints.latest + 1;
        self.checkpoints.latest = number;
        self.note_checkpoint_begun();
        self.files.checkpoint_begins(number);
        let replay = self.journal.replay_point();
        let buffers = std::mem::take(&mut self.checkpoints.buffers);
        let written = self.journal.written_lsn();
        let bytes = self.journal.bytes_written;
        self.checkpoints.taking =
            Some(CheckpointUnderWay::new(number, replay, written, bytes, buffers));
        let header = layout::Header {
            version: format::VERSION,
            store: self.manifest.store,
            number,
            replay,
            begun_at_ms: self.now.wall_ms,
            retry_due_max_ms: self.retry_due_max_ms,
            steady_ms: self.now.steady_ms,
        };
        let (disk, seed, pace) = (Arc::clone(&self.disk), self.seed, self.pace);
        self.in_background(
            move || CheckpointWriter::create(disk, &header, seed, pace.throttle()),
            move |engine, created| engine.take_writer_back(number, created.map(Box::new)),
        );
        self.busy = true;
    }

    /// Takes the writer back from the background thread.
    fn take_writer_back(&mut self, number: u64, writer: disk::Result<Box<CheckpointWriter>>) {
        let taking = self.checkpoints.taking.as_mut().filter(|taking| taking.number == number);
        match (taking, writer) {
            (Some(taking), Ok(writer)) => taking.writer = Some(writer),
            (_, Err(error)) => self.abandon_checkpoint(&error),
            (None, Ok(_)) => {}
        }
        self.busy = true;
    }

    fn abandon_checkpoint(&mut self, error: &disk::Error) {
        self.checkpoints.taking = None;
        self.note_checkpoint_ended();
        self.checkpoints.backoff.failed(self.now.boot_ms);
        let pause_ms = self.checkpoints.backoff.left_ms(self.now.boot_ms);
        if self.stopping.is_begun() {
            tracing::warn!(
                %error,
                "last checkpoint before the stop failed; the next start replays the journal instead"
            );
        } else {
            tracing::warn!(%error, pause_ms, "checkpoint failed, will retry");
        }
        // They do not wait for the next checkpoint.
        self.backups.fail(&error.to_string());
        let can_drop = self.checkpoints.kept.len() == KEPT
            && !self.backups.is_held()
            && !self.stopping.is_begun();
        if error.is_no_space() && can_drop {
            // The newer checkpoint is enough for a startup. The space of the older one may be all there
            // is.
            self.drop_oldest_checkpoint();
        }
    }

    /// Hands the collected pieces to the writer, or finishes the checkpoint once its records are durable.
    fn hand_to_writer(&mut self) {
        let Some(taking) = &mut self.checkpoints.taking else {
            return;
        };
        let is_ended = matches!(taking.place, WalkPlace::Ended);
        let has_enough = taking.pieces_bytes >= PIECES_BYTES_MAX || is_ended;
        if taking.writer.is_none() || !has_enough {
            return;
        }
        let number = taking.number;
        if !taking.pieces.is_empty() {
            let Some(mut writer) = taking.writer.take() else {
                return;
            };
            let pieces = taking.take_pieces();
            self.in_background(
                move || {
                    let written = pieces.iter().try_for_each(|piece| piece.write(&mut writer));
                    written.map(|()| (writer, pieces))
                },
                move |engine, written| {
                    let (writer, pieces) = match written {
                        Ok((writer, pieces)) => (Ok(writer), pieces),
                        Err(error) => (Err(error), Vec::new()),
                    };
                    if let Some(taking) = &mut engine.checkpoints.taking {
                        taking
                            .buffers
                            .extend(pieces.into_iter().filter_map(CheckpointPiece::into_buffer));
                    }
                    engine.take_writer_back(number, writer);
                },
            );
        } else if taking.seen_lsn <= self.journal.durable_lsn()
            && let Some(writer) = taking.writer.take()
        {
            let kept = KeptCheckpoint { number, sequence: taking.replay.sequence };
            let highest = self.namespaces.highest_number();
            self.in_background(
                move || writer.finish(highest),
                move |engine, finished| engine.checkpoint_taken(kept, finished),
            );
        }
    }

    fn checkpoint_taken(
        &mut self,
        kept: KeptCheckpoint,
        finished: disk::Result<FinishedCheckpoint>,
    ) {
        match finished {
            Ok(FinishedCheckpoint { bytes, end }) => {
                tracing::debug!(number = kept.number, bytes, entries = end.entries, "checkpoint");
                if let Some(taking) = self.checkpoints.taking.take() {
                    self.checkpoints.begun_at_bytes = taking.begun_at_bytes;
                    self.checkpoints.buffers = taking.into_buffers();
                }
                self.checkpoints.bytes = bytes;
                self.note_checkpoint_ended();
                self.checkpoints.backoff = Backoff::default();
                self.checkpoints.kept.push_back(kept);
                self.rewriter.is_wanted = true;
                self.reply_to_backups(kept);
                if self.checkpoints.kept.len() > KEPT {
                    self.drop_old_checkpoints();
                } else {
                    self.reclaim();
                }
            }
            Err(error) => self.abandon_checkpoint(&error),
        }
    }

    /// Drops all but the newest two checkpoints, unless a backup copies one of them.
    pub(super) fn drop_old_checkpoints(&mut self) {
        while self.checkpoints.kept.len() > KEPT && !self.backups.is_held() {
            self.drop_oldest_checkpoint();
        }
    }

    fn drop_oldest_checkpoint(&mut self) {
        if self.checkpoints.kept.pop_front().is_none() {
            return;
        }
        let disk = Arc::clone(&self.disk);
        let kept: Vec<u64> = self.checkpoints.kept.iter().map(|kept| kept.number).collect();
        self.in_background(
            move || remove_others(disk.as_ref(), &kept),
            |engine, removed| {
                if let Err(error) = removed {
                    tracing::warn!(
                        %error,
                        "old checkpoint could not be removed, will retry after the next checkpoint"
                    );
                }
                engine.reclaim();
            },
        );
    }
}

/// Removes the checkpoints that are not kept: the oldest, and older ones that could not be removed before
/// or got their name although they were abandoned.
fn remove_others(disk: &dyn Disk, kept: &[u64]) -> Result<()> {
    let newest = kept.iter().max().copied().unwrap_or(0);
    let others = CHECKPOINTS.list(disk)?;
    let mut nameless = Vec::new();
    for number in others.into_iter().filter(|number| *number < newest && !kept.contains(number)) {
        nameless.extend(deallocate::remove_name(disk, &CHECKPOINTS.name(number))?);
    }
    disk.sync_dir(CHECKPOINTS.dir)?;
    nameless.iter().for_each(deallocate::deallocate_file);
    Ok(())
}
