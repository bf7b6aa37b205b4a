//! Numbered files, the common base of segments, sorted runs and checkpoints: their directories, and their names
//! with numbers.
//!
//! A numbered file is `<dir>/<16 decimal digits>.<suffix>`, from 1. Sorted runs and checkpoints are written
//! under the same name with the suffix `tmp`. A start removes such files that a crash left behind.

use crate::{
    disk::{self, Disk},
    open::{OpenError, Result},
};

/// Suffix of files that are not complete yet.
const TEMPORARY: &str = ".tmp";

/// A directory of numbered files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbered {
    pub(crate) dir: &'static str,
    /// Suffix with its dot.
    pub(crate) suffix: &'static str,
}

/// Segments of the journal.
pub(crate) const SEGMENTS: Numbered = Numbered { dir: "journal", suffix: ".log" };
/// Sorted runs.
pub(crate) const SORTED_RUNS: Numbered = Numbered { dir: "runs", suffix: ".run" };
/// Checkpoints.
pub(crate) const CHECKPOINTS: Numbered = Numbered { dir: "checkpoints", suffix: ".ckp" };
/// Directories of a store.
pub(crate) const DIRS: [&str; 3] = [SEGMENTS.dir, SORTED_RUNS.dir, CHECKPOINTS.dir];

impl Numbered {
    pub(crate) fn name(&self, number: u64) -> String {
        format!("{}/{number:016}{}", self.dir, self.suffix)
    }

    pub(crate) fn temporary_name(&self, number: u64) -> String {
        format!("{}/{number:016}{TEMPORARY}", self.dir)
    }

    /// Returns the existing numbers, ascending. Ignores other names, but refuses a name that has the
    /// suffix and no number that Duly gives.
    pub(crate) fn list(&self, disk: &dyn Disk) -> Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for name in disk.list(self.dir)? {
            if let Some(digits) = name.strip_suffix(self.suffix) {
                let number = digits.parse().unwrap_or(0);
                let full_name = format!("{}/{name}", self.dir);
                if number == 0 || self.name(number) != full_name {
                    return Err(damaged(&full_name, 0, "not a name that Duly gives"));
                }
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Removes the files of interrupted writers.
    pub(crate) fn remove_temporaries(&self, disk: &dyn Disk) -> disk::Result<()> {
        for name in disk.list(self.dir)? {
            if name.ends_with(TEMPORARY) {
                disk.remove(&format!("{}/{name}", self.dir))?;
            }
        }
        Ok(())
    }
}

pub(crate) fn damaged(file: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { file: file.into(), offset, what: what.into() }
}

#[cfg(test)]
mod tests;
