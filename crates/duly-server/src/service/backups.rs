//! Backups and repairs of the store.

use std::{
    fmt, fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use duly_api::cluster::{Repair, Repaired};
use duly_core::{Code, Invalid, Millis, error_code::Retry};
use duly_store::{AccessRemedy, BackupError, BackupReport};
use duly_store_embedded::backup::MANIFEST;
use parking_lot::Mutex;
use tokio::task;

use super::Admitted;
use crate::{
    problem::Problem,
    repair::{repair_keys, repair_shards},
};

/// Names that are read to count backups. A directory with more holds other files.
const NAMES_MAX: usize = 100_000;

/// Wait for free space: an operator makes it, or files that are deleted in the background.
const NO_ROOM_WAIT: Millis = Millis::from_secs(60);

/// Description of a path that the file system accepts.
const NAMEABLE: &str =
    "a path that the file system accepts: every parent is a directory, and no name is too long";

/// A function that makes a backup.
pub type MakeBackup = dyn Fn(&Path) -> Result<BackupReport, BackupError> + Send + Sync;

/// Bounds of backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupLimits {
    /// Backups below `store.backup_dir`.
    pub count_max: usize,
    /// Time from the beginning of a backup to that of the next.
    pub interval: Duration,
}

/// Backups of a server's store.
#[derive(Clone)]
pub struct Backups {
    dir: Option<PathBuf>,
    limits: BackupLimits,
    /// `None`: a shared store, which other servers keep.
    make: Option<Arc<MakeBackup>>,
    /// The beginning of the latest backup.
    began: Arc<Mutex<Option<Instant>>>,
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Backups {
    /// Creates backups by `make`, below this directory and within these bounds. Without a directory, every
    /// backup is refused; without `make` as well: the timers are on other servers, which have their own
    /// means.
    pub fn new(dir: Option<PathBuf>, limits: BackupLimits, make: Option<Arc<MakeBackup>>) -> Self {
        Self { dir, limits, make, began: Arc::default() }
    }

    /// Makes a backup at a checked path, `interval` after the latest at the earliest. A backup that is refused
    /// because its directory is not empty does not count. Blocks its thread.
    fn make(
        &self,
        make: &MakeBackup,
        path: &Path,
        interval: Duration,
    ) -> Result<BackupReport, Problem> {
        let is_used = fs::read_dir(path).is_ok_and(|mut names| names.next().is_some());
        if let Some(dir) = self.dir.as_deref().filter(|_| !is_used) {
            self.admit(dir, Instant::now(), interval)?;
        }
        make(path).map_err(refusal)
    }

    /// Makes a backup of the server's own, at any time.
    ///
    /// # Errors
    /// A sentence, for the log.
    pub(crate) fn make_scheduled(&self, path: &Path) -> Result<(), String> {
        let made = self.check(path).and_then(|make| self.make(&*make, path, Duration::ZERO));
        made.map(drop).map_err(|problem| problem.into_body().detail)
    }

    /// Admits a backup below `dir` that would begin now. Blocks its thread for the directory.
    fn admit(&self, dir: &Path, now: Instant, interval: Duration) -> Result<(), Problem> {
        let count_max = self.limits.count_max;
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

    /// Checks that a backup may go to this path.
    fn check(&self, path: &Path) -> Result<Arc<MakeBackup>, Problem> {
        let Some(make) = &self.make else {
            let detail = "this server makes no backups: its timers are in Redis (store.url), which \
                          is backed up by its own means, a copy of its append-only file or a \
                          snapshot; `duly export` writes namespaces into a file";
            return Err(Problem::new(Code::PermissionDenied, detail));
        };
        let Some(dir) = &self.dir else {
            let detail = "this server makes no backups: set store.backup_dir \
                          (DULY_STORE__BACKUP_DIR) to the directory that they may go below, and \
                          restart it";
            return Err(Problem::new(Code::PermissionDenied, detail));
        };
        let allowed = format!("an absolute path below {} (store.backup_dir)", dir.display());
        let refused = || Invalid::new("path", path.display(), allowed.clone());
        let is_plain = path.components().all(|part| {
            matches!(part, Component::RootDir | Component::Normal(_) | Component::Prefix(_))
        });
        if !path.is_absolute() || !is_plain {
            return Err(refused().into());
        }
        // Links are followed: the existing part of the path must be below the existing part of the
        // directory.
        let below = path.strip_prefix(dir).is_ok_and(|rest| !rest.as_os_str().is_empty());
        let there = path.ancestors().find_map(|above| above.canonicalize().ok());
        let leads_out =
            there.zip(dir.canonicalize().ok()).is_some_and(|(there, dir)| !there.starts_with(&dir));
        if below && !leads_out { Ok(Arc::clone(make)) } else { Err(refused().into()) }
    }
}

impl Admitted {
    /// Copies the running store into an empty or new directory.
    pub(crate) async fn make_backup(&self, path: PathBuf) -> Result<BackupReport, Problem> {
        if let Some(tenant) = self.caller().tenant() {
            let detail = format!(
                "a backup contains the timers of all tenants, so a key of tenant {} cannot make one: ask an \
                 administrator, or export the namespaces",
                tenant.tenant().name
            );
            return Err(Problem::new(Code::PermissionDenied, detail));
        }
        let make = self.backups.check(&path)?;
        let backups = self.backups.clone();
        let made =
            task::spawn_blocking(move || backups.make(&*make, &path, backups.limits.interval));
        made.await.map_err(|_| Problem::fault("a backup panicked"))?
    }

    /// Accepts that shards have lost data, or decides which keys and tenants count after a rollback.
    pub(crate) async fn repair_store(
        &self,
        Repair { shards, keys }: Repair,
    ) -> Result<Repaired, Problem> {
        if shards.is_empty() && keys.is_none() {
            return Err(Invalid::new("body", "{}", "an object with shards or keys").into());
        }
        let remedy = keys.as_deref().map(|name| remedy(self, name)).transpose()?;
        let Some(deployment) = self.store.deployment() else {
            let detail = "there is nothing to repair here: this server keeps its timers in a directory \
                          of its own, which `duly store check` verifies";
            return Err(Problem::new(Code::PermissionDenied, detail));
        };
        let mut repaired = repair_shards(deployment, shards).await?;
        if let Some(remedy) = remedy {
            repaired.keys = Some(repair_keys(deployment, remedy).await?.to_owned());
            self.reread_keys().await;
        }
        Ok(repaired)
    }
}

fn refusal(error: BackupError) -> Problem {
    let detail = error.to_string();
    match error {
        BackupError::Store(error) => error.into(),
        BackupError::Target { path, .. } => {
            let allowed = "a directory that is empty or new, outside of the data directory";
            let seen = Some(path.display().to_string());
            Problem::new(Code::InvalidArgument, detail).at("path", seen, allowed)
        }
        BackupError::Unnameable { path, .. } => {
            let seen = path.map(|path| path.display().to_string());
            Problem::new(Code::InvalidArgument, detail).at("path", seen, NAMEABLE)
        }
        BackupError::Busy(_) => {
            Problem::new(Code::Unavailable, detail).with_retry(Retry::After(Millis::from_secs(10)))
        }
        BackupError::NoSpace(_) => exhausted(detail, NO_ROOM_WAIT),
        _ => {
            tracing::error!(%detail, "backup failed; no backup was made");
            Problem::new(Code::Internal, format!("the backup failed and left nothing: {detail}"))
        }
    }
}

/// Rounds up: a call after this time is admitted.
fn millis(time: Duration) -> Millis {
    Millis::from_ms(u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

fn exhausted(detail: String, wait: Millis) -> Problem {
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

/// Reads the remedy for keys, which may give back rights that were revoked.
fn remedy(admitted: &Admitted, name: &str) -> Result<AccessRemedy, Problem> {
    if admitted.caller().key().is_some_and(|key| !key.is_admin()) {
        let detail = "only a key with the role admin in all namespaces (*) can repair keys: revoked keys may \
                      work again";
        return Err(Problem::new(Code::PermissionDenied, detail));
    }
    let remedy = AccessRemedy::ALL.into_iter().find(|remedy| remedy.as_str() == name);
    remedy.ok_or_else(|| Invalid::new("keys", name, AccessRemedy::NAMES.join(" or ")).into())
}

#[cfg(test)]
mod tests;
