//! Opens the embedded store.
//!
//! 1. The store reads a checkpoint and the journal behind it when it opens, and blocks. So it opens outside of
//!    the runtime. The progress goes to `/readyz` every few MiB, and to the log when opening takes longer than a
//!    second.
//! 2. The store creates its files in any directory without a manifest. A mistyped `--data` must not scatter
//!    them among the files of another program. So a directory that holds anything but a store is refused
//!    before it is touched.

use std::{
    fs, io,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_api::cluster::Recovery;
use duly_core::env::Clock;
use duly_store_embedded::{
    EmbeddedStore, OpenError, OpenProgress, Options, access_file,
    disk::{self, LOCK_NAME, Operation, RealDisk},
};
use futures::future::{BoxFuture, FutureExt};
use tokio::{sync::watch, task};

use super::{Adapter, Opened};
use crate::{
    config::{Bytes, Config, key},
    service::StartupProgress,
    start::StartError,
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

/// The embedded store, in a directory of this machine that only this process uses.
pub(in crate::start) struct EmbeddedAdapter {
    pub(in crate::start) config: Config,
    pub(in crate::start) opener: Opener,
}

impl Adapter for EmbeddedAdapter {
    fn initial_progress(&self) -> String {
        OPENING_TEXT.to_owned()
    }

    fn has_keys(&self) -> bool {
        access_file::exists(&self.config.store.data)
    }

    fn open(
        self: Box<Self>,
        clock: Arc<dyn Clock>,
        progress: &watch::Sender<StartupProgress>,
    ) -> BoxFuture<'_, Opened> {
        let Self { config, opener } = *self;
        open_store(config, clock, progress.clone(), opener).boxed()
    }
}

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

async fn open_store(
    config: Config,
    clock: Arc<dyn Clock>,
    progress_sender: watch::Sender<StartupProgress>,
    opener: Opener,
) -> Opened {
    let path = config.store.data.to_path_buf();
    let origin = config.origin(key!(store.data));
    let options = store_options(&config);
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
    Ok(Arc::new(opened.await??))
}

fn store_options(config: &Config) -> Options {
    let defaults = Options::default();
    Options {
        segment_bytes: config.store.segment_bytes.get(),
        checkpoint_bytes: config.store.checkpoint_bytes.get(),
        young_bytes: config.store.young_bytes.get(),
        on_clock_jump: config.store.on_clock_jump,
        min_free_bytes: config.store.min_free_bytes.map(Bytes::get),
        min_free_percent: config.store.min_free_percent.as_u8(),
        namespaces_max: config.limits.namespaces_max.get(),
        index_memory_max_bytes: config
            .store
            .index_memory_max
            .map_or(defaults.index_memory_max_bytes, Bytes::get),
        ..defaults
    }
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
