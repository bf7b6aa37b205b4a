//! Opens the embedded store beside the runtime, and says how far it is.
//!
//! Opening reads a checkpoint and the journal behind it, and blocks. Its progress goes to `/readyz`
//! every few MiB, and to the log when it takes long enough for a person to wonder.

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

use super::{StartError, directory as place};
use duly_api::cluster::Recovery;

use crate::{
    config::{Config, key},
    http::Awaited,
    start::options,
};

/// An opening that takes no longer is not logged, and a longer one is this often.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// What is awaited before anything was read.
pub(in crate::start) const BEGINNING: &str = "the data directory is being opened";

/// Opens a store at a path; hears how far reading is.
pub(in crate::start) type Opener = Box<
    dyn FnOnce(
            &Path,
            Options,
            Arc<dyn Clock>,
            &mut dyn FnMut(OpenProgress),
        ) -> Result<EmbeddedStore, OpenError>
        + Send,
>;

/// Opens the directory for real.
pub(in crate::start) fn directory(
    path: &Path,
    options: Options,
    clock: Arc<dyn Clock>,
    progress: &mut dyn FnMut(OpenProgress),
) -> Result<EmbeddedStore, OpenError> {
    let disk = Arc::new(RealDisk::open_or_create(path)?);
    EmbeddedStore::open(disk, options, clock, progress)
}

/// Opens the store of this configuration; `waits_for` is told what is awaited.
pub(super) async fn open(
    config: &Config,
    clock: Arc<dyn Clock>,
    waits_for: watch::Sender<Awaited>,
    opener: Opener,
) -> Result<Arc<EmbeddedStore>, StartError> {
    let path = config.store.data.to_path_buf();
    let origin = config.origin(key!(store.data));
    let options = options::store_options(config);
    let opened = task::spawn_blocking(move || {
        if let Some(found) = place::foreign(&path) {
            return Err(StartError::Foreign { path, origin, found });
        }
        let mut teller = Teller { waits_for, logged: Instant::now() };
        let opened = opener(&path, options, clock, &mut |progress| teller.tell(progress));
        opened.map_err(|source| match source {
            OpenError::Disk(error) if cannot_be_made(&error) => {
                let parent = place::nearest(&path).to_owned();
                StartError::Make { path, origin, parent }
            }
            source => StartError::Open { path, origin, source: Box::new(source) },
        })
    });
    opened.await?.map(Arc::new)
}

/// Whether the place of the directory is one where none can be.
fn cannot_be_made(error: &disk::Error) -> bool {
    match error {
        disk::Error::NotFound { operation: Operation::MakeDir, .. } => true,
        disk::Error::Io { source, .. } => source.kind() == io::ErrorKind::NotADirectory,
        _ => false,
    }
}

/// Says how far reading is.
struct Teller {
    waits_for: watch::Sender<Awaited>,
    logged: Instant,
}

impl Teller {
    fn tell(&mut self, how_far: OpenProgress) {
        let sentence = sentence(how_far);
        if self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            tracing::info!("{sentence}");
        }
        let OpenProgress { what, bytes_done, bytes_total } = how_far;
        let progress = Some(Recovery { what, bytes_done, bytes_total });
        self.waits_for.send_replace(Awaited { sentence, progress });
    }
}

fn sentence(how_far: OpenProgress) -> String {
    let OpenProgress { what, bytes_done, bytes_total } = how_far;
    format!("{BEGINNING}: {} of {} MiB of the {what} read", bytes_done >> 20, bytes_total >> 20)
}
