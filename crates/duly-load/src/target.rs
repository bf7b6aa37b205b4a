//! What a run works on: a server, a namespace of its own with a random name, and what there is to say.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::transport::Transport;

/// The server and the namespace of a run.
pub(crate) struct Target {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) namespace: String,
    /// Seen from outside where the server was started by the run.
    pub(crate) pid: Option<u32>,
    remark: Mutex<Option<String>>,
}

impl Target {
    pub(crate) fn new(transport: Arc<dyn Transport>, pid: Option<u32>) -> Self {
        let namespace = format!("bench-{:016x}", rand::random::<u64>());
        Self { transport, namespace, pid, remark: Mutex::new(None) }
    }

    /// Keeps the first of what went otherwise than it should.
    pub(crate) fn remark(&self, text: String) {
        self.remark.lock().get_or_insert(text);
    }

    /// What went otherwise.
    pub(crate) fn remarked(&self) -> Option<String> {
        self.remark.lock().clone()
    }
}
