//! Loops that must not die quietly: one that panics, or that the watchdog finds standing still, is
//! started again, counted and logged.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::state::Shared;

/// Pause before a loop that panicked starts again.
const RESTART_AFTER: Duration = Duration::from_millis(100);

/// Spawns `run` and starts it again whenever it panics or `stalled` rings. It ends when `run`
/// returns.
///
/// A loop that stands still inside a call that never yields cannot be ended; it ends at its next
/// wait, and the one begun in its place does not wait for that.
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
