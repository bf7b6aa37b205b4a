//! Fault: a node with a wrong wall clock, by `libfaketime`. Its monotonic clock is right.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rand::Rng;

use super::{InjectedFault, TestCluster, sleep};
use crate::clock::now_us;

/// Reason why this machine cannot do it.
pub(super) const MISSING: &str = "there is no libfaketime.so.1 (Debian: `faketime`)";

/// Shifts of the clock.
const SHIFTS: [&str; 4] = ["+5s", "-5s", "+1h", "-1h"];

/// Duration of the fault, in milliseconds.
const WRONG_MS: std::ops::Range<u64> = 4_000..6_000;

/// Returns the path of the library, below the folder of an architecture.
pub(super) fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?;
    let mut paths =
        folders.filter_map(|folder| Some(folder.ok()?.path().join("faketime/libfaketime.so.1")));
    paths.find(|path| path.exists())
}

pub(super) async fn wrong_clock(
    cluster: &mut TestCluster,
    library: &Path,
) -> Result<InjectedFault> {
    let shift = SHIFTS[cluster.rng.random_range(0..SHIFTS.len())];
    let duration = cluster.random_duration(WRONG_MS);
    let node = cluster.random_node();
    let library = library.to_str().context("the path of the library is text")?;
    let from_us = now_us();
    node.stop().await?;
    let wrong = [
        ("LD_PRELOAD", library),
        ("FAKETIME", shift),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("DONT_FAKE_MONOTONIC", "1"),
    ];
    node.start_with(&wrong).await?;
    sleep(duration).await;
    node.stop().await?;
    node.start().await?;
    Ok(InjectedFault { from_us, text: format!("{} by {shift}", node.host.name) })
}
