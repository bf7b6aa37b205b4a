//! Reading a checkpoint on two threads: one reads the file and checks its blocks, the caller's takes
//! what is in them.
//!
//! ```text
//!   duly-checkpoint: Reader ─► whole blocks ══ at most 64 wait ══► each
//! ```
//!
//! Every block before a place that is refused has been taken when the refusal is answered, and what
//! the taker refuses comes first, so what is answered does not depend on which thread is ahead.
//!
//! Called by the engine at open.

use std::{
    panic,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use crate::{
    format::checkpoint::{Block, BlockHeader},
    open::{OpenError, Result},
};

use super::Reader;

/// Blocks that wait for the taker; one of entries has about 100 KB.
const BLOCKS_AHEAD: usize = 64;

/// How much of a checkpoint was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HowFar {
    pub(crate) bytes_done: u64,
    pub(crate) bytes_total: u64,
}

/// A block that was checked, on its way to the taker.
struct Whole {
    header: BlockHeader,
    payload: Vec<u8>,
    how_far: HowFar,
}

/// Hands over every block of a checkpoint before its end, in order.
pub(crate) fn each_block(
    reader: Reader,
    each: &mut dyn FnMut(Block<'_>, HowFar) -> Result<()>,
) -> Result<()> {
    let (sender, receiver) = sync_channel(BLOCKS_AHEAD);
    thread::scope(|scope| {
        let reader = thread::Builder::new()
            .name("duly-checkpoint".into())
            .spawn_scoped(scope, || read(reader, sender))
            .map_err(OpenError::no_thread)?;
        // The receiver goes with the loop, however it ends: that is what stops the reader.
        let taken = receiver.into_iter().try_for_each(|Whole { header, payload, how_far }| {
            let block = Block::decode(&header, &payload).expect("the reader has decoded it");
            each(block, how_far)
        });
        let read = reader.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
        taken.and(read)
    })
}

fn read(mut reader: Reader, sender: SyncSender<Whole>) -> Result<()> {
    while let Some((header, payload)) = reader.next_checked()? {
        let payload = payload.to_vec();
        let how_far = reader.how_far();
        if sender.send(Whole { header, payload, how_far }).is_err() {
            break;
        }
    }
    Ok(())
}
