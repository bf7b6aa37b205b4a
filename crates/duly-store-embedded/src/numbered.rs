//! Numbered files, the common base of sorted runs and checkpoints: names with numbers, and the check of
//! their store.
//!
//! A numbered file is `<dir>/<16 decimal digits>.<suffix>`, from 1. It is written under the same name
//! with the suffix `tmp`. A start removes such files that a crash left behind.

use crate::{
    disk::{self, Disk},
    format,
    manifest::Manifest,
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

/// Refuses a file of another store, or of a format that this build does not read. `what` is the kind of
/// file, for the message.
pub(crate) fn check_origin(
    name: &str,
    what: &str,
    version: u32,
    store: u128,
    manifest: &Manifest,
) -> Result<()> {
    if store != manifest.store {
        return Err(damaged(name, 16, &format!("the {what} belongs to another store")));
    }
    // A newer build may have written it in a format that its manifest declares readable by this one.
    if version > format::VERSION.max(manifest.version) {
        return Err(OpenError::Newer { found: version, known: format::VERSION, features: 0 });
    }
    if version < format::VERSION_READ_MIN {
        return Err(OpenError::Older { found: version, oldest: format::VERSION_READ_MIN });
    }
    Ok(())
}

pub(crate) fn damaged(file: &str, offset: u64, what: &str) -> OpenError {
    OpenError::Damaged { file: file.into(), offset, what: what.into() }
}

#[cfg(test)]
mod tests;
