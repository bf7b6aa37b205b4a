//! The running handlers: the delivery and lease of each, and the time of its next lease extension.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::{task::Id, time::Instant};

/// A running handler.
#[derive(Debug)]
pub(super) struct RunningHandler {
    pub(super) delivery_id: Arc<str>,
    /// Token of its lease; none after its connection was lost or its lease ended.
    pub(super) token: Option<String>,
    /// Its place in the order of lease extensions.
    extension: Option<ExtensionOrder>,
}

/// A time, with a number that orders equal times.
type ExtensionOrder = (Instant, u64);

/// The running handlers, at most `concurrency` of them.
#[derive(Debug, Default)]
pub(super) struct RunningHandlers {
    handlers: HashMap<Id, RunningHandler>,
    by_delivery: HashMap<Arc<str>, Id>,
    extensions: BTreeMap<ExtensionOrder, Id>,
    sequence: u64,
}

impl RunningHandlers {
    /// Adds a handler that has started.
    pub(super) fn begin(&mut self, id: Id, delivery_id: &str, token: String, extend_at: Instant) {
        let delivery_id: Arc<str> = delivery_id.into();
        self.by_delivery.insert(Arc::clone(&delivery_id), id);
        self.handlers.insert(id, RunningHandler { delivery_id, token: None, extension: None });
        self.set_lease(id, token, extend_at);
    }

    /// Continues the running handler of this delivery under a new lease. Returns `false` if there is
    /// none.
    pub(super) fn continue_handler(
        &mut self,
        delivery_id: &str,
        token: &str,
        extend_at: Instant,
    ) -> bool {
        let Some(id) = self.by_delivery.get(delivery_id).copied() else { return false };
        self.set_lease(id, token.to_owned(), extend_at);
        true
    }

    fn set_lease(&mut self, id: Id, token: String, extend_at: Instant) {
        let Some(handler) = self.handlers.get_mut(&id) else { return };
        self.sequence += 1;
        let order = (extend_at, self.sequence);
        handler.token = Some(token);
        if let Some(old) = handler.extension.replace(order) {
            self.extensions.remove(&old);
        }
        self.extensions.insert(order, id);
    }

    /// Removes a handler that has ended, and returns it.
    pub(super) fn end(&mut self, id: Id) -> Option<RunningHandler> {
        let handler = self.handlers.remove(&id)?;
        self.by_delivery.remove(&handler.delivery_id);
        if let Some(order) = handler.extension {
            self.extensions.remove(&order);
        }
        Some(handler)
    }

    /// Returns the time of the next lease extension.
    pub(super) fn next_extension(&self) -> Option<Instant> {
        self.extensions.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the tokens of the leases whose extension is due by `now`. Their next extension is due at
    /// `next`.
    pub(super) fn extend_due(&mut self, now: Instant, next: Instant) -> Vec<String> {
        let mut tokens = Vec::new();
        while let Some(entry) = self.extensions.first_entry()
            && entry.key().0 <= now
        {
            let id = entry.remove();
            let Some(handler) = self.handlers.get_mut(&id) else { continue };
            handler.extension = None;
            if let Some(token) = handler.token.clone() {
                tokens.push(token.clone());
                self.set_lease(id, token, next);
            }
        }
        tokens
    }

    /// Marks a lease as lost; its handler runs on.
    pub(super) fn mark_lost(&mut self, token: &str) {
        let lost = |handler: &&mut RunningHandler| handler.token.as_deref() == Some(token);
        if let Some(handler) = self.handlers.values_mut().find(lost) {
            handler.token = None;
            if let Some(order) = handler.extension.take() {
                self.extensions.remove(&order);
            }
        }
    }

    /// Marks all leases as lost, because the connection is lost; the handlers run on.
    pub(super) fn mark_all_lost(&mut self) {
        self.extensions.clear();
        for handler in self.handlers.values_mut() {
            (handler.token, handler.extension) = (None, None);
        }
    }

    /// Removes all handlers, and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.handlers.len();
        *self = Self::default();
        count
    }
}
