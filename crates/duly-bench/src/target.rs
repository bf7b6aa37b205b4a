//! Target of a run: the server, the run's namespaces with random names, and the first remark.

use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::transport::{Settings, Transport};

/// Target of a run.
pub(crate) struct Target {
    pub(crate) transport: Arc<dyn Transport>,
    /// The main namespace; the names of the others begin with its name.
    pub(crate) namespace: String,
    made: Mutex<Vec<String>>,
    remark: Mutex<Option<String>>,
}

impl Target {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        let namespace = format!("bench-{:016x}", rand::random::<u64>());
        Self { transport, namespace, made: Mutex::default(), remark: Mutex::default() }
    }

    /// Creates the main namespace.
    pub(crate) async fn make_main(&self, settings: &Settings) -> Result<()> {
        self.make_named(0, self.namespace.clone(), settings).await.map(drop)
    }

    /// Creates another namespace and returns its name.
    pub(crate) async fn make(
        &self,
        line: usize,
        suffix: &str,
        settings: &Settings,
    ) -> Result<String> {
        self.make_named(line, format!("{}-{suffix}", self.namespace), settings).await
    }

    async fn make_named(&self, line: usize, name: String, settings: &Settings) -> Result<String> {
        // The name is noted first: a call without a result may have created the namespace.
        self.made.lock().push(name.clone());
        self.transport.make(line, &name, settings).await?;
        Ok(name)
    }

    /// Deletes one namespace.
    pub(crate) async fn end(&self, line: usize, name: &str) -> Result<()> {
        self.transport.end(line, name).await?;
        self.made.lock().retain(|made| made != name);
        Ok(())
    }

    /// Deletes all namespaces of the run, over `lines` connections of this transport.
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

    /// Keeps a remark about an unexpected result, if it is the first.
    pub(crate) fn remark(&self, text: String) {
        self.remark.lock().get_or_insert(text);
    }

    /// Returns the kept remark.
    pub(crate) fn remarked(&self) -> Option<String> {
        self.remark.lock().clone()
    }
}
