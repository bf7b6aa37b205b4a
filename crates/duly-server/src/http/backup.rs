//! `POST /v1/store/backup`: a copy of the running store in another directory.
//!
//! Every caller may start a backup, and so have files written. Three rules bound this:
//!
//! 1. A backup goes only below the one directory that the operator names (`store.backup_dir`).
//! 2. Its directory is empty or new.
//! 3. The operator limits the number of backups and the time between them.

use std::{
    fmt, fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use axum::{extract::State, response::Response};
use duly_core::{Code, Invalid, Millis, error_code::Retry};
use duly_store_embedded::{
    EmbeddedStore,
    backup::{BackupError, BackupReport},
    disk,
};
use tokio::task;

use super::{App, Problem, body::JsonBody, response};
use crate::messages;
use duly_api::cluster::{Backup, BackupMade};

mod limits;

pub use limits::BackupLimits;

/// Path of the route. The copy may take longer than other requests.
pub(super) const PATH: &str = "/v1/store/backup";

/// Wait for free space: an operator makes it, or files that are deleted in the background.
const NO_ROOM_WAIT: Millis = Millis::from_secs(60);

/// Description of a path that the file system accepts.
const NAMEABLE: &str =
    "a path that the file system accepts: every parent is a directory, and no name is too long";

/// A function that makes a backup.
type MakeBackup = dyn Fn(&Path) -> Result<BackupReport, BackupError> + Send + Sync;

/// Backups of a server's store.
#[derive(Clone)]
pub struct Backups {
    dir: Option<PathBuf>,
    /// `None`: a shared store, which other servers keep.
    make: Option<Arc<MakeBackup>>,
    admission: Arc<limits::BackupAdmission>,
}

impl fmt::Debug for Backups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backups").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl Backups {
    /// Creates backups by `make`, below this directory. Without a directory, every backup is refused.
    pub fn new(
        dir: Option<PathBuf>,
        make: impl Fn(&Path) -> Result<BackupReport, BackupError> + Send + Sync + 'static,
    ) -> Self {
        Self { dir, make: Some(Arc::new(make)), admission: Arc::default() }
    }

    /// Refuses every backup: the timers are on other servers, which have their own means.
    pub fn elsewhere() -> Self {
        Self { dir: None, make: None, admission: Arc::default() }
    }

    /// Sets the bounds.
    #[must_use]
    pub fn limited(self, limits: BackupLimits) -> Self {
        Self { admission: Arc::new(limits::BackupAdmission::new(limits)), ..self }
    }

    /// Creates the backups of an embedded store.
    pub fn of(dir: Option<PathBuf>, store: Arc<EmbeddedStore>) -> Self {
        Self::new(dir, move |path| store.backup(path, &mut |_| {}))
    }

    /// Makes a backup at a checked path. A backup that is refused because its directory is not empty
    /// does not count. Blocks its thread.
    fn make(&self, make: &MakeBackup, path: &Path) -> Result<BackupReport, Problem> {
        let is_used = fs::read_dir(path).is_ok_and(|mut names| names.next().is_some());
        if let Some(dir) = self.dir.as_deref().filter(|_| !is_used) {
            self.admission.admit(dir, Instant::now())?;
        }
        make(path).map_err(refusal)
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

/// Copy the running store into an empty or new directory.
///
/// Calls continue meanwhile. The response comes when the copy is durable; a copy that fails leaves
/// nothing. A store that is restored from it has every namespace paused.
#[utoipa::path(
    post,
    path = "/v1/store/backup",
    tag = "service",
    request_body(content = Backup, content_type = "application/json"),
    responses((status = 200, description = "The copy is there.", body = BackupMade))
)]
pub(crate) async fn backup(State(app): State<App>, body: JsonBody) -> Result<Response, Problem> {
    let path = PathBuf::from(body.parse::<Backup>().await?.path);
    let make = app.backups.check(&path)?;
    let backups = app.backups.clone();
    let made = task::spawn_blocking(move || backups.make(&*make, &path));
    match made.await {
        Ok(made) => response::ok(&messages::backup(made?)),
        Err(_) => Err(Problem::fault("a backup panicked")),
    }
}

/// Returns `true` if no directory can have this path.
fn names_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory};
    matches!(error.kind(), InvalidFilename | InvalidInput | NotADirectory)
}

fn refusal(error: BackupError) -> Problem {
    let detail = error.to_string();
    match error {
        BackupError::Store(error) => error.into(),
        BackupError::NotEmpty(path) | BackupError::Inside(path) => {
            let allowed = "a directory that is empty or new, outside of the data directory";
            let seen = Some(path.display().to_string());
            Problem::new(Code::InvalidArgument, detail).at("path", seen, allowed)
        }
        BackupError::Target { path, source } if names_nothing(&source) => {
            let seen = Some(path.display().to_string());
            Problem::new(Code::InvalidArgument, detail).at("path", seen, NAMEABLE)
        }
        BackupError::Disk(disk::Error::Io { source, .. }) if names_nothing(&source) => {
            Problem::new(Code::InvalidArgument, detail).at("path", None, NAMEABLE)
        }
        BackupError::Busy | BackupError::Closed => {
            Problem::new(Code::Unavailable, detail).with_retry(Retry::After(Millis::from_secs(10)))
        }
        BackupError::NoSpace { .. } => limits::exhausted(detail, NO_ROOM_WAIT),
        BackupError::Disk(error) if error.is_no_space() => limits::exhausted(detail, NO_ROOM_WAIT),
        _ => {
            tracing::error!(%detail, "backup failed; no backup was made");
            Problem::new(Code::Internal, format!("the backup failed and left nothing: {detail}"))
        }
    }
}
