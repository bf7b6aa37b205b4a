//! Faults of the memory of Redis servers: it is full, or scripts are lost.

use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::SmallRng;

use super::{Done, Stage, last, some_master};
use crate::clock::now_us;

/// Time for which the memory is full, in milliseconds.
const FULL_MS: std::ops::Range<u64> = 2_000..4_000;

/// Number of script flushes, and the time between them.
const FLUSHES: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(200);

pub(super) async fn full(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let peer = &stage.redis.peers[some_master(stage, rng)?];
    let info = peer.tell("INFO memory")?;
    let used = info.lines().find_map(|line| line.trim().strip_prefix("used_memory:"));
    let used: u64 = used.context("a server says its memory")?.parse()?;
    let from_us = now_us();
    peer.order(&format!("CONFIG SET maxmemory {}", used / 2))?;
    last(rng, FULL_MS).await;
    peer.order("CONFIG SET maxmemory 0")?;
    let full = Duration::from_micros(now_us() - from_us);
    Ok(Done::since(from_us, format!("{} for {full:.1?}", peer.host.name)))
}

pub(super) async fn flush_scripts(stage: &Stage, from_us: u64) -> Result<Done> {
    for _ in 0..FLUSHES {
        for peer in &stage.redis.peers {
            peer.order("SCRIPT FLUSH")?;
        }
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(Done::since(from_us, format!("all servers, {FLUSHES} times")))
}
