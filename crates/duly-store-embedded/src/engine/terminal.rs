//! The terminal error: the reason for which a store has ended for good, visible to every thread and
//! caller.
//!
//! It is set once: by the engine or, after a panic, by the watch over its thread. The first reason stays.

use std::sync::Arc;

use tokio::sync::watch;

/// The reason, to read and to wait for. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terminal(Arc<watch::Sender<Option<String>>>);

impl Terminal {
    /// Ends the store with this reason, unless it has ended before. Returns the reason that stays.
    pub(crate) fn set(&self, reason: String) -> String {
        let mut counts = reason.clone();
        let is_first = self.0.send_if_modified(|known| match known {
            Some(known) => {
                counts.clone_from(known);
                false
            }
            None => {
                *known = Some(reason);
                true
            }
        });
        if is_first {
            tracing::error!(reason = counts, "the store has ended");
        }
        counts
    }

    /// Returns the reason, if the store has ended.
    pub(crate) fn get(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the store has ended, and returns the reason. Waits for ever if the store is closed
    /// before.
    pub(crate) fn wait(&self) -> impl Future<Output = String> + Send + 'static {
        let mut receiver = self.0.subscribe();
        async move {
            let reason =
                receiver.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
            match reason {
                Some(reason) => reason,
                None => std::future::pending().await,
            }
        }
    }
}
