//! Supervision of loops: a loop that panics or stalls is restarted, counted and logged.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::state::Shared;

/// Pause before a loop that panicked is restarted.
const RESTART_AFTER: Duration = Duration::from_millis(100);

/// Spawns `run` and restarts it each time it panics or `stalled` is notified. Supervision ends when
/// `run` returns.
///
/// A loop that stalls inside a call that never yields cannot be stopped at once. It ends at its next
/// `await`; its replacement does not wait for that.
pub(crate) fn spawn<F, R>(
    name: impl Into<String>,
    shared: &Arc<Shared>,
    stalled: Arc<Notify>,
    run: F,
) where
    F: Fn(Arc<Shared>) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let (name, shared) = (name.into(), Arc::clone(shared));
    tokio::spawn(async move {
        loop {
            let mut task = tokio::spawn(run(Arc::clone(&shared)));
            tokio::select! {
                ended = &mut task => match ended {
                    Err(failure) if failure.is_panic() => {
                        shared.watch.restarted(&name, "panicked");
                        tokio::time::sleep(RESTART_AFTER).await;
                    }
                    _ => return,
                },
                () = stalled.notified() => {
                    shared.watch.restarted(&name, "made no progress");
                    task.abort();
                }
            }
        }
    });
}
