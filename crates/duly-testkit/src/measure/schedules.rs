//! Durable single schedule calls over HTTP in a closed loop.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{PAYLOAD, Table, must, start, usage};
use crate::api;
use crate::checker::Percentiles;
use crate::clock::now_ms;
use crate::process::Options;
use crate::wire::{Connection, request};

/// Runs one round on a fresh server.
pub(super) async fn round(
    options: &Options,
    connections: u32,
    seconds: u32,
    table: &mut Table,
) -> Result<()> {
    let mut server = start(options).await?;
    let address = server.address();
    let due_ms = now_ms() + 30 * 86_400_000;
    // Without an id every request creates a new timer, so the bytes of the request never change.
    let body = format!(r#"{{"due_at":{due_ms},"payload_text":"{PAYLOAD}"}}"#);
    let bytes = request(address, "POST", &api::path("measured", "/timers"), body.as_bytes());
    usage::forget_peak(server.pid());
    let before = usage::resident_bytes(server.pid())?;
    let end = Instant::now() + Duration::from_secs(u64::from(seconds));
    let began = Instant::now();
    let callers: Vec<_> = (0..connections)
        .map(|_| {
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut connection = Connection::new(address);
                let mut took_us = Vec::new();
                while Instant::now() < end {
                    let one = Instant::now();
                    let response = connection.exchange(&bytes).await?;
                    ensure!(response.status == 201, "answered {}", response.status);
                    took_us.push(u64::try_from(one.elapsed().as_micros())?);
                }
                Ok(took_us)
            })
        })
        .collect();
    let mut took_us = Vec::new();
    for caller in callers {
        took_us.extend(caller.await??);
    }
    let lasted = began.elapsed().as_secs_f64();
    let percentiles = Percentiles::of(took_us);
    let stats = must(&mut Connection::new(address), "GET", "/stats", &().into()).await?;
    ensure!(
        stats["pending"] == percentiles.count,
        "{} were acknowledged, stats say {}",
        percentiles.count,
        stats["pending"]
    );
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    let per_second = percentiles.count as f64 / lasted;
    table.add("durable schedules", "/s", per_second);
    usage::add_memory(table, "", before, server.pid())?;
    table.add("answer time, p50", "ms", super::floor::ms(percentiles.p50_us));
    table.add("answer time, p99", "ms", super::floor::ms(percentiles.p99_us));
    table.add("answer time, max", "ms", super::floor::ms(percentiles.max_us));
    server.kill()?;
    Ok(())
}
