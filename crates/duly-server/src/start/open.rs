//! Opens the store of a configuration: the one place of the server that names the kinds of store.
//!
//! A kind of store has an [`Adapter`], which turns its keys of the configuration into options and opens it. All
//! other parts have the store by its port, and ask it for its capabilities.
//!
//! Some errors of a store on other servers can end without an operator: unreachable servers, servers that load
//! their data, too few replicas. The node then retries with back-off ([`until_available`]). It logs the reason of
//! each attempt and returns it from `/readyz`. Every other error ends the start with one message, because only
//! an operator can correct it.

pub(super) mod embedded;
mod redis;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::{env::Clock, error_code::Retry};
use duly_store::Store;
use futures::future::{self, BoxFuture, FutureExt};
use tokio::{sync::watch, task, time::sleep};

use self::{embedded::EmbeddedAdapter, redis::RedisAdapter};
use super::StartError;
use crate::{config::Config, service::StartupProgress};

/// Longest pause between two attempts. The error sets the first pause; each attempt doubles it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The result of opening a store.
pub(super) type Opened = Result<Arc<dyn Store>, StartError>;

/// A kind of store, before the store is open.
pub(super) trait Adapter: Send {
    /// Returns the progress text before anything was read.
    fn initial_progress(&self) -> String;

    /// Returns `true` if the store has keys of callers, as far as this can be known before the store is open.
    fn has_keys(&self) -> bool {
        false
    }

    /// Opens the store. Sends the progress to `progress`.
    fn open(
        self: Box<Self>,
        clock: Arc<dyn Clock>,
        progress: &watch::Sender<StartupProgress>,
    ) -> BoxFuture<'_, Opened>;

    /// Opens the store beside servers, and returns the first error; `None` for a store that belongs to one
    /// process.
    fn open_beside(self: Box<Self>) -> BoxFuture<'static, Option<Opened>> {
        future::ready(None).boxed()
    }
}

/// Returns the adapter of the store that a configuration names.
pub(super) fn adapter(config: &Config) -> Box<dyn Adapter> {
    let config = config.clone();
    match config.store.url.clone() {
        None => Box::new(EmbeddedAdapter { config, opener: Box::new(embedded::open_directory) }),
        Some(url) => Box::new(RedisAdapter { config, url }),
    }
}

/// Closes a store, and returns the reason if it has ended for good.
pub(super) async fn close(store: Arc<dyn Store>) -> Result<(), StartError> {
    let closes = Arc::clone(&store);
    task::spawn_blocking(move || closes.close()).await?;
    store.terminal_error().map_or(Ok(()), |reason| Err(StartError::StoreEnded(reason)))
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
