//! Leasing of a backlog: timers that are due already are leased and acknowledged in batches.

use std::sync::Arc;

use anyhow::Result;
use clap::{Args, value_parser};

use super::arrivals::Arrivals;
use super::consumer::{self, Manner};
use super::hot_second::ensure_all_delivered;
use super::plain::{self, Exchange};
use super::progress::part;
use super::watch::{Watch, no_progress};
use super::{Table, load, start, usage};
use crate::clock::{now_ms, seconds_since};
use crate::process::Options as ServerOptions;

/// Range of the due times before the time of scheduling, in milliseconds.
const SPAN_MS: u64 = 3_600_000;

/// Options of `pull`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Number of timers.
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u32).range(1..=100_000_000))]
    pub timers: u32,
    /// Connections that lease and settle.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Most firings per lease call.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
}

/// Runs one round on a fresh server.
pub(super) async fn round(
    server: &ServerOptions,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let mut server = start(server).await?;
    let (address, pid) = (server.address(), server.pid());
    let timers = usize::try_from(options.timers)?;
    let first_ms = now_ms() - SPAN_MS;
    let dues_ms: Vec<u64> = (0..u64::from(options.timers))
        .map(|number| first_ms + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % SPAN_MS)
        .collect();
    let arrivals = Arc::new(Arrivals::of(&dues_ms));
    part("scheduling");
    load::fill(address, "measured", dues_ms.into()).await?;

    part("leasing");
    usage::forget_peak(pid);
    let before_bytes = usage::resident_bytes(pid)?;
    let (cpu, own_cpu) = (usage::cpu(pid)?, usage::own_cpu()?);
    let began_ms = now_ms();
    let watch = Watch::start(pid, Arc::clone(&arrivals), began_ms)?;
    let manner = Manner { max: usize::try_from(options.batch)?, wait_ms: 0 };
    let connections = usize::try_from(options.connections)?;
    let exchanged = tokio::select! {
        result = consumer::take_all(address, "measured", connections, manner, &arrivals) => result?,
        error = no_progress(&arrivals) => return Err(error),
    };
    watch.stop()?;
    let cpu = usage::cpu(pid)?.saturating_sub(cpu);
    let own_cpu = usage::own_cpu()?.saturating_sub(own_cpu);
    let peak_bytes = usage::peak_bytes(pid)?;
    arrivals.verify()?;
    ensure_all_delivered(address, options.timers).await?;
    server.kill()?;

    let count = f64::from(options.timers);
    let acknowledged_s = seconds_since(began_ms, arrivals.last_acknowledged_us());
    table.add("leased and acknowledged", "/s", count / acknowledged_s);
    table.add("CPU of the server, each", "µs", cpu.as_secs_f64() * 1e6 / count);
    table.add("CPU of the load generator, each", "µs", own_cpu.as_secs_f64() * 1e6 / count);
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    for (name, bytes) in [("before", before_bytes), ("peak", peak_bytes)] {
        table.add(&format!("resident, {name}"), "MiB", bytes as f64 / usage::MIB);
    }
    let times = timers.div_ceil(usize::try_from(options.batch)?);
    let floor_s = plain::seconds(Exchange::of_consumer(exchanged), times, connections).await?;
    table.add("floor: the same bytes over plain sockets", "/s", count / floor_s);
    Ok(())
}
