//! Runs: files of records that are sorted for firing, each written once.
//!
//! The rewriter moves what is still live out of old files into runs, by (hour, namespace, time), so
//! that what fires together lies together and a file dies as a whole. The layout is in
//! [`crate::format::run`]. A run is written as `runs/<id>.tmp`, finished, and then gets its name
//! `runs/<id>.run` ([`publish`]); under that name there is only ever a whole one. Nothing finds a
//! run but through a location, so one that no checkpoint names is a left-over.
//!
//! Whoever opens the store makes the directory [`FILES`]`.dir`, durably, before the first writer.

use crate::{
    disk::{self, Disk, fresh},
    numbered::Numbered,
};

mod read;
mod walk;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use read::{Run, open};
pub(crate) use walk::{Wrong, walk};
#[cfg(test)]
pub(crate) use write::Finished;
pub(crate) use write::{Pushed, Writer};

/// Where runs are.
pub(crate) const FILES: Numbered = Numbered { dir: "runs", suffix: ".run" };

/// Gives a finished run its name, durably.
pub(crate) fn publish(disk: &dyn Disk, id: u64) -> disk::Result<()> {
    fresh::publish(disk, &FILES.temporary_name(id), &FILES.name(id))
}
