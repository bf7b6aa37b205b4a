//! The running handlers: the delivery and lease of each, and the time of its next lease extension.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::{task::Id, time::Instant};

/// A running handler.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) delivery_id: Arc<str>,
    /// Token of its lease; none after its connection was lost or its lease ended.
    pub(super) token: Option<String>,
    /// Its place in the order of lease extensions.
    extension: Option<Turn>,
}

/// A time, with a number that orders equal times.
type Turn = (Instant, u64);

/// The running handlers, at most `concurrency` of them.
#[derive(Debug, Default)]
pub(super) struct Running {
    runs: HashMap<Id, Run>,
    by_delivery: HashMap<Arc<str>, Id>,
    extensions: BTreeMap<Turn, Id>,
    turns: u64,
}

impl Running {
    /// Adds a handler that has started.
    pub(super) fn begin(&mut self, id: Id, delivery_id: &str, token: String, extend_at: Instant) {
        let delivery_id: Arc<str> = delivery_id.into();
        self.by_delivery.insert(Arc::clone(&delivery_id), id);
        self.runs.insert(id, Run { delivery_id, token: None, extension: None });
        self.hold(id, token, extend_at);
    }

    /// Continues the running handler of this delivery under a new lease. Returns `false` if there is
    /// none.
    pub(super) fn rejoin(&mut self, delivery_id: &str, token: &str, extend_at: Instant) -> bool {
        let Some(id) = self.by_delivery.get(delivery_id).copied() else { return false };
        self.hold(id, token.to_owned(), extend_at);
        true
    }

    fn hold(&mut self, id: Id, token: String, extend_at: Instant) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        self.turns += 1;
        let turn = (extend_at, self.turns);
        run.token = Some(token);
        if let Some(old) = run.extension.replace(turn) {
            self.extensions.remove(&old);
        }
        self.extensions.insert(turn, id);
    }

    /// Removes a handler that has ended, and returns it.
    pub(super) fn end(&mut self, id: Id) -> Option<Run> {
        let run = self.runs.remove(&id)?;
        self.by_delivery.remove(&run.delivery_id);
        if let Some(turn) = run.extension {
            self.extensions.remove(&turn);
        }
        Some(run)
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
            let Some(run) = self.runs.get_mut(&id) else { continue };
            run.extension = None;
            if let Some(token) = run.token.clone() {
                tokens.push(token.clone());
                self.hold(id, token, next);
            }
        }
        tokens
    }

    /// Marks a lease as lost; its handler runs on.
    pub(super) fn lose(&mut self, token: &str) {
        let lost = |run: &&mut Run| run.token.as_deref() == Some(token);
        if let Some(run) = self.runs.values_mut().find(lost) {
            run.token = None;
            if let Some(turn) = run.extension.take() {
                self.extensions.remove(&turn);
            }
        }
    }

    /// Marks all leases as lost, because the connection is lost; the handlers run on.
    pub(super) fn lose_all(&mut self) {
        self.extensions.clear();
        for run in self.runs.values_mut() {
            (run.token, run.extension) = (None, None);
        }
    }

    /// Removes all handlers, and returns their number.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.runs.len();
        *self = Self::default();
        count
    }
}
