//! Bounds of backups: their number below `store.backup_dir`, and the time between two.
//!
//! A backup keeps the disk space of files that the store has released. A copy takes disk bandwidth from
//! commits. So callers must not start backups without a bound.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use duly_core::{Code, Millis, error_code::Retry};
use parking_lot::Mutex;

use super::{NO_ROOM_WAIT, Problem};

/// The file that each backup has.
const MANIFEST: &str = "MANIFEST";
/// Names that are read to count backups. A directory with more holds other files.
const NAMES_MAX: usize = 100_000;

/// Bounds of backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupLimits {
    /// Backups below `store.backup_dir`.
    pub count_max: usize,
    /// Time from the beginning of a backup to that of the next.
    pub interval: Duration,
}

impl Default for BackupLimits {
    fn default() -> Self {
        Self { count_max: 30, interval: Duration::ZERO }
    }
}

/// Admits backups within their bounds.
#[derive(Debug, Default)]
pub(super) struct BackupAdmission {
    limits: BackupLimits,
    /// The beginning of the latest backup.
    began: Mutex<Option<Instant>>,
}

impl BackupAdmission {
    pub(super) fn new(limits: BackupLimits) -> Self {
        Self { limits, began: Mutex::new(None) }
    }

    /// Admits a backup below `dir` that would begin now. Blocks its thread for the directory.
    pub(super) fn admit(&self, dir: &Path, now: Instant) -> Result<(), Problem> {
        let BackupLimits { count_max, interval } = self.limits;
        let mut began = self.began.lock();
        let next = began.map_or(now, |began| began + interval);
        if now < next {
            let (wait, every) = (millis(next - now), millis(interval));
            let detail = format!(
                "a backup may begin every {every} (store.backup_interval), and the latest began less \
                 than that ago: try again in {wait}"
            );
            return Err(exhausted(detail, wait));
        }
        let count = count(dir);
        let dir = dir.display();
        let count = count.map_err(|error| {
            let detail = format!("the backups below {dir} cannot be counted: {error}");
            Problem::new(Code::Internal, detail)
        })?;
        if count >= count_max {
            let detail = format!(
                "{count} backups are below {dir} and store.backups_max allows {count_max}: move \
                 one to another machine, or raise store.backups_max"
            );
            return Err(exhausted(detail, NO_ROOM_WAIT));
        }
        *began = Some(now);
        Ok(())
    }
}

/// Rounds up: a call after this time is admitted.
fn millis(time: Duration) -> Millis {
    Millis::from_ms(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

pub(super) fn exhausted(detail: String, wait: Millis) -> Problem {
    Problem::new(Code::ResourceExhausted, detail).with_retry(Retry::After(wait))
}

/// Counts the backups below a directory. Links are not followed; a missing directory has none.
fn count(dir: &Path) -> io::Result<usize> {
    let (mut backups, mut names, mut dirs) = (0, 0, vec![dir.to_owned()]);
    while let Some(dir) = dirs.pop() {
        let entries = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        let before = dirs.len();
        for entry in entries {
            let entry = entry?;
            names += 1;
            if names > NAMES_MAX {
                let what = format!(
                    "there are more than {NAMES_MAX} names; move files that are not backups"
                );
                return Err(io::Error::other(what));
            }
            if entry.file_name() == MANIFEST {
                // A directory below a backup holds no other backup.
                backups += 1;
                dirs.truncate(before);
                break;
            }
            if entry.file_type()?.is_dir() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(backups)
}

#[cfg(test)]
mod tests;
