//! Injection of faults into a [`TestCluster`]: each fault is repaired before its function returns.

mod clock;
mod distant;
mod loss;
mod memory;
mod network;
mod process;
mod slots;

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::cluster::TestCluster;
use super::fault::Fault;
use crate::clock::now_us;

/// Result of a fault.
#[derive(Debug, Clone)]
pub(super) struct InjectedFault {
    /// Affected hosts, and measurements of the fault.
    pub(super) text: String,
    /// Start of the fault.
    pub(super) from_us: u64,
}

impl InjectedFault {
    fn new(from_us: u64, text: impl Into<String>) -> Self {
        Self { text: text.into(), from_us }
    }
}

/// Injects a fault. The inner error says why this machine cannot do it.
pub(super) async fn inject(
    cluster: &mut TestCluster,
    fault: Fault,
    rng: &mut SmallRng,
) -> Result<std::result::Result<InjectedFault, String>> {
    let from_us = now_us();
    if fault.is_slow_network()
        && let Some(why) = super::distant::missing_device()
    {
        return Ok(Err(why));
    }
    Ok(Ok(match fault {
        Fault::KillNode => process::kill_node(cluster, rng).await?,
        Fault::StopNode => process::stop_node(cluster, rng).await?,
        Fault::RollingRestart => process::rolling_restart(cluster).await?,
        Fault::KillMaster => process::kill_master(cluster, rng).await?,
        Fault::LoseMaster => loss::lose_master(cluster, rng).await?,
        Fault::RollBackMaster => loss::roll_back_master(cluster, rng).await?,
        Fault::CutFromStore => network::cut_from_store(cluster, rng).await?,
        Fault::CutFromReceivers => network::cut_from_receivers(cluster, rng).await?,
        Fault::SlowStore => distant::slow_store(cluster, rng).await?,
        Fault::SlowMaster => distant::slow_master(cluster, rng).await?,
        Fault::LossyNetwork => distant::lossy_network(cluster, rng).await?,
        Fault::IsolateMaster => network::isolate_master(cluster, rng).await?,
        Fault::IsolateMasterWithNode => network::isolate_master_with_node(cluster, rng).await?,
        Fault::WrongClock => match clock::library() {
            Some(library) => clock::wrong_clock(cluster, rng, &library).await?,
            None => return Ok(Err(clock::MISSING.to_owned())),
        },
        Fault::FullMemory => memory::fill_memory(cluster, rng).await?,
        Fault::FlushScripts => memory::flush_scripts(cluster, from_us).await?,
        Fault::MoveSlots => slots::move_slots(cluster, rng).await?,
    }))
}

/// Returns the number of a random node.
fn random_node(cluster: &TestCluster, rng: &mut SmallRng) -> usize {
    rng.random_range(0..cluster.nodes.len())
}

/// Returns the number of a random master.
fn random_master(cluster: &TestCluster, rng: &mut SmallRng) -> Result<usize> {
    let masters = cluster.redis.masters(None)?;
    Ok(masters[rng.random_range(0..masters.len())])
}

/// Waits until the replica has taken the place of the master, if it has a replica. Returns the time
/// this took, in words.
async fn await_promotion(
    cluster: &TestCluster,
    master: usize,
    replica: Option<usize>,
) -> Result<String> {
    let Some(replica) = replica else {
        return Ok(String::new());
    };
    let took = cluster.redis.wait_for_promotion(master, replica).await?;
    Ok(format!(", a replica took over in {took:.1?}"))
}

/// Waits until a replaced master is to come back.
async fn wait_for_return(cluster: &TestCluster, rng: &mut SmallRng, ms: std::ops::Range<u64>) {
    match cluster.master_away {
        Some(away) => tokio::time::sleep(away).await,
        None => wait_random(rng, ms).await,
    }
}

/// Waits for a random time.
async fn wait_random(rng: &mut SmallRng, ms: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(rng.random_range(ms))).await;
}
