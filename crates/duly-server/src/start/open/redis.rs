//! Opens the store on Redis, which nodes share.

use std::{path::Path, sync::Arc, time::Duration};

use duly_core::env::Clock;
use duly_store_redis::{Options, RedisStore};
use futures::future::{BoxFuture, FutureExt};
use tokio::sync::watch;

use super::{Adapter, Opened, until_available};
use crate::{
    config::{Config, StoreUrl, files, key},
    service::StartupProgress,
    start::{StartError, options::unusable_file},
};

/// Longest time for one call to a server of the store. Together with the longest wait for replicas it is shorter
/// than the time after which a loop of the node counts as stuck.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// A store on the servers of a URL.
pub(super) struct RedisAdapter {
    pub(super) config: Config,
    pub(super) url: StoreUrl,
}

impl Adapter for RedisAdapter {
    fn initial_progress(&self) -> String {
        format!("the server connects to {}", self.url)
    }

    // Cancellation safe: a dropped call leaves nothing behind.
    fn open(
        self: Box<Self>,
        _clock: Arc<dyn Clock>,
        progress: &watch::Sender<StartupProgress>,
    ) -> BoxFuture<'_, Opened> {
        async move {
            let options = self.options()?;
            let (store, repeated_for) =
                until_available(progress, || self.open_once(&options)).await?;
            if let Some(after) = repeated_for {
                tracing::info!(store = %self.url, ?after, "store opened");
            }
            Ok(store)
        }
        .boxed()
    }

    fn open_beside(self: Box<Self>) -> BoxFuture<'static, Option<Opened>> {
        async move {
            Some(match self.options() {
                Ok(options) => self.open_once(&options).await,
                Err(error) => Err(error),
            })
        }
        .boxed()
    }
}

impl RedisAdapter {
    /// Opens the store, and returns the first error.
    async fn open_once(&self, options: &Options) -> Opened {
        let opened = RedisStore::open(options).await.map_err(|source| {
            let (url, origin) = (self.url.clone(), self.config.origin(key!(store.url)));
            StartError::Shared { url, origin, source: Box::new(source) }
        });
        Ok(Arc::new(opened?))
    }

    /// Reads the password of the store; the store reads the other file.
    fn options(&self) -> Result<Options, StartError> {
        let (config, store) = (&self.config, &self.config.store);
        let password = match store.password_file.as_deref() {
            None => None,
            Some(path) => Some(files::password(path).map_err(|reason| {
                unusable_file(config, "password", key!(store.password_file), path, reason)
            })?),
        };
        Ok(Options {
            location: self.url.to_string(),
            password,
            tls_ca: store.ca_file.as_deref().map(Path::to_owned),
            deployment: store.deployment.as_ref().map(ToString::to_string),
            shards: store.shards.as_u16(),
            create: store.create,
            on_rollback: store.on_rollback,
            min_replicas: store.min_replicas.as_u32(),
            on_disk: store.on_disk,
            replication_timeout: store.replication_timeout.to_std(),
            silence_timeout: store.silence_timeout.to_std(),
            answer_within: RESPONSE_TIMEOUT,
            connections: store.connections.as_usize(),
            namespaces_max: config.limits.namespaces_max.get(),
            allow: store.allow.iter().map(|risk| risk.0).collect(),
            ..Options::new(self.url.reveal())
        })
    }
}
