//! Reads a checkpoint on two threads: one reads the file and checks its blocks, and the caller's thread
//! applies them.
//!
//! ```text
//!   duly-checkpoint: Reader ─► whole blocks ══ at most 64 wait ══► each
//! ```
//!
//! The result does not depend on the speed of either thread. Every block before a refused place is
//! applied before the refusal is returned, and an error of the caller's closure takes precedence.
//!
//! The engine calls it at a start.

use std::{
    panic,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use crate::{
    format::checkpoint::{Block, BlockHeader},
    open::{OpenError, OpenProgress, Result},
};

use super::CheckpointReader;

/// Most blocks that wait for the caller's thread. A block of entries has about 100 KB.
const BLOCKS_AHEAD: usize = 64;

/// A checked block, on its way to the caller's thread.
struct CheckedBlock {
    header: BlockHeader,
    payload: Vec<u8>,
    read_progress: OpenProgress,
}

/// Passes every block of a checkpoint before its end to `each`, in order.
pub(crate) fn each_block(
    reader: CheckpointReader,
    each: &mut dyn FnMut(Block<'_>, OpenProgress) -> Result<()>,
) -> Result<()> {
    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
    thread::scope(|scope| {
        let reader = thread::Builder::new()
            .name("duly-checkpoint".into())
            .spawn_scoped(scope, || read(reader, sender))
            .map_err(OpenError::no_thread)?;
        // The loop drops the receiver in every case, and that stops the reader.
        let taken =
            receiver.into_iter().try_for_each(|CheckedBlock { header, payload, read_progress }| {
                let block = Block::decode(&header, &payload).expect("the reader has decoded it");
                each(block, read_progress)
            });
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        taken.and(read)
    })
}

fn read(mut reader: CheckpointReader, sender: SyncSender<CheckedBlock>) -> Result<()> {
    while let Some((header, payload)) = reader.next_checked()? {
        let payload = payload.to_vec();
        let read_progress = reader.read_progress();
        if sender.send(CheckedBlock { header, payload, read_progress }).is_err() {
            break;
        }
    }
    Ok(())
}
