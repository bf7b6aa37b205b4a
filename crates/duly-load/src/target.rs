//! What a run works on: a server, namespaces of its own with a random name, and what there is to say.

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::transport::{Settings, Transport};

/// The server and the namespaces of a run.
pub(crate) struct Target {
    pub(crate) transport: Arc<dyn Transport>,
    /// The main one; the names of others begin with it.
    pub(crate) namespace: String,
    made: Mutex<Vec<String>>,
    remark: Mutex<Option<String>>,
}

impl Target {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        let namespace = format!("bench-{:016x}", rand::random::<u64>());
        Self { transport, namespace, made: Mutex::default(), remark: Mutex::default() }
    }

    /// Makes the main namespace.
    pub(crate) async fn make_main(&self, settings: &Settings) -> Result<()> {
        self.make_named(0, self.namespace.clone(), settings).await.map(drop)
    }

    /// Makes another, and answers its name.
    pub(crate) async fn make(
        &self,
        line: usize,
        suffix: &str,
        settings: &Settings,
    ) -> Result<String> {
        self.make_named(line, format!("{}-{suffix}", self.namespace), settings).await
    }

    async fn make_named(&self, line: usize, name: String, settings: &Settings) -> Result<String> {
        // Noted before: a call without an answer may have made it.
        self.made.lock().push(name.clone());
        self.transport.make(line, &name, settings).await?;
        Ok(name)
    }

    /// Ends one of them.
    pub(crate) async fn end(&self, line: usize, name: &str) -> Result<()> {
        self.transport.end(line, name).await?;
        self.made.lock().retain(|made| made != name);
        Ok(())
    }

    /// Ends everything that was made, over so many lines of this transport.
    pub(crate) async fn end_all(&self, transport: Arc<dyn Transport>, lines: usize) -> Result<()> {
        let left = Arc::new(Mutex::new(std::mem::take(&mut *self.made.lock())));
        let mut workers = JoinSet::new();
        for line in 0..lines {
            let (left, transport) = (Arc::clone(&left), Arc::clone(&transport));
            workers.spawn(async move {
                loop {
                    let Some(name) = left.lock().pop() else { return anyhow::Ok(()) };
                    transport.end(line, &name).await?;
                }
            });
        }
        while let Some(worker) = workers.join_next().await {
            worker??;
        }
        Ok(())
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
