//! Replay on two threads: one reads, checks and skims, the caller's applies.
//!
//! ```text
//!   duly-replay: walk ─► frames ─► Effect::skim ─► batches ══ at most 4 wait ══► each_batch
//! ```
//!
//! * Everything that was read before a place that is refused has been handed over, in order, when
//!   the refusal is answered; so what is answered does not depend on which thread is ahead. A
//!   batch that its consumer refuses comes before whatever the reader met behind it.
//! * A consumer that refuses or panics ends the reader at its next batch; a panic of either thread
//!   goes on in the caller.
//! * The consumer must leave the disk alone meanwhile.
//!
//! Called by the engine at open.

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
    open::{OpenError, Result},
};

use super::{
    Found, Progress, ReplayPoint,
    walk::{Halt, Visitor, WholeFrame, walk},
};

/// Records handed over at once.
const BATCH_RECORDS: usize = 4_096;
/// Batches that wait for the consumer.
const BATCHES_AHEAD: usize = 4;

/// A record that was read back.
#[derive(Debug, PartialEq)]
pub(crate) struct Replayed {
    /// Its slot is the segment's place among those that were read, from 0.
    pub(crate) location: Location,
    /// Number of its frame.
    pub(crate) lsn: u64,
    pub(crate) namespace: u32,
    /// Its bytes, without the padding.
    pub(crate) bytes: u32,
    pub(crate) effect: Effect,
}

/// What the reading thread sends.
enum HeartbeatReply {
    Batch(Vec<Replayed>),
    Progress(Progress),
}

/// Reads the journal, from its beginning or from `from` on, and hands over what its records do, in
/// order. Segments before `from` are not looked at and need not be there.
pub(crate) fn recover(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    each_batch: &mut dyn FnMut(Vec<Replayed>) -> Result<()>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Found> {
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

/// Takes what comes until the reader is done. The receiver goes with this call, however it ends:
/// that is what stops the reader.
fn consume(
    receiver: Receiver<HeartbeatReply>,
    each_batch: &mut dyn FnMut(Vec<Replayed>) -> Result<()>,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    for heard in receiver {
        match heard {
            HeartbeatReply::Batch(batch) => each_batch(batch)?,
            HeartbeatReply::Progress(how_far) => progress(how_far),
        }
    }
    Ok(())
}

fn read(
    disk: &dyn Disk,
    manifest: &Manifest,
    from: Option<ReplayPoint>,
    sender: SyncSender<HeartbeatReply>,
) -> Result<Found, Halt> {
    let mut skimmer = Skimmer { hash_key: manifest.hash_key, batch: Vec::new(), sender };
    let read = walk(disk, manifest, from, &mut skimmer);
    // Also before a refusal: a consumer's comes first, if it has one.
    skimmer.flush()?;
    read
}

/// Skims what a walk comes by.
struct Skimmer {
    hash_key: u128,
    batch: Vec<Replayed>,
    sender: SyncSender<HeartbeatReply>,
}

impl Skimmer {
    fn send(&self, heard: HeartbeatReply) -> Result<(), Halt> {
        self.sender.send(heard).map_err(|_| Halt::Unheard)
    }

    fn flush(&mut self) -> Result<(), Halt> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.send(HeartbeatReply::Batch(batch))
    }
}

impl Visitor for Skimmer {
    fn frame(&mut self, frame: &WholeFrame<'_>) -> Result<(), Halt> {
        let lsn = frame.header.lsn;
        frame.each_record(|place, bytes| {
            let location = place.location(bytes);
            let Skimmed { namespace, bytes, effect } =
                Effect::skim(self.hash_key, bytes).map_err(|error| place.damaged(&error))?;
            let bytes = u32::try_from(bytes).expect("a record fits its segment");
            if self.batch.capacity() == 0 {
                self.batch.reserve_exact(BATCH_RECORDS);
            }
            self.batch.push(Replayed { location, lsn, namespace, bytes, effect });
            if self.batch.len() >= BATCH_RECORDS { self.flush() } else { Ok(()) }
        })
    }

    fn progress(&mut self, progress: Progress) -> Result<(), Halt> {
        self.send(HeartbeatReply::Progress(progress))
    }
}

#[cfg(test)]
mod tests;
