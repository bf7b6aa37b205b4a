//! Opens the store of a configuration, embedded or shared, and offers what only one kind of store can
//! do.
//!
//! 1. The embedded store reads a checkpoint and the journal behind it when it opens, and blocks. So it opens
//!    outside of the runtime. The progress goes to `/readyz` every few MiB, and to the log when opening takes
//!    longer than a second.
//! 2. That store creates its files in any directory without a manifest. A mistyped `--data` must not scatter
//!    them among the files of another program. So a directory that holds anything but a store is refused
//!    before it is touched.
//! 3. Some errors of the shared store can end without an operator: unreachable servers, servers that load
//!    their data, too few replicas. The node then retries with back-off. It logs the reason of each attempt
//!    and returns it from `/readyz`. Every other error ends the start with one message, because only an
//!    operator can correct it.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_api::cluster::Recovery;
use duly_core::{env::Clock, error_code::Retry};
use duly_store::{Backups as _, Store, Timers};
use duly_store_embedded::{
    EmbeddedStore, OpenError, OpenProgress, Options, Tail,
    disk::{self, LOCK_NAME, Operation, RealDisk},
};
use duly_store_redis::RedisStore;
use tokio::{sync::watch, task, time::sleep};

use super::{StartError, options};
use crate::{
    config::{Config, StoreUrl, key},
    service::{Backups, MakeBackup, StartupProgress},
};

/// Names that mark a directory as that of a store, whole or damaged. The store itself checks such a
/// directory.
const OF_A_STORE: [&str; 3] = ["MANIFEST", "MANIFEST.copy", "journal"];
/// Names that a directory without a store may hold: files of a first start that was cut off, and the
/// root of a new file system.
const HARMLESS: [&str; 3] = [LOCK_NAME, "MANIFEST.tmp", "lost+found"];

/// The interval of progress lines in the log; a shorter opening logs none.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The progress text before anything was read.
pub(super) const OPENING_TEXT: &str = "the data directory is being opened";

/// A function that opens a store at a path and reports how far reading is.
pub(super) type Opener = Box<
    dyn FnOnce(
            &Path,
            Options,
            Arc<dyn Clock>,
            &mut dyn FnMut(OpenProgress),
        ) -> Result<EmbeddedStore, OpenError>
        + Send,
>;

/// Longest pause between two attempts. The error sets the first pause; each attempt doubles it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// An open store.
#[derive(Debug)]
pub(super) struct OpenedStore {
    /// The store as every part except the start and the stop uses it.
    pub(super) store: Arc<dyn Store>,
    /// The location of the data.
    pub(super) location: String,
    /// The same store if it is embedded, in a directory of this machine that only this process uses; `None`: it is on
    /// servers that several nodes share.
    embedded: Option<Arc<EmbeddedStore>>,
}

/// Returns the progress text before anything was read.
pub(super) fn initial_progress(config: &Config) -> String {
    match &config.store.url {
        None => OPENING_TEXT.to_owned(),
        Some(url) => format!("the server connects to {url}"),
    }
}

/// Opens the store of this configuration, an embedded one with `opener`. Sends the progress to
/// `progress`.
pub(super) async fn open(
    config: &Config,
    clock: Arc<dyn Clock>,
    progress: &watch::Sender<StartupProgress>,
    opener: Opener,
) -> Result<OpenedStore, StartError> {
    let Some(url) = &config.store.url else {
        let store = open_embedded(config, clock, progress.clone(), opener).await?;
        let location = store.location();
        return Ok(OpenedStore { embedded: Some(Arc::clone(&store)), store, location });
    };
    for sentence in config.unused() {
        tracing::warn!("{sentence}");
    }
    let store = open_shared(config, url, progress).await?;
    let location = match store.shards() {
        1 => format!("{url} (1 shard)"),
        shards => format!("{url} ({shards} shards)"),
    };
    Ok(OpenedStore { store, location, embedded: None })
}

impl OpenedStore {
    /// Returns the state of the end of the journal.
    pub(super) fn tail(&self) -> Tail {
        self.embedded.as_ref().map_or(Tail::Closed, |store| store.report().tail)
    }

    /// Returns the part that makes backups.
    pub(super) fn backups(&self, config: &Config) -> Backups {
        let make = self
            .embedded
            .clone()
            .map(|store| Arc::new(move |path: &Path| store.back_up(path)) as Arc<MakeBackup>);
        let dir = config.store.backup_dir.as_deref().map(Path::to_owned);
        Backups::new(dir, options::backup_limits(config), make)
    }

    /// Waits until the store has ended for good. A shared store does not end.
    pub(super) async fn ended(&self) {
        match &self.embedded {
            Some(store) => drop(store.ended().await),
            None => std::future::pending().await,
        }
    }

    /// Closes the store. A shared store continues for other nodes; its connections end with the process.
    pub(super) async fn close(self) -> Result<(), StartError> {
        let Some(store) = self.embedded else { return Ok(()) };
        let closes = Arc::clone(&store);
        task::spawn_blocking(move || closes.close()).await?;
        store.terminal_error().map_or(Ok(()), |reason| Err(StartError::StoreEnded(reason)))
    }
}

/// Opens the directory on the real disk.
pub(super) fn open_directory(
    path: &Path,
    options: Options,
    clock: Arc<dyn Clock>,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<EmbeddedStore, OpenError> {
    let disk = Arc::new(RealDisk::open_or_create(path)?);
    EmbeddedStore::open(disk, options, clock, progress)
}

/// Opens the embedded store of this configuration. Sends the progress to `progress_sender`.
async fn open_embedded(
    config: &Config,
    clock: Arc<dyn Clock>,
    progress_sender: watch::Sender<StartupProgress>,
    opener: Opener,
) -> Result<Arc<EmbeddedStore>, StartError> {
    let path = config.store.data.to_path_buf();
    let origin = config.origin(key!(store.data));
    let options = options::store_options(config);
    let opened = task::spawn_blocking(move || {
        if let Some(found) = find_foreign_name(&path) {
            return Err(StartError::Foreign { path, origin, found });
        }
        let mut reporter = ProgressReporter { progress_sender, logged: Instant::now() };
        let opened = opener(&path, options, clock, &mut |progress| reporter.report(progress));
        opened.map_err(|source| match source {
            OpenError::Disk(error) if cannot_be_created(&error) => {
                let parent = nearest_existing(&path).to_owned();
                StartError::Make { path, origin, parent }
            }
            source => StartError::Open { path, origin, source: Box::new(source) },
        })
    });
    opened.await?.map(Arc::new)
}

/// Returns `true` if no directory can be created at the path.
fn cannot_be_created(error: &disk::Error) -> bool {
    match error {
        disk::Error::NotFound { operation: Operation::MakeDir, .. } => true,
        disk::Error::Io { source, .. } => source.kind() == io::ErrorKind::NotADirectory,
        _ => false,
    }
}

/// Reports the progress of reading.
struct ProgressReporter {
    progress_sender: watch::Sender<StartupProgress>,
    logged: Instant,
}

impl ProgressReporter {
    fn report(&mut self, open_progress: OpenProgress) {
        let sentence = sentence(open_progress);
        if self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            tracing::info!("{sentence}");
        }
        let OpenProgress { what, bytes_done, bytes_total } = open_progress;
        let progress = Some(Recovery { what: what.to_owned(), bytes_done, bytes_total });
        self.progress_sender.send_replace(StartupProgress { sentence, progress });
    }
}

fn sentence(open_progress: OpenProgress) -> String {
    let OpenProgress { what, bytes_done, bytes_total } = open_progress;
    format!("{OPENING_TEXT}: {} of {} MiB of the {what} read", bytes_done >> 20, bytes_total >> 20)
}

/// Returns the first name in `path` that belongs to another program.
///
/// An unreadable directory returns `None`: the store reports the error.
fn find_foreign_name(path: &Path) -> Option<String> {
    let names = fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| OF_A_STORE.contains(&name.as_str())) {
        return None;
    }
    names.retain(|name| !HARMLESS.contains(&name.as_str()));
    names.into_iter().min()
}

/// Returns the nearest existing directory above `path`.
fn nearest_existing(path: &Path) -> &Path {
    let above = path.ancestors().skip(1).find(|above| above.exists());
    above.unwrap_or_else(|| Path::new("."))
}

/// Opens the shared store. Sends the progress to `progress`.
///
/// Cancellation safe: a dropped call leaves nothing behind.
async fn open_shared(
    config: &Config,
    url: &StoreUrl,
    progress: &watch::Sender<StartupProgress>,
) -> Result<Arc<RedisStore>, StartError> {
    let options = options::shared_store_options(config, url)?;
    let (store, repeated_for) =
        until_available(progress, || open_once(config, url, &options)).await?;
    if let Some(after) = repeated_for {
        tracing::info!(store = %url, ?after, "store opened");
    }
    Ok(Arc::new(store))
}

/// Repeats a step of the start that needs the shared store while its error may pass by itself. Logs the reason of
/// each attempt, and sends the reason to `progress`. Returns the result, and the time of the attempts if there
/// were several.
pub(super) async fn until_available<T, F: Future<Output = Result<T, StartError>>>(
    progress: &watch::Sender<StartupProgress>,
    step: impl Fn() -> F,
) -> Result<(T, Option<Duration>), StartError> {
    let began = Instant::now();
    let mut pause = Duration::ZERO;
    loop {
        let error = match step().await {
            Ok(done) => return Ok((done, (!pause.is_zero()).then(|| began.elapsed()))),
            Err(error) => error,
        };
        let Retry::After(first) = error.retry() else {
            return Err(error);
        };
        pause = (pause * 2).clamp(first.to_std(), PAUSE_MAX);
        tracing::warn!(reason = %error, retry_in = ?pause, "store not opened, will retry");
        progress.send_replace(StartupProgress { sentence: error.to_string(), progress: None });
        sleep(pause).await;
    }
}

/// Opens the shared store, and returns the first error.
pub(super) async fn open_once(
    config: &Config,
    url: &StoreUrl,
    options: &duly_store_redis::Options,
) -> Result<RedisStore, StartError> {
    RedisStore::open(options).await.map_err(|source| {
        let (url, origin) = (url.clone(), config.origin(key!(store.url)));
        StartError::Shared { url, origin, source: Box::new(source) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_or_a_store_is_ours() {
        let check = |names: &[&str], expected: Option<&str>| {
            let directory = tempfile::tempdir().unwrap();
            for name in names {
                fs::write(directory.path().join(name), "").unwrap();
            }
            assert_eq!(find_foreign_name(directory.path()).as_deref(), expected, "{names:?}");
        };
        check(&[], None);
        check(&["LOCK", "MANIFEST.tmp", "lost+found"], None);
        check(&["MANIFEST", "notes.txt"], None);
        check(&["MANIFEST.copy", "notes.txt"], None);
        check(&["journal", "notes.txt"], None);
        check(&["LOCK", "b.txt", "a.txt"], Some("a.txt"));
        check(&[".bashrc"], Some(".bashrc"));
        assert_eq!(find_foreign_name(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn the_nearest_is_one_that_is_there() {
        assert_eq!(nearest_existing(Path::new("/nowhere/at/all")), Path::new("/"));
        assert_eq!(nearest_existing(Path::new("nowhere/at/all")), Path::new("."));
    }
}
