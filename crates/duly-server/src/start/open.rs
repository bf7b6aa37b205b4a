//! Opens the store of a configuration, embedded or shared, and offers what only one kind of store can
//! do.

mod directory;
mod embedded;
mod remote;

use std::{path::Path, sync::Arc};

use duly_core::env::Clock;
use duly_store::Store;
use duly_store_embedded::{EmbeddedStore, Tail};
use duly_store_redis::RedisStore;
use tokio::{sync::watch, task};

#[cfg(test)]
pub(super) use self::embedded::OPENING_TEXT;
pub(super) use self::embedded::{Opener, open_directory};
use super::{StartError, options};
use crate::{
    config::{Config, StoreUrl},
    http::{Backups, MakeBackup, StartupProgress},
};

/// An open store.
#[derive(Debug)]
pub(super) enum OpenedStore {
    /// The embedded store: a directory of this machine that only this process uses.
    Embedded(Arc<EmbeddedStore>),
    /// The store on servers that several nodes share.
    Shared(Arc<RedisStore>, StoreUrl),
}

/// Returns the progress text before anything was read.
pub(super) fn initial_progress(config: &Config) -> String {
    match &config.store.url {
        None => embedded::OPENING_TEXT.to_owned(),
        Some(url) => format!("the server connects to {url}"),
    }
}

/// Opens the store of this configuration, an embedded one with `opener`. Sends the progress to
/// `progress`.
pub(super) async fn open(
    config: &Config,
    clock: Arc<dyn Clock>,
    progress: watch::Sender<StartupProgress>,
    opener: Opener,
) -> Result<OpenedStore, StartError> {
    let Some(url) = &config.store.url else {
        let store = embedded::open(config, clock, progress, opener).await?;
        return Ok(OpenedStore::Embedded(store));
    };
    for sentence in config.unused() {
        tracing::warn!("{sentence}");
    }
    let store = remote::open(config, url, progress).await?;
    Ok(OpenedStore::Shared(store, url.clone()))
}

impl OpenedStore {
    /// Returns the store as every part except the start and the stop uses it.
    pub(super) fn as_store(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Shared(store, _) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Returns the location of the data.
    pub(super) fn location(&self) -> String {
        match self {
            Self::Embedded(store) => store.health().location,
            Self::Shared(store, url) => match store.shards() {
                1 => format!("{url} (1 shard)"),
                shards => format!("{url} ({shards} shards)"),
            },
        }
    }

    /// Returns the state of the end of the journal.
    pub(super) fn tail(&self) -> Tail {
        match self {
            Self::Embedded(store) => store.report().tail,
            Self::Shared(..) => Tail::Closed,
        }
    }

    /// Returns the part that makes backups.
    pub(super) fn backups(&self, config: &Config) -> Backups {
        let make: Option<Arc<MakeBackup>> = match self {
            Self::Embedded(store) => {
                let store = Arc::clone(store);
                Some(Arc::new(move |path: &Path| store.backup(path, &mut |_| {})))
            }
            Self::Shared(..) => None,
        };
        let dir = config.store.backup_dir.as_deref().map(Path::to_owned);
        Backups::new(dir, options::backup_limits(config), make)
    }

    /// Waits until the store has ended for good and returns the reason. A shared store does not end.
    pub(super) async fn ended(&self) -> String {
        match self {
            Self::Embedded(store) => store.ended().await,
            Self::Shared(..) => std::future::pending().await,
        }
    }

    /// Closes the store. A shared store continues for other nodes; its connections end with the process.
    pub(super) async fn close(self) -> Result<(), StartError> {
        match self {
            Self::Embedded(store) => {
                let closes = Arc::clone(&store);
                task::spawn_blocking(move || closes.close()).await?;
                store.terminal_error().map_or(Ok(()), |reason| Err(StartError::StoreEnded(reason)))
            }
            Self::Shared(store, _) => {
                drop(store);
                Ok(())
            }
        }
    }
}
