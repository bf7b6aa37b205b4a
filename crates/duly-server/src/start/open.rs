//! The store of a configuration, and what only its kind can do.

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
pub(super) use self::embedded::BEGINNING;
pub(super) use self::embedded::{Opener, directory};
use super::{StartError, options};
use crate::{
    config::{Config, StoreUrl},
    http::{Awaited, Backups},
};

/// A store that was opened.
#[derive(Debug)]
pub(super) enum Opened {
    /// In a directory of this machine, of this process alone.
    Embedded(Arc<EmbeddedStore>),
    /// On servers that nodes share.
    Shared(Arc<RedisStore>, StoreUrl),
}

/// What is awaited before anything was read.
pub(super) fn beginning(config: &Config) -> String {
    match &config.store.url {
        None => embedded::BEGINNING.to_owned(),
        Some(url) => format!("the server connects to {url}"),
    }
}

/// Opens the store of this configuration, an embedded one with `opener`; `waits_for` is told what
/// is awaited.
pub(super) async fn open(
    config: &Config,
    clock: Arc<dyn Clock>,
    waits_for: watch::Sender<Awaited>,
    opener: Opener,
) -> Result<Opened, StartError> {
    let Some(url) = &config.store.url else {
        let store = embedded::open(config, clock, waits_for, opener).await?;
        return Ok(Opened::Embedded(store));
    };
    for sentence in config.unused() {
        tracing::warn!("{sentence}");
    }
    let store = remote::open(config, url, waits_for).await?;
    Ok(Opened::Shared(store, url.clone()))
}

impl Opened {
    /// As everything but the start and the stop sees it.
    pub(super) fn port(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded(store) => Arc::clone(store) as Arc<dyn Store>,
            Self::Shared(store, _) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// Where the data is.
    pub(super) fn place(&self) -> String {
        match self {
            Self::Embedded(store) => store.health().location,
            Self::Shared(store, url) => match store.shards() {
                1 => format!("{url} (1 shard)"),
                shards => format!("{url} ({shards} shards)"),
            },
        }
    }

    /// How its journal ended.
    pub(super) fn tail(&self) -> Tail {
        match self {
            Self::Embedded(store) => store.report().tail,
            Self::Shared(..) => Tail::Closed,
        }
    }

    /// What makes copies of it.
    pub(super) fn backups(&self, config: &Config) -> Backups {
        match self {
            Self::Embedded(store) => {
                let directory = config.store.backup_dir.as_deref().map(Path::to_owned);
                Backups::of(directory, Arc::clone(store)).limited(options::backup_limits(config))
            }
            Self::Shared(..) => Backups::elsewhere(),
        }
    }

    /// Waits until the store has ended for good and returns why. What nodes share does not end.
    pub(super) async fn ended(&self) -> String {
        match self {
            Self::Embedded(store) => store.ended().await,
            Self::Shared(..) => std::future::pending().await,
        }
    }

    /// Ends it. What other nodes share goes on; its connections end with the process.
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
