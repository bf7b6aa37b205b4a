//! The task that writes entries of the audit log to the store.

use std::{sync::Arc, time::Duration};

use duly_store::{AuditEntry, Store};
use tokio::sync::mpsc;

use super::{
    Queued,
    drops::{DropReason, dropped},
};

/// Time in which entries are gathered before they are written to the store.
const GATHER: Duration = Duration::from_millis(200);
/// Time until entries that could not be written are tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Writes entries to the audit log of the store until the server ends.
pub(super) async fn keep(mut queue: mpsc::Receiver<Queued<AuditEntry>>, store: Arc<dyn Store>) {
    let Some(log) = store.audit() else { return };
    let (mut entries, mut flushed) = (Vec::new(), Vec::new());
    while let Some(first) = queue.recv().await {
        if matches!(first, Queued::Item(_)) {
            tokio::time::sleep(GATHER).await;
        }
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Queued::Item(entry) => entries.push(entry),
                Queued::Flush(reply) => flushed.push(reply),
            }
            next = queue.try_recv().ok();
        }
        let mut is_logged = false;
        while !entries.is_empty() {
            match log.append_audit(entries.clone()).await {
                Ok(displaced) => {
                    dropped("store", DropReason::Displaced, displaced);
                    entries.clear();
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_logged, true) {
                        tracing::warn!(%error, "audit entries not in the store yet; they are tried again");
                    }
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
        for reply in flushed.drain(..) {
            // No one waits any more if the server has ended.
            let _unheard: Result<(), ()> = reply.send(());
        }
    }
}
