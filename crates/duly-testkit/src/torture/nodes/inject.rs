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
use tokio::time::sleep;

use super::cluster::TestCluster;
use super::fault::Fault;
use super::network::{Host, HostLink};
use crate::clock::now_us;

/// Result of a fault.
#[derive(Debug, Clone)]
pub(super) struct InjectedFault {
    /// Affected hosts, and measurements of the fault.
    pub(super) text: String,
    /// Start of the fault.
    pub(super) from_us: u64,
}

/// Injects a fault. The inner error says why this machine cannot do it.
pub(super) async fn inject(
    cluster: &mut TestCluster,
    fault: Fault,
) -> Result<std::result::Result<InjectedFault, String>> {
    if fault.is_slow_network()
        && let Some(why) = super::distant::missing_device()
    {
        return Ok(Err(why));
    }
    Ok(Ok(match fault {
        Fault::KillNode => process::kill_node(cluster).await?,
        Fault::StopNode => process::stop_node(cluster).await?,
        Fault::RollingRestart => process::rolling_restart(cluster).await?,
        Fault::KillMaster => process::kill_master(cluster).await?,
        Fault::LoseMaster => loss::lose_master(cluster).await?,
        Fault::RollBackMaster => loss::roll_back_master(cluster).await?,
        Fault::CutFromStore => network::cut(cluster, HostLink::Store).await?,
        Fault::CutFromReceivers => network::cut(cluster, HostLink::Web).await?,
        Fault::SlowStore => distant::slow_store(cluster).await?,
        Fault::SlowMaster => distant::slow_master(cluster).await?,
        Fault::LossyNetwork => distant::lossy_network(cluster).await?,
        Fault::IsolateMaster => network::isolate_master(cluster, false).await?,
        Fault::IsolateMasterWithNode => network::isolate_master(cluster, true).await?,
        Fault::WrongClock => match clock::library() {
            Some(library) => clock::wrong_clock(cluster, &library).await?,
            None => return Ok(Err(clock::MISSING.to_owned())),
        },
        Fault::FullMemory => memory::fill_memory(cluster).await?,
        Fault::FlushScripts => memory::flush_scripts(cluster).await?,
        Fault::MoveSlots => slots::move_slots(cluster).await?,
    }))
}

fn elapsed(from_us: u64) -> Duration {
    Duration::from_micros(now_us() - from_us)
}

fn names(hosts: &[Host]) -> String {
    hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(" and ")
}

/// Waits until a replica has taken the place of the master, if it has a replica, and then until the
/// master is to come back. Returns the time until the promotion, in words.
async fn wait_for_failover(
    cluster: &mut TestCluster,
    master: usize,
    replica: Option<usize>,
    away: Duration,
) -> Result<String> {
    let promoted = match replica {
        Some(replica) => {
            let took = cluster.redis.wait_for_promotion(master, replica).await?;
            format!(", a replica took over in {took:.1?}")
        }
        None => String::new(),
    };
    sleep(cluster.master_away.unwrap_or(away)).await;
    Ok(promoted)
}
