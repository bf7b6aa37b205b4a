//! Opens the embedded store outside of the runtime and reports its progress.
//!
//! Opening reads a checkpoint and the journal behind it, and blocks. The progress goes to `/readyz`
//! every few MiB, and to the log when opening takes longer than a second.

use std::{
    io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::env::Clock;
use duly_store_embedded::{
    EmbeddedStore, OpenError, OpenProgress, Options,
    disk::{self, Operation, RealDisk},
};
use tokio::{sync::watch, task};

use super::{StartError, directory};
use duly_api::cluster::Recovery;

use crate::{
    config::{Config, key},
    http::StartupProgress,
    start::options,
};

/// The interval of progress lines in the log; a shorter opening logs none.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The progress text before anything was read.
pub(in crate::start) const OPENING_TEXT: &str = "the data directory is being opened";

/// A function that opens a store at a path and reports how far reading is.
pub(in crate::start) type Opener = Box<
    dyn FnOnce(
            &Path,
            Options,
            Arc<dyn Clock>,
            &mut dyn FnMut(OpenProgress),
        ) -> Result<EmbeddedStore, OpenError>
        + Send,
>;

/// Opens the directory on the real disk.
pub(in crate::start) fn open_directory(
    path: &Path,
    options: Options,
    clock: Arc<dyn Clock>,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<EmbeddedStore, OpenError> {
    let disk = Arc::new(RealDisk::open_or_create(path)?);
    EmbeddedStore::open(disk, options, clock, progress)
}

/// Opens the store of this configuration. Sends the progress to `progress_sender`.
pub(super) async fn open(
    config: &Config,
    clock: Arc<dyn Clock>,
    progress_sender: watch::Sender<StartupProgress>,
    opener: Opener,
) -> Result<Arc<EmbeddedStore>, StartError> {
    let path = config.store.data.to_path_buf();
    let origin = config.origin(key!(store.data));
    let options = options::store_options(config);
    let opened = task::spawn_blocking(move || {
        if let Some(found) = directory::find_foreign_name(&path) {
            return Err(StartError::Foreign { path, origin, found });
        }
        let mut reporter = ProgressReporter { progress_sender, logged: Instant::now() };
        let opened = opener(&path, options, clock, &mut |progress| reporter.report(progress));
        opened.map_err(|source| match source {
            OpenError::Disk(error) if cannot_be_created(&error) => {
                let parent = directory::nearest_existing(&path).to_owned();
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
