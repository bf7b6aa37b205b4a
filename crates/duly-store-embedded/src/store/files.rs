//! The keys of callers and the audit log, which are files beside the journal.

use std::sync::Arc;

use duly_store::{
    AccessChange, AccessRecords, AccessStore, AuditEntry, AuditId, AuditStore, ChangeOrigin, Error,
    Result, StoreFuture,
};
use tokio::sync::oneshot;

use super::{EmbeddedStore, StoreMode, received};
use crate::open::OpenError;

impl AccessStore for EmbeddedStore {
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        let records = self.access.records();
        let newer = (records.version != known).then(|| AccessRecords::clone(&records));
        Box::pin(async move { Ok(newer) })
    }

    fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>> {
        let access = Arc::clone(&self.access);
        self.beside(move || access.change(seen, change, origin))
    }
}

impl AuditStore for EmbeddedStore {
    fn append_audit(&self, entries: Vec<AuditEntry>) -> StoreFuture<'_, usize> {
        let audit = Arc::clone(&self.audit);
        self.beside(move || audit.append(entries))
    }

    fn read_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<AuditEntry>> {
        let page = self.audit.page(before, limit);
        Box::pin(async { Ok(page) })
    }
}

impl EmbeddedStore {
    /// Writes a file beside the engine, on a thread of its own: the engine's thread would keep timers waiting
    /// for the disk.
    fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        if let StoreMode::Inline { .. } = &self.mode {
            return Box::pin(std::future::ready(work()));
        }
        let (reply, answer) = oneshot::channel();
        let started = std::thread::Builder::new()
            .name("duly-file".to_owned())
            .spawn(move || drop(reply.send(work())));
        let pushed = started.map(drop).map_err(|error| Error::Unavailable {
            reason: OpenError::no_thread(error).to_string(),
            retry_after: duly_core::Millis::from_secs(1),
        });
        received(pushed, answer)
    }
}
