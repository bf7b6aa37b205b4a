//! Injection of faults into a [`Stage`]: each fault is repaired before its function returns.

mod clock;
mod far;
mod loss;
mod memory;
mod network;
mod process;
mod slots;

use std::time::Duration;

use anyhow::Result;
use rand::Rng;
use rand::rngs::SmallRng;

use super::fault::Fault;
use super::stage::Stage;
use crate::clock::now_us;

/// Result of a fault.
#[derive(Debug, Clone)]
pub(super) struct Done {
    /// Affected hosts, and measurements of the fault.
    pub(super) text: String,
    /// Start of the fault.
    pub(super) from_us: u64,
}

impl Done {
    fn since(from_us: u64, text: impl Into<String>) -> Self {
        Self { text: text.into(), from_us }
    }
}

/// Injects a fault. The inner error says why this machine cannot do it.
pub(super) async fn inflict(
    stage: &mut Stage,
    fault: Fault,
    rng: &mut SmallRng,
) -> Result<std::result::Result<Done, String>> {
    let from_us = now_us();
    if fault.slows()
        && let Some(why) = super::far::missing()
    {
        return Ok(Err(why));
    }
    Ok(Ok(match fault {
        Fault::KillNode => process::kill_node(stage, rng).await?,
        Fault::StopNode => process::stop_node(stage, rng).await?,
        Fault::RollingRestart => process::rolling_restart(stage).await?,
        Fault::KillMaster => process::kill_master(stage, rng).await?,
        Fault::LoseMaster => loss::lose_master(stage, rng).await?,
        Fault::RollBackMaster => loss::roll_back_master(stage, rng).await?,
        Fault::CutFromStore => network::cut_from_store(stage, rng).await?,
        Fault::CutFromReceivers => network::cut_from_receivers(stage, rng).await?,
        Fault::SlowStore => far::slow_store(stage, rng).await?,
        Fault::SlowMaster => far::slow_master(stage, rng).await?,
        Fault::LossyNetwork => far::lossy_network(stage, rng).await?,
        Fault::IsolateMaster => network::isolate_master(stage, rng).await?,
        Fault::IsolateMasterWithNode => network::isolate_master_with_node(stage, rng).await?,
        Fault::WrongClock => match clock::library() {
            Some(library) => clock::wrong_clock(stage, rng, &library).await?,
            None => return Ok(Err(clock::MISSING.to_owned())),
        },
        Fault::FullMemory => memory::full(stage, rng).await?,
        Fault::FlushScripts => memory::flush_scripts(stage, from_us).await?,
        Fault::MoveSlots => slots::move_some(stage, rng).await?,
    }))
}

/// Returns the number of a random node.
fn some_node(stage: &Stage, rng: &mut SmallRng) -> usize {
    rng.random_range(0..stage.nodes.len())
}

/// Returns the number of a random master.
fn some_master(stage: &Stage, rng: &mut SmallRng) -> Result<usize> {
    let masters = stage.redis.masters(None)?;
    Ok(masters[rng.random_range(0..masters.len())])
}

/// Waits until the replica has taken the place of the master, if it has a replica. Returns the time
/// this took, in words.
async fn promotion(stage: &Stage, master: usize, replica: Option<usize>) -> Result<String> {
    let Some(replica) = replica else {
        return Ok(String::new());
    };
    let took = stage.redis.wait_for_promotion(master, replica).await?;
    Ok(format!(", a replica took over in {took:.1?}"))
}

/// Waits until a replaced master is to come back.
async fn stay_away(stage: &Stage, rng: &mut SmallRng, ms: std::ops::Range<u64>) {
    match stage.master_away {
        Some(away) => tokio::time::sleep(away).await,
        None => last(rng, ms).await,
    }
}

/// Waits for a random time.
async fn last(rng: &mut SmallRng, ms: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(rng.random_range(ms))).await;
}
