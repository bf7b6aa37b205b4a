//! Replay on two threads: one reads, checks and skims, and the caller's thread applies.
//!
//! ```text
//!   duly-replay: walk ─► frames ─► Effect::skim ─► batches ══ at most 4 wait ══► each_batch
//! ```
//!
//! 1. When a refusal is returned, everything read before the refused place has been passed on, in order.
//!    So the result does not depend on the speed of either thread. An error of the consumer takes
//!    precedence over an error of the reader behind that batch.
//! 2. If the consumer fails or panics, the reader stops at its next batch. A panic of either thread
//!    continues in the caller.
//! 3. The consumer must not change the disk meanwhile.
//!
//! The engine calls it at a start.

use std::{
    panic,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::{
    disk::Disk,
    effect::{Effect, Skimmed},
    index::Location,
    manifest::Manifest,
    open::{OpenError, OpenProgress, Result},
};

use super::{
    RecoveredJournal, ReplayPoint,
    walk::{Halt, Visitor, WholeFrame, walk},
};

/// Records in a batch.
const BATCH_RECORDS: usize = 4_096;
/// Batches that wait for the consumer.
const BATCHES_AHEAD: usize = 4;

/// A record that was read back.
#[derive(Debug, PartialEq)]
pub(crate) struct Replayed {
    /// Location of the record. Its slot is the segment's index among those that were read, from 0.
    pub(crate) location: Location,
    /// Number of its frame.
    pub(crate) lsn: u64,
    pub(crate) namespace: u32,
    pub(crate) effect: Effect,
}

/// A message from the reading thread.
enum ReplayMessage {
    Batch(Vec<Replayed>),
    Progress(OpenProgress),
}

/// Reads the journal from its beginning or from `from` on, and passes on the effects of its records, in
/// order. Segments before `from` are not read and need not exist.
pub(crate) fn recover(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    each_batch: &mut dyn FnMut(Vec<Replayed>) -> Result<()>,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<RecoveredJournal> {
    let (sender, receiver) = sync_channel(BATCHES_AHEAD);
    thread::scope(|scope| {
        let reader = thread::Builder::new()
            .name("duly-replay".into())
            .spawn_scoped(scope, || read(disk, manifest, from, sender))
            .map_err(OpenError::no_thread)?;
        let consumed = consume(receiver, each_batch, progress);
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        consumed?;
        read.map_err(Halt::refusal)
    })
}

/// Receives messages until the reader is done. The receiver is dropped with this call in every case, and
/// that stops the reader.
fn consume(
    receiver: Receiver<ReplayMessage>,
    each_batch: &mut dyn FnMut(Vec<Replayed>) -> Result<()>,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<()> {
    for message in receiver {
        match message {
            ReplayMessage::Batch(batch) => each_batch(batch)?,
            ReplayMessage::Progress(read_progress) => progress(read_progress),
        }
    }
    Ok(())
}

fn read(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    sender: SyncSender<ReplayMessage>,
) -> Result<RecoveredJournal, Halt> {
    let mut skimmer = Skimmer { hash_key: manifest.hash_key, batch: Vec::new(), sender };
    let read = walk(disk, manifest, from, &mut skimmer);
    // Also before a refusal: an error of the consumer takes precedence.
    skimmer.flush()?;
    read
}

/// Skims the records of each frame of a walk.
struct Skimmer {
    hash_key: u128,
    batch: Vec<Replayed>,
    sender: SyncSender<ReplayMessage>,
}

impl Skimmer {
    fn send(&self, message: ReplayMessage) -> Result<(), Halt> {
        self.sender.send(message).map_err(|_| Halt::ConsumerGone)
    }

    fn flush(&mut self) -> Result<(), Halt> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.send(ReplayMessage::Batch(batch))
    }
}

impl Visitor for Skimmer {
    fn frame(&mut self, frame: &WholeFrame<'_>) -> Result<(), Halt> {
        let lsn = frame.header.lsn;
        frame.each_record(|place, bytes| {
            let location = place.location(bytes);
            let Skimmed { namespace, effect, .. } =
                Effect::skim(self.hash_key, bytes).map_err(|error| place.damaged(&error))?;
            if self.batch.capacity() == 0 {
                self.batch.reserve_exact(BATCH_RECORDS);
            }
            self.batch.push(Replayed { location, lsn, namespace, effect });
            if self.batch.len() >= BATCH_RECORDS { self.flush() } else { Ok(()) }
        })
    }

    fn progress(&mut self, progress: OpenProgress) -> Result<(), Halt> {
        self.send(ReplayMessage::Progress(progress))
    }
}

#[cfg(test)]
mod tests;
