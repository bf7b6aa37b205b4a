//! The running handlers: the delivery and lease of each, and the time of its next lease extension.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::{task::Id, time::Instant};

/// A running handler.
#[derive(Debug)]
struct RunningHandler {
    delivery_id: Arc<str>,
    /// Its lease; none after its connection was lost or its lease ended.
    lease: Option<HandlerLease>,
}

#[derive(Debug)]
struct HandlerLease {
    token: String,
    /// Its place in the order of lease extensions.
    extension: ExtensionOrder,
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
        self.handlers.insert(id, RunningHandler { delivery_id, lease: None });
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
        let extension = (extend_at, self.sequence);
        if let Some(old) = handler.lease.replace(HandlerLease { token, extension }) {
            self.extensions.remove(&old.extension);
        }
        self.extensions.insert(extension, id);
    }

    /// Removes a handler that has ended. Returns its delivery id, and the token of its lease.
    pub(super) fn end(&mut self, id: Id) -> Option<(Arc<str>, Option<String>)> {
        let RunningHandler { delivery_id, lease } = self.handlers.remove(&id)?;
        self.by_delivery.remove(&delivery_id);
        if let Some(lease) = &lease {
            self.extensions.remove(&lease.extension);
        }
        Some((delivery_id, lease.map(|lease| lease.token)))
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
            let lease = self.handlers.get(&id).and_then(|handler| handler.lease.as_ref());
            if let Some(token) = lease.map(|lease| lease.token.clone()) {
                tokens.push(token.clone());
                self.set_lease(id, token, next);
            }
        }
        tokens
    }

    /// Marks a lease as lost; its handler runs on.
    pub(super) fn mark_lost(&mut self, token: &str) {
        let mut leases = self.handlers.values_mut().map(|handler| &mut handler.lease);
        let lost = leases.find(|lease| lease.as_ref().is_some_and(|lease| lease.token == token));
        if let Some(lease) = lost.and_then(Option::take) {
            self.extensions.remove(&lease.extension);
        }
    }

    /// Marks all leases as lost, because the connection is lost; the handlers run on.
    pub(super) fn mark_all_lost(&mut self) {
        self.extensions.clear();
        self.handlers.values_mut().for_each(|handler| handler.lease = None);
    }

    /// Removes all handlers, and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.handlers.len();
        *self = Self::default();
        count
    }
}
