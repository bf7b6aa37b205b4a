//! Checkpoints: files from which the engine comes up without reading the whole journal.
//!
//! The layout is in [`crate::format::checkpoint`]. A checkpoint is written as
//! `checkpoints/<number>.tmp` and gets its name `checkpoints/<number>.ckp` when it is whole and
//! durable; under that name there is only ever a whole one. One that does not read back is
//! therefore damage of the disk, and who loads it may take the one before it.
//!
//! Whoever opens the store makes the directory [`FILES`]`.dir`, durably, before the first writer.

use crate::{disk::Disk, numbered::Numbered, open::Result};

mod ahead;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use ahead::{HowFar, each_block};
pub(crate) use read::Reader;
pub(crate) use write::{Finished, Writer};

/// Where checkpoints are.
pub(crate) const FILES: Numbered = Numbered { dir: "checkpoints", suffix: ".ckp" };

/// The numbers of the checkpoints that there are, newest first.
pub(crate) fn list(disk: &dyn Disk) -> Result<Vec<u64>> {
    let mut numbers = FILES.list(disk)?;
    numbers.reverse();
    Ok(numbers)
}
