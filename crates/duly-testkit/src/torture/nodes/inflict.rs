//! Faults done to a [`Stage`]: each is put right again before it is left.

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

/// What came of a fault.
#[derive(Debug, Clone)]
pub(super) struct Done {
    /// To whom it was done, and what was measured meanwhile.
    pub(super) text: String,
    /// When it began.
    pub(super) from_us: u64,
}

impl Done {
    fn since(from_us: u64, text: impl Into<String>) -> Self {
        Self { text: text.into(), from_us }
    }
}

/// Does it. An answer without a text could not be done here, and says why.
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

/// The number of some node.
fn some_node(stage: &Stage, rng: &mut SmallRng) -> usize {
    rng.random_range(0..stage.nodes.len())
}

/// The number of some master.
fn some_master(stage: &Stage, rng: &mut SmallRng) -> Result<usize> {
    let masters = stage.redis.masters(None)?;
    Ok(masters[rng.random_range(0..masters.len())])
}

/// Waits until the replica has taken the place of a master, where it has one; answers how long that took, in
/// words.
async fn promotion(stage: &Stage, master: usize, replica: Option<usize>) -> Result<String> {
    let Some(replica) = replica else {
        return Ok(String::new());
    };
    let took = stage.redis.wait_for_promotion(master, replica).await?;
    Ok(format!(", a replica took over in {took:.1?}"))
}

/// Lasts until a master that was replaced comes back.
async fn stay_away(stage: &Stage, rng: &mut SmallRng, ms: std::ops::Range<u64>) {
    match stage.master_away {
        Some(away) => tokio::time::sleep(away).await,
        None => last(rng, ms).await,
    }
}

/// Lasts a random time.
async fn last(rng: &mut SmallRng, ms: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_millis(rng.random_range(ms))).await;
}
