//! Backups at an interval (`store.backup_every`), of which the newest are kept (`store.backup_keep`).
//!
//! 1. The name of a backup has its time: `scheduled-2026-11-26T03-00-00Z`. So the next one is due an interval after
//!    the newest whole one, also after a restart. A name in the future, of a clock that was wrong, does not count.
//! 2. Before each backup and after it, the oldest scheduled ones above the number to keep are removed, and those that
//!    a killed process has left incomplete. A backup that an operator made, under any other name, is never removed.
//! 3. A backup that fails is tried again after [`RETRY_AFTER`]; the newest ones stay.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use duly_core::{Millis, Timestamp, env::Clock, metric_names as names};
use duly_store_embedded::backup::{MANIFEST, MANIFEST_COPY};
use metrics::{counter, gauge};
use tokio::{task::spawn_blocking, time::sleep};

use crate::service::Backups;

/// Beginning of the name of a scheduled backup; its time follows.
const PREFIX: &str = "scheduled-";
/// Time between two looks at the clock. A machine that slept makes the backup soon afterwards.
const POLL: Duration = Duration::from_secs(30);
/// Time after which a failed backup is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10 * 60);

/// When backups are made, and how many are kept. No other server uses the directory.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// Directory of the backups.
    pub(crate) dir: PathBuf,
    /// Time from one backup to the next.
    pub(crate) every: Millis,
    /// Scheduled backups that are kept.
    pub(crate) keep: usize,
}

/// Makes and removes backups until it is aborted.
pub(crate) async fn run(schedule: Schedule, backups: Backups, clock: Arc<dyn Clock>) {
    let started = clock.now();
    announce(started);
    loop {
        let now = clock.now();
        let (own, backups) = (schedule.clone(), backups.clone());
        let step = spawn_blocking(move || step(&own, &backups, started, now)).await;
        match step.unwrap_or_else(|_| Err("the task that makes it panicked".to_owned())) {
            Ok(None) => sleep(POLL).await,
            Ok(Some(removed)) => {
                counter!(names::BACKUPS_TOTAL, "outcome" => "made").increment(1);
                tracing::info!(name = name_of(now), removed, "scheduled backup made");
            }
            Err(reason) => {
                counter!(names::BACKUPS_TOTAL, "outcome" => "failed").increment(1);
                tracing::error!(
                    reason,
                    "scheduled backup failed, will retry; older backups are kept"
                );
                sleep(RETRY_AFTER).await;
            }
        }
    }
}

/// Publishes the time at which the next backup is due. While a backup does not end, this time stays.
fn announce(due: Timestamp) {
    let seconds = Duration::from_millis(due.unix_ms()).as_secs_f64();
    gauge!(names::BACKUP_DUE_TIMESTAMP_SECONDS).set(seconds);
}

/// Makes the backup that is due at `now`, and returns the number of older ones that it removed. Returns `None` if
/// none is due.
fn step(
    schedule: &Schedule,
    backups: &Backups,
    started: Timestamp,
    now: Timestamp,
) -> Result<Option<usize>, String> {
    let Schedule { dir, every, keep } = schedule;
    let due = due(schedule, started, now)
        .map_err(|error| format!("{} cannot be read: {error}", dir.display()))?;
    announce(due);
    if now < due {
        return Ok(None);
    }
    let removed = prune(dir, *keep, now)?;
    backups.make_scheduled(&dir.join(name_of(now)))?;
    announce(now.saturating_add(*every));
    Ok(Some(removed + prune(dir, *keep, now)?))
}

/// Returns the time at which the next backup is due. Without any, the first is due at the start.
fn due(schedule: &Schedule, started: Timestamp, now: Timestamp) -> io::Result<Timestamp> {
    let Scheduled { whole, .. } = Scheduled::list(&schedule.dir)?;
    let newest = whole.iter().map(|(time, _)| *time).filter(|time| *time <= now).max();
    Ok(newest.map_or(started, |newest| newest.saturating_add(schedule.every)))
}

/// Removes the oldest backups above the number to keep, and the incomplete ones. Returns the number of the first.
/// A backup of the future, by a clock that was wrong, is the oldest.
fn prune(dir: &Path, keep: usize, now: Timestamp) -> Result<usize, String> {
    let unusable = |path: &Path, error| format!("{} cannot be cleared: {error}", path.display());
    let Scheduled { mut whole, incomplete } =
        Scheduled::list(dir).map_err(|error| unusable(dir, error))?;
    whole.sort_by_key(|(time, _)| (*time <= now, *time));
    whole.truncate(whole.len().saturating_sub(keep));
    for backup in incomplete.iter().chain(whole.iter().map(|(_, path)| path)) {
        remove(backup).map_err(|error| unusable(backup, error))?;
    }
    Ok(whole.len())
}

/// Removes a backup. Without both files of its manifest it is none, so a removal that is interrupted leaves none that
/// is cut.
fn remove(backup: &Path) -> io::Result<()> {
    for name in [MANIFEST_COPY, MANIFEST] {
        match fs::remove_file(backup.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    // After a power cut the manifest may be there and the files not.
    fs::File::open(backup)?.sync_all()?;
    fs::remove_dir_all(backup)
}

/// The scheduled backups of a directory.
#[derive(Debug, Default)]
struct Scheduled {
    /// Whole ones, with their times: one of the two files of the manifest is there.
    whole: Vec<(Timestamp, PathBuf)>,
    /// Those without a manifest.
    incomplete: Vec<PathBuf>,
}

impl Scheduled {
    /// Lists a directory. A missing one has no backups.
    fn list(dir: &Path) -> io::Result<Self> {
        let mut scheduled = Self::default();
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(scheduled),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Some(time) = entry.file_name().to_str().and_then(time_of) else { continue };
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let has = |name| entry.path().join(name).try_exists();
            if has(MANIFEST)? || has(MANIFEST_COPY)? {
                scheduled.whole.push((time, entry.path()));
            } else {
                scheduled.incomplete.push(entry.path());
            }
        }
        Ok(scheduled)
    }
}

/// Returns the name of the backup of this time. It has no colon, which `rsync` takes for the end of a host.
fn name_of(time: Timestamp) -> String {
    let text = time.to_string();
    let seconds = text.split('.').next().unwrap_or(&text).trim_end_matches('Z');
    format!("{PREFIX}{}Z", seconds.replace(':', "-"))
}

/// Returns the time of a scheduled backup by its name.
fn time_of(name: &str) -> Option<Timestamp> {
    let (date, time) = name.strip_prefix(PREFIX)?.split_once('T')?;
    Timestamp::parse(&format!("{date}T{}", time.replace('-', ":"))).ok()
}

#[cfg(test)]
mod tests;
