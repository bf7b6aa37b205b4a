//! Opens the store that several nodes share.
//!
//! Some errors can end without an operator: unreachable servers, servers that load their data, too few
//! replicas. The node then retries with back-off. It logs the reason of each attempt and returns it from
//! `/readyz`. Every other error ends the start with one message, because only an operator can correct
//! it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::error_code::Retry;
use duly_store_redis::{Options, RedisStore};
use tokio::{sync::watch, time::sleep};

use super::StartError;
use crate::{
    config::{Config, StoreUrl, files, key},
    http::StartupProgress,
};

/// Longest pause between two attempts. The error sets the first pause; each attempt doubles it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Longest time for one call to a server. Together with the longest wait for replicas it is
/// shorter than the time after which a loop of the node counts as stuck.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the store. Sends the progress to `progress`.
///
/// Cancellation safe: a dropped call leaves nothing behind.
pub(super) async fn open(
    config: &Config,
    url: &StoreUrl,
    progress: watch::Sender<StartupProgress>,
) -> Result<Arc<RedisStore>, StartError> {
    let options = options(config, url)?;
    let began = Instant::now();
    let mut pause = Duration::ZERO;
    loop {
        let source = match RedisStore::open(&options).await {
            Ok(store) => {
                if !pause.is_zero() {
                    tracing::info!(store = %url, after = ?began.elapsed(), "store opened");
                }
                return Ok(Arc::new(store));
            }
            Err(source) => Box::new(source),
        };
        let retry = source.retry();
        let (url, origin) = (url.clone(), config.origin(key!(store.url)));
        let error = StartError::Shared { url, origin, source };
        let Retry::After(first) = retry else {
            return Err(error);
        };
        pause = (pause * 2).clamp(first.to_std(), PAUSE_MAX);
        tracing::warn!(reason = %error, retry_in = ?pause, "store not opened, will retry");
        progress.send_replace(StartupProgress { sentence: error.to_string(), progress: None });
        sleep(pause).await;
    }
}

fn options(config: &Config, url: &StoreUrl) -> Result<Options, StartError> {
    let store = &config.store;
    let password = match store.password_file.as_deref() {
        None => None,
        Some(path) => Some(files::password(path).map_err(|reason| StartError::StorePassword {
            path: path.to_owned(),
            origin: config.origin(key!(store.password_file)),
            reason,
        })?),
    };
    Ok(Options {
        password,
        tls_ca: store.ca_file.as_deref().map(Path::to_owned),
        deployment: store.deployment.as_ref().map(ToString::to_string),
        shards: store.shards.as_u16(),
        create: store.create,
        on_rollback: store.on_rollback,
        min_replicas: store.min_replicas.as_u32(),
        on_disk: store.on_disk,
        replication_timeout: store.replication_timeout.to_std(),
        answer_within: RESPONSE_TIMEOUT,
        connections: store.connections.as_usize(),
        namespaces_max: config.limits.namespaces_max.get(),
        allow: store.allow.iter().map(|risk| risk.0).collect(),
        ..Options::new(url.reveal())
    })
}
