//! Opens the store that nodes share.
//!
//! Servers that are not there, or refuse, end the start with one message: whoever started it hears
//! what is wrong. Servers that are still reading what they kept are waited for, as they will be
//! there.

use std::{sync::Arc, time::Duration};

use duly_store_redis::{OpenError, Options, RedisStore};
use tokio::{sync::watch, time::sleep};

use super::StartError;
use crate::{
    config::{Config, Shared, files},
    http::Awaited,
};

/// How long servers that are reading are left alone.
const LOADING_PAUSE: Duration = Duration::from_secs(1);

/// How long a server may take to answer one call. With the longest wait for replicas it stays below
/// the time after which a loop of the node counts as stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Opens it; `waits_for` is told what is awaited.
pub(super) async fn open(
    config: &Config,
    shared: &Shared,
    waits_for: watch::Sender<Awaited>,
) -> Result<Arc<RedisStore>, StartError> {
    let options = options(config, shared)?;
    let mut is_said = false;
    loop {
        match RedisStore::open(&options).await {
            Ok(store) => return Ok(Arc::new(store)),
            Err(error) if is_loading(&error) => {
                let sentence = format!("{} is reading what it kept", shared.url);
                if !is_said {
                    tracing::info!("{sentence}");
                    is_said = true;
                }
                waits_for.send_replace(Awaited { sentence, progress: None });
                sleep(LOADING_PAUSE).await;
            }
            Err(source) => {
                return Err(StartError::Shared {
                    url: shared.url.clone(),
                    origin: config.origin("store.url"),
                    source: Box::new(source),
                });
            }
        }
    }
}

/// Whether the servers will be there once they have read what they kept.
fn is_loading(error: &OpenError) -> bool {
    matches!(error, OpenError::Unreachable { reason, .. } | OpenError::Refused { reason, .. }
        if reason.contains("loading the dataset"))
}

fn options(config: &Config, shared: &Shared) -> Result<Options, StartError> {
    let password = match &shared.password_file {
        None => None,
        Some(path) => Some(files::password(path).map_err(|reason| StartError::StorePassword {
            path: path.clone(),
            origin: config.origin("store.password_file"),
            reason,
        })?),
    };
    Ok(Options {
        password,
        tls_ca: shared.ca_file.clone(),
        deployment: shared.deployment.clone(),
        shards: shared.shards,
        create: shared.create,
        on_rollback: shared.on_rollback,
        min_replicas: shared.min_replicas,
        on_disk: shared.on_disk,
        replicas_within: shared.replicas_within,
        answer_within: ANSWER_WITHIN,
        connections: shared.connections,
        allow: shared.allow.clone(),
        ..Options::new(shared.url.reveal())
    })
}
