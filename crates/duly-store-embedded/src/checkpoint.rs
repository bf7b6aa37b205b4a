//! Checkpoints: files that let a start skip most of the journal.
//!
//! 1. The layout is in [`crate::format::checkpoint`].
//! 2. A checkpoint is written as `checkpoints/<number>.tmp`. It is renamed to `checkpoints/<number>.ckp`
//!    when it is complete and durable, so a file of that name is always complete.
//! 3. A checkpoint that does not read back is therefore damage of the disk, and a start may load the one
//!    before it.
//! 4. The start of the store makes the directory [`FILES`]`.dir` durable before the first writer.

use crate::{disk::Disk, numbered::Numbered, open::Result};

mod read;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use read::{CheckpointReader, each_block};
pub(crate) use write::{CheckpointWriter, FinishedCheckpoint};

/// Directory and suffix of the checkpoints.
pub(crate) const FILES: Numbered = Numbered { dir: "checkpoints", suffix: ".ckp" };

/// Returns the numbers of the existing checkpoints, newest first.
pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<u64>> {
    let mut numbers = FILES.list(disk)?;
    numbers.reverse();
    Ok(numbers)
}
