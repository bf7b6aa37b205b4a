//! Nodes and servers of a run, and the check that all of them are well.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rand::Rng;
use rand::rngs::SmallRng;

use super::node::Node;
use super::redis::RedisCluster;
use crate::torture::world::World;

/// Longest time until all is well after a fault.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(90);

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The targets of the faults.
pub(super) struct TestCluster {
    pub(super) nodes: Vec<Node>,
    pub(super) redis: RedisCluster,
    pub(super) world: Arc<World>,
    /// Shards whose data a fault removed.
    pub(super) lost: BTreeSet<u16>,
    /// Slots of these shards.
    pub(super) lost_slots: BTreeSet<i64>,
    /// Time until a replaced master comes back; random if absent.
    pub(super) master_away: Option<Duration>,
    /// Generator of all choices of the faults.
    pub(super) rng: SmallRng,
}

impl TestCluster {
    pub(super) fn random_node(&mut self) -> &mut Node {
        let number = self.rng.random_range(0..self.nodes.len());
        &mut self.nodes[number]
    }

    /// Returns the number of a random master.
    pub(super) fn random_master(&mut self) -> Result<usize> {
        let masters = self.redis.masters()?;
        Ok(masters[self.rng.random_range(0..masters.len())])
    }

    pub(super) fn random_duration(&mut self, ms: Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(ms))
    }

    /// Returns a problem of a server or node, if there is one.
    pub(super) async fn complaint(&self) -> Result<Option<String>> {
        if let Some(complaint) = self.redis.complaint()? {
            return Ok(Some(complaint));
        }
        for node in &self.nodes {
            if let Some(complaint) = node.complaint(self.nodes.len()).await {
                return Ok(Some(complaint));
            }
        }
        Ok(None)
    }

    /// Waits until every server and every node is well and knows all others.
    pub(super) async fn wait_until_healthy(&mut self) -> Result<()> {
        let until = Instant::now() + RECOVERY_TIMEOUT;
        loop {
            let Some(complaint) = self.complaint().await? else {
                return Ok(());
            };
            for node in &mut self.nodes {
                if node.process()?.has_ended()? {
                    bail!("{} ended unexpectedly", node.host.name);
                }
            }
            if Instant::now() > until {
                bail!("not healthy again after {RECOVERY_TIMEOUT:?}: {complaint}");
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
