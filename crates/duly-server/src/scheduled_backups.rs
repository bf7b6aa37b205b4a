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
use duly_store_embedded::backup::MANIFEST;
use metrics::{counter, gauge};
use tokio::{task::spawn_blocking, time::sleep};

use crate::http::Backups;

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
    loop {
        let now = clock.now();
        let (own, backups) = (schedule.clone(), backups.clone());
        let step = spawn_blocking(move || step(&own, &backups, started, now));
        let failure = match step.await {
            Ok(Ok(Step::NotDue)) => None,
            Ok(Ok(Step::Made { removed })) => {
                counter!(names::BACKUPS_TOTAL, "outcome" => "made").increment(1);
                tracing::info!(name = name_of(now), removed, "scheduled backup made");
                None
            }
            Ok(Err(Failure { due, reason })) => Some((due, reason)),
            Err(_) => Some((now, "the task that makes it panicked".to_owned())),
        };
        let Some((due, reason)) = failure else {
            gauge!(names::BACKUP_OVERDUE_SECONDS).set(0.0);
            sleep(POLL).await;
            continue;
        };
        counter!(names::BACKUPS_TOTAL, "outcome" => "failed").increment(1);
        let overdue = Duration::from_millis(clock.now().saturating_since(due).ms());
        gauge!(names::BACKUP_OVERDUE_SECONDS).set(overdue.as_secs_f64());
        tracing::error!(reason, "scheduled backup failed, will retry; older backups are kept");
        sleep(RETRY_AFTER).await;
    }
}

/// The result of one look at the clock.
#[derive(Debug)]
enum Step {
    /// No backup is due.
    NotDue,
    /// The backup was made.
    Made {
        /// Older ones that were removed before.
        removed: usize,
    },
}

/// The reason for which a backup was not made, and the time since which it is due.
#[derive(Debug)]
struct Failure {
    due: Timestamp,
    reason: String,
}

/// Makes the backup that is due at `now`, if one is. Without any, the first is due at the start.
fn step(
    schedule: &Schedule,
    backups: &Backups,
    started: Timestamp,
    now: Timestamp,
) -> Result<Step, Failure> {
    let Schedule { dir, every, keep } = schedule;
    let unreadable = |error: io::Error| Failure {
        due: started,
        reason: format!("{} cannot be read: {error}", dir.display()),
    };
    let Scheduled { whole, .. } = Scheduled::list(dir).map_err(unreadable)?;
    let newest = whole.iter().map(|(time, _)| *time).filter(|time| *time <= now).max();
    let due = newest.map_or(started, |newest| newest.saturating_add(*every));
    if now < due {
        return Ok(Step::NotDue);
    }
    let failed = |reason: String| Failure { due, reason };
    let removed = prune(dir, *keep, now);
    removed
        .and_then(|removed| {
            backups.make_scheduled(&dir.join(name_of(now)))?;
            Ok(Step::Made { removed: removed + prune(dir, *keep, now)? })
        })
        .map_err(failed)
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

/// Removes a backup. Without its manifest it is none, so a removal that is interrupted leaves none that is cut.
fn remove(backup: &Path) -> io::Result<()> {
    match fs::remove_file(backup.join(MANIFEST)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::remove_dir_all(backup),
    }
}

/// The scheduled backups of a directory.
#[derive(Debug, Default)]
struct Scheduled {
    /// Whole ones, with their times.
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
            if entry.path().join(MANIFEST).try_exists()? {
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
