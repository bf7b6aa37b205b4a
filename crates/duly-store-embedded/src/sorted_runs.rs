//! Sorted runs (SST files): files of records that are sorted by time, each written once.
//!
//! 1. The rewriter moves live records from old files into sorted runs, by (hour, namespace, time). So
//!    timers that fire together are close together, and a file ends as a whole.
//! 2. The layout is in [`crate::format::sorted_run`]. A sorted run is written as `runs/<id>.tmp`, finished, and
//!    then renamed to `runs/<id>.run` ([`publish`]). So a file of that name is always complete.
//! 3. Only locations lead to a sorted run, so a run that no checkpoint names is a left-over.
//! 4. The start of the store makes the directory [`FILES`]`.dir` durable before the first writer.

use crate::{
    disk::{self, Disk, fresh},
    numbered::Numbered,
};

mod read;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use read::{SortedRun, open};
pub(crate) use walk::{RecordFault, walk};
#[cfg(test)]
pub(crate) use write::FinishedRun;
pub(crate) use write::{PushResult, SortedRunWriter};

/// Directory and suffix of the sorted runs.
pub(crate) const FILES: Numbered = Numbered { dir: "runs", suffix: ".run" };

/// Gives a finished sorted run its name, durably.
pub(crate) fn publish(disk: &dyn Disk, id: u64) -> disk::Result<()> {
    fresh::publish(disk, &FILES.temporary_name(id), &FILES.name(id))
}
