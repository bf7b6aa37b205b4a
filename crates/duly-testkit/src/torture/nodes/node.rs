//! A node: a real `duly serve` on the loopback address of its own host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::network::{Host, WEB};
use crate::process::{Options, Server};
use crate::torture::caller::Endpoint;
use crate::wire::{Error, Response};

/// Shards of the deployment.
pub(super) const SHARDS: u16 = 32;

/// Longest time of a start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time of a shutdown.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest time of a status call.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings that all nodes share.
#[derive(Debug, Clone)]
pub(super) struct NodeSettings {
    pub(super) bin: PathBuf,
    pub(super) store: String,
    pub(super) min_replicas: u32,
}

/// A node that can be killed and started again.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) host: Host,
    options: Options,
    server: Option<Server>,
}

impl Node {
    /// Creates a node that does not run yet. Its log is in this folder.
    pub(super) fn new(host: Host, settings: &NodeSettings, folder: &Path) -> Self {
        let variables = [
            ("DULY_STORE__URL", settings.store.clone()),
            ("DULY_STORE__SHARDS", SHARDS.to_string()),
            ("DULY_STORE__ON_ROLLBACK", "pause".to_owned()),
            ("DULY_STORE__MIN_REPLICAS", settings.min_replicas.to_string()),
            ("DULY_STORE__REPLICATION_TIMEOUT", "500ms".to_owned()),
            // Needed if `min_replicas` is 0. Such a setup loses timers, which are counted.
            ("DULY_STORE__ALLOW", "no_replicas".to_owned()),
            ("DULY_DELIVERY__ALLOW_NETWORKS", WEB.to_owned()),
        ];
        let options = Options {
            bin: settings.bin.clone(),
            data: None,
            log: folder.join(format!("{}.log", host.name)),
            listen: SocketAddr::from(([127, 0, 0, 1], 3859)),
            settings: variables.map(|(name, value)| (name.to_owned(), value)).into(),
            network: Arc::new(host.namespace.clone()),
        };
        Self { host, options, server: None }
    }

    /// Returns the address to call the node.
    pub(super) fn endpoint(&self) -> Endpoint {
        Endpoint { network: Arc::clone(&self.options.network), address: self.options.listen }
    }

    /// Starts the node and waits until it is ready.
    pub(super) async fn start(&mut self) -> Result<()> {
        self.start_with(&[]).await
    }

    /// Starts the node with further environment variables.
    pub(super) async fn start_with(&mut self, more: &[(&str, &str)]) -> Result<()> {
        let mut options = self.options.clone();
        options.settings.extend(crate::process::settings(more));
        let server = Server::start(&options, START_TIMEOUT).await;
        self.server = Some(server.with_context(|| {
            let log = crate::process::tail(&options.log, 20);
            format!("{} does not start; the last lines of its log:\n{log}", self.host.name)
        })?);
        Ok(())
    }

    /// Shuts the node down; an error unless it ends with success.
    pub(super) async fn stop(&mut self) -> Result<()> {
        let ended_well = self.process()?.stop(STOP_TIMEOUT).await?;
        ensure!(ended_well, "{} ended with a failure after SIGTERM", self.host.name);
        Ok(())
    }

    /// Returns a problem of the node, if there is one; `nodes` members are expected.
    pub(super) async fn complaint(&self, nodes: usize) -> Option<String> {
        let name = &self.host.name;
        let (ready, cluster) = match (self.get("/readyz").await, self.get("/v1/cluster").await) {
            (Ok(ready), Ok(cluster)) => (ready, cluster.json()),
            (Err(error), _) | (_, Err(error)) => {
                return Some(format!("{name} does not respond: {error}"));
            }
        };
        if !ready.is_success() {
            return Some(format!("{name} is not ready: {}", ready.json()));
        }
        let members = cluster["nodes"].as_array().cloned().unwrap_or_default();
        let here = members.iter().filter(|member| member["state"] == "active").count();
        let shards: u64 = members.iter().filter_map(|member| member["shards"].as_u64()).sum();
        let is_whole = members.len() == nodes && here == nodes && cluster["shards"] == shards;
        (!is_whole).then(|| format!("{name} sees other members: {}", cluster["nodes"]))
    }

    /// Returns the member ids that this node reports, sorted; `None` if it does not reply.
    pub(super) async fn member_ids(&self) -> Option<Vec<String>> {
        let cluster = self.get("/v1/cluster").await.ok()?.json();
        let members = cluster["nodes"].as_array()?.iter();
        let mut member_ids: Vec<_> = members.map(|node| node["member_id"].to_string()).collect();
        member_ids.sort_unstable();
        Some(member_ids)
    }

    async fn get(&self, path: &str) -> Result<Response, Error> {
        self.endpoint().connection().call("GET", path, b"", STATUS_TIMEOUT).await
    }

    /// Returns the process of the node.
    pub(super) fn process(&mut self) -> Result<&mut Server> {
        self.server.as_mut().with_context(|| format!("{} was not started", self.host.name))
    }
}
