//! Backups at an interval (`store.backup_every`), of which the newest are kept (`store.backup_keep`).
//!
//! 1. The name of a backup has its time: `scheduled-2026-11-26T03-00-00Z`. So the next one is due an interval after
//!    the newest, also after a restart.
//! 2. After a backup was made, the oldest scheduled ones above the number to keep are removed. A backup that an
//!    operator made, under any other name, is never removed.
//! 3. A backup that fails is tried again after [`RETRY_AFTER`]; the older ones stay.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use duly_core::{Millis, Timestamp, env::Clock, metric_names as names};
use metrics::{counter, gauge};
use tokio::{task::spawn_blocking, time::sleep};

use crate::http::Backups;

/// Beginning of the name of a scheduled backup; its time follows.
const PREFIX: &str = "scheduled-";
/// Time between two looks at the clock. A machine that slept makes the backup soon afterwards.
const POLL: Duration = Duration::from_secs(30);
/// Time after which a failed backup is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10 * 60);
/// The file that a whole backup has.
const MANIFEST: &str = "MANIFEST";

/// When backups are made, and how many are kept.
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
    loop {
        let now = clock.now();
        let (own, dir) = (schedule.clone(), schedule.dir.clone());
        let newest = spawn_blocking(move || list(&dir).map(|made| made.last().map(|it| it.0)));
        let due = match newest.await {
            Ok(Ok(newest)) => newest.map_or(now, |newest| newest.saturating_add(own.every)),
            Ok(Err(_)) | Err(_) => now,
        };
        let overdue = Duration::from_millis(now.saturating_since(due).ms());
        gauge!(names::BACKUP_OVERDUE_SECONDS).set(overdue.as_secs_f64());
        if now < due {
            sleep(POLL).await;
            continue;
        }
        let backups = backups.clone();
        let made = spawn_blocking(move || make(&own, &backups, now));
        match made.await {
            Ok(Ok(removed)) => {
                counter!(names::BACKUPS_TOTAL, "outcome" => "made").increment(1);
                gauge!(names::BACKUP_OVERDUE_SECONDS).set(0.0);
                tracing::info!(name = name_of(now), removed, "scheduled backup made");
            }
            Ok(Err(reason)) => failed(&reason).await,
            Err(_) => failed("the task that makes it panicked").await,
        }
    }
}

async fn failed(reason: &str) {
    counter!(names::BACKUPS_TOTAL, "outcome" => "failed").increment(1);
    tracing::error!(reason, "scheduled backup failed, will retry; older backups are kept");
    sleep(RETRY_AFTER).await;
}

/// Makes the backup of this time, and removes those that are not kept. Returns the number of removed ones.
fn make(schedule: &Schedule, backups: &Backups, now: Timestamp) -> Result<usize, String> {
    let Schedule { dir, keep, .. } = schedule;
    backups.make_scheduled(&dir.join(name_of(now)))?;
    remove_old(dir, *keep).map_err(|error| {
        format!("it was made, but older ones could not be removed from {}: {error}", dir.display())
    })
}

/// Removes the oldest scheduled backups, and incomplete ones of a process that was killed.
fn remove_old(dir: &Path, keep: usize) -> io::Result<usize> {
    let (whole, broken): (Vec<_>, Vec<_>) =
        list(dir)?.into_iter().map(|(_, path)| path).partition(|path| path.join(MANIFEST).exists());
    let old = &whole[..whole.len().saturating_sub(keep)];
    for backup in broken.iter().chain(old) {
        // Without its manifest it is no backup, so a removal that is interrupted leaves none that is cut.
        match fs::remove_file(backup.join(MANIFEST)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => fs::remove_dir_all(backup)?,
        }
    }
    Ok(old.len())
}

/// Returns the scheduled backups and their times, oldest first. A missing directory has none.
fn list(dir: &Path) -> io::Result<Vec<(Timestamp, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut backups = Vec::new();
    for entry in entries {
        let entry = entry?;
        let time = entry.file_name().to_str().and_then(time_of);
        if let Some(time) = time.filter(|_| entry.file_type().is_ok_and(|it| it.is_dir())) {
            backups.push((time, entry.path()));
        }
    }
    backups.sort();
    Ok(backups)
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
