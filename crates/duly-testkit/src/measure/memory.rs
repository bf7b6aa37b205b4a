//! Memory and disk of pending timers, and the time to start again with them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{PAYLOAD, Table, must, schedule_all, start, usage};
use crate::clock::now_ms;
use crate::process::{Options, Server};
use crate::wire::Connection;

/// Callers that fill the server.
const FILLERS: u64 = 4;

/// Calls while the allocator settles.
const SETTLE_CALLS: u32 = 30;
/// Time between these calls.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// Runs one round on a fresh server.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) async fn round(options: &Options, pending: u32, table: &mut Table) -> Result<()> {
    let mut server = start(options).await?;
    let address = server.address();
    let before = usage::resident_bytes(server.pid())?;
    let first_ms = now_ms() + 86_400_000;
    let began = Instant::now();
    let fillers: Vec<_> = (0..FILLERS)
        .map(|filler| {
            tokio::spawn(async move {
                // Spread over thirty days, and the due times of each filler mixed with those of the
                // others.
                let dues_ms: Vec<u64> = (0..u64::from(pending))
                    .filter(|n| n % FILLERS == filler)
                    .map(|n| first_ms + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 2_592_000_000)
                    .collect();
                schedule_all(&mut Connection::new(address), &dues_ms).await
            })
        })
        .collect();
    for filler in fillers {
        filler.await??;
    }
    let filled_s = began.elapsed().as_secs_f64();
    let after = usage::resident_bytes(server.pid())?;
    let settled = settled_bytes(&server).await?;
    let disk = options.data.as_deref().map_or(Ok(0), disk_bytes)?;
    server.kill()?;
    drop(server);

    let began = Instant::now();
    let mut server = start(options).await?;
    let restart_s = began.elapsed().as_secs_f64();
    let reopened = settled_bytes(&server).await?;
    let stats = must(&mut Connection::new(server.address()), "GET", "/stats", &().into()).await?;
    ensure!(
        stats["pending"] == pending,
        "{pending} were acknowledged, {} are there after kill -9",
        stats["pending"]
    );
    server.kill()?;

    let each = |bytes: u64| bytes as f64 / f64::from(pending);
    table.add("schedules in batches of 1000, 4 connections", "/s", f64::from(pending) / filled_s);
    table.add("resident before", "MiB", before as f64 / 1_048_576.0);
    table.add("resident after", "MiB", after as f64 / 1_048_576.0);
    table.add("resident per pending timer, just after", "B", each(after.saturating_sub(before)));
    table.add("resident per pending timer", "B", each(settled.saturating_sub(before)));
    table.add("the same after a restart", "B", each(reopened.saturating_sub(before)));
    table.add("disk per pending timer", "B", each(disk));
    table.add("payload per timer", "B", PAYLOAD.len() as f64);
    table.add("kill -9 to ready", "s", restart_s);
    Ok(())
}

/// Returns the resident bytes after the allocator has returned its short-lived memory. It does so
/// only when it is used, so this function makes a few calls meanwhile.
async fn settled_bytes(server: &Server) -> Result<u64> {
    let mut connection = Connection::new(server.address());
    for _ in 0..SETTLE_CALLS {
        must(&mut connection, "GET", "/stats", &().into()).await?;
        tokio::time::sleep(SETTLE_PAUSE).await;
    }
    usage::resident_bytes(server.pid())
}

/// Returns the bytes of the blocks that all files below a folder use.
fn disk_bytes(dir: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}
