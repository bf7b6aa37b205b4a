//! Loops that must not die quietly: one that panics is started again, counted and logged.

use std::{future::Future, sync::Arc, time::Duration};

use duly_core::metric_names;

use crate::state::Shared;

/// Pause before a loop that panicked starts again.
const RESTART_AFTER: Duration = Duration::from_millis(100);

/// Spawns `run` and starts it again whenever it panics. It ends when `run` returns.
pub(crate) fn spawn<F, R>(name: String, shared: Arc<Shared>, run: F)
where
    F: Fn(Arc<Shared>) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        while let Err(failure) = tokio::spawn(run(Arc::clone(&shared))).await {
            if !failure.is_panic() {
                return;
            }
            metrics::counter!(metric_names::WATCHDOG_RESTARTS_TOTAL).increment(1);
            tracing::error!(name, "a loop of the node panicked and is started again");
            tokio::time::sleep(RESTART_AFTER).await;
        }
    });
}
