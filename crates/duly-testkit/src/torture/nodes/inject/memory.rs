//! Faults of the memory of Redis servers: it is full, or scripts are lost.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{InjectedFault, TestCluster, elapsed, sleep};
use crate::clock::now_us;

/// Time for which the memory is full, in milliseconds.
const FULL_MS: std::ops::Range<u64> = 2_000..4_000;

/// Number of script flushes, and the time between them.
const FLUSHES: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(200);

pub(super) async fn fill_memory(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let duration = cluster.random_duration(FULL_MS);
    let master = cluster.random_master()?;
    let peer = &cluster.redis.peers[master];
    let info = peer.command("INFO memory")?;
    let used = info.lines().find_map(|line| line.trim().strip_prefix("used_memory:"));
    let used: u64 = used.context("a server reports its memory")?.parse()?;
    let from_us = now_us();
    peer.command_ok(&format!("CONFIG SET maxmemory {}", used / 2))?;
    sleep(duration).await;
    peer.command_ok("CONFIG SET maxmemory 0")?;
    let text = format!("{} for {:.1?}", peer.host.name, elapsed(from_us));
    Ok(InjectedFault { from_us, text })
}

pub(super) async fn flush_scripts(cluster: &TestCluster) -> Result<InjectedFault> {
    let from_us = now_us();
    for _ in 0..FLUSHES {
        for peer in &cluster.redis.peers {
            peer.command_ok("SCRIPT FLUSH")?;
        }
        sleep(BETWEEN).await;
    }
    Ok(InjectedFault { from_us, text: format!("all servers, {FLUSHES} times") })
}
