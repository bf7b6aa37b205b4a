//! Faults of the memory of Redis servers: it is full, or scripts are lost.

use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::SmallRng;

use super::{InjectedFault, TestCluster, random_master, wait_random};
use crate::clock::now_us;

/// Time for which the memory is full, in milliseconds.
const FULL_MS: std::ops::Range<u64> = 2_000..4_000;

/// Number of script flushes, and the time between them.
const FLUSHES: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(200);

pub(super) async fn fill_memory(
    cluster: &mut TestCluster,
    rng: &mut SmallRng,
) -> Result<InjectedFault> {
    let peer = &cluster.redis.peers[random_master(cluster, rng)?];
    let info = peer.command("INFO memory")?;
    let used = info.lines().find_map(|line| line.trim().strip_prefix("used_memory:"));
    let used: u64 = used.context("a server says its memory")?.parse()?;
    let from_us = now_us();
    peer.command_ok(&format!("CONFIG SET maxmemory {}", used / 2))?;
    wait_random(rng, FULL_MS).await;
    peer.command_ok("CONFIG SET maxmemory 0")?;
    let duration = Duration::from_micros(now_us() - from_us);
    Ok(InjectedFault::new(from_us, format!("{} for {duration:.1?}", peer.host.name)))
}

pub(super) async fn flush_scripts(cluster: &TestCluster, from_us: u64) -> Result<InjectedFault> {
    for _ in 0..FLUSHES {
        for peer in &cluster.redis.peers {
            peer.command_ok("SCRIPT FLUSH")?;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(InjectedFault::new(from_us, format!("all servers, {FLUSHES} times")))
}
