//! Hot second: many timers due at one instant, leased in batches or delivered as webhooks.
//!
//! Seconds count from the due time until the last timer is received, and until the server has
//! reported the last acknowledgement. Each timer must arrive exactly once and none early. The
//! memory of the server is watched from shortly before the due time.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, value_parser};
use duly_load::receiver::Receiver;
use serde_json::{Value, json};

use super::arrivals::Arrivals;
use super::consumer::{self, Manner};
use super::plain::{self, Exchange};
use super::progress::part;
use super::usage::{self, MIB};
use super::watch::{self, Watch, no_progress};
use super::{Kind, Table, load, must, start};
use crate::clock::{now_ms, seconds_since};
use crate::process::{Options as ServerOptions, Server};
use crate::wire::Connection;

/// The namespace.
const NAMESPACE: &str = "measured";
/// Time before the due time at which consumers start to wait and the memory is watched.
const BEFORE: Duration = Duration::from_millis(300);
/// Longest wait of a lease call.
const WAIT_MS: u32 = 1_000;
/// Poll interval for the server's count of acknowledgements. It is long while many firings are in
/// flight.
const ASK_SELDOM: Duration = Duration::from_millis(250);
/// Poll interval when every timer has been received.
const ASK_OFTEN: Duration = Duration::from_millis(10);

/// Options of `hot-second`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Timers due at one instant.
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u32).range(1..=100_000_000))]
    pub timers: u32,
    /// Delivery method.
    #[arg(long, value_enum, default_value_t = Kind::Pull)]
    pub kind: Kind,
    /// Connections that lease and settle (pull).
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Most firings per lease call (pull).
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Deliveries in flight at once (webhook).
    #[arg(long, default_value_t = 100, value_parser = value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    /// Seconds from the first schedule call to the due time. Default: 5, and one for each 70,000
    /// timers.
    #[arg(long, value_name = "SECONDS")]
    pub lead: Option<u32>,
    /// Writes the received, acknowledged and resident figures per tenth of a second to this file,
    /// as CSV; of the last round.
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
}

/// Runs one round on a fresh server.
pub(super) async fn round(
    server: &ServerOptions,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let mut server = start(server).await?;
    let (address, pid) = (server.address(), server.pid());
    let empty_bytes = usage::resident_bytes(pid)?;

    let timers = usize::try_from(options.timers)?;
    let lead_ms = load::lead_ms(timers, options.lead);
    let due_ms = now_ms() + lead_ms;
    let dues_ms = vec![due_ms; timers];
    let arrivals = Arc::new(Arrivals::of(&dues_ms));
    let receiver = match options.kind {
        Kind::Pull => None,
        Kind::Webhook => Some(Receiver::start(arrivals.hear())?),
    };
    let body = namespace(options, receiver.as_ref());
    must(&mut Connection::new(address), "PUT", "", &body).await?;
    part("scheduling");
    load::fill(address, NAMESPACE, dues_ms.into()).await?;
    load::ensure_still_ahead(due_ms, lead_ms)?;

    wait_until(due_ms, BEFORE).await;
    let before_bytes = usage::resident_bytes(pid)?;
    usage::forget_peak(pid);
    let (cpu, own_cpu) = (usage::cpu(pid)?, usage::own_cpu()?);
    let watch = Watch::start(pid, Arc::clone(&arrivals), due_ms)?;
    let exchanges = deliver(options, &server, receiver.as_ref(), &arrivals).await?;
    let points = watch.stop()?;
    let cpu = usage::cpu(pid)?.saturating_sub(cpu);
    let own_cpu = usage::own_cpu()?.saturating_sub(own_cpu);
    let peak_bytes = usage::peak_bytes(pid)?;

    arrivals.verify()?;
    ensure_all_delivered(address, options.timers).await?;
    server.kill()?;
    drop(receiver);
    if let Some(path) = &options.series {
        watch::write_csv(path, &points)?;
    }

    report_times(&arrivals, due_ms, table);
    let each_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / f64::from(options.timers);
    table.add("CPU of the server, each", "µs", each_us(cpu));
    table.add("CPU of the load generator, each", "µs", each_us(own_cpu));
    report_memory(empty_bytes, before_bytes, peak_bytes, table);
    let (times, connections) = match options.kind {
        Kind::Pull => (options.timers.div_ceil(options.batch), options.connections),
        Kind::Webhook => (options.timers, options.in_flight),
    };
    let floor_s =
        plain::seconds(exchanges, usize::try_from(times)?, usize::try_from(connections)?).await?;
    table.add("floor: the same bytes over plain sockets", "s", floor_s);
    Ok(())
}

fn namespace(options: &Options, receiver: Option<&Receiver>) -> Value {
    match receiver {
        None => json!({ "destination": { "pull": {} } }),
        Some(receiver) => json!({
            "destination": { "http": { "url": receiver.url() } },
            "limits": {"lane": {"max_in_flight": options.in_flight}},
        }),
    }
}

/// Waits until every timer is received and acknowledged. Returns the exchanges, for the baseline.
async fn deliver(
    options: &Options,
    server: &Server,
    receiver: Option<&Receiver>,
    arrivals: &Arc<Arrivals>,
) -> Result<Vec<Exchange>> {
    let work = async {
        if let Some(receiver) = receiver {
            confirmed(server, NAMESPACE, arrivals).await?;
            return Ok(Exchange::of_delivery(receiver.delivery_bytes()));
        }
        let manner = Manner { max: usize::try_from(options.batch)?, wait_ms: WAIT_MS };
        let connections = usize::try_from(options.connections)?;
        let taken =
            consumer::take_all(server.address(), NAMESPACE, connections, manner, arrivals).await?;
        Ok(Exchange::of_consumer(taken))
    };
    tokio::select! {
        result = work => result,
        error = no_progress(arrivals) => Err(error),
    }
}

/// Polls the server's count of delivered timers until it is complete.
pub(super) async fn confirmed(server: &Server, namespace: &str, arrivals: &Arrivals) -> Result<()> {
    let mut connection = Connection::new(server.address());
    while !arrivals.all_acknowledged() {
        tokio::time::sleep(if arrivals.all_out() { ASK_OFTEN } else { ASK_SELDOM }).await;
        let stats = super::must_in(&mut connection, namespace, "GET", "/stats", &().into()).await?;
        let delivered = stats["totals"]["delivered"].as_u64().unwrap_or(0);
        let new = usize::try_from(delivered)?.saturating_sub(arrivals.acknowledged());
        if new > 0 {
            arrivals.note_acknowledged(new);
        }
    }
    Ok(())
}

/// Waits until `before` before the due time.
pub(super) async fn wait_until(due_ms: u64, before: Duration) {
    let until = Duration::from_millis(due_ms.saturating_sub(now_ms())).saturating_sub(before);
    tokio::time::sleep(until).await;
}

/// Returns an error unless the server's counts match those of the receivers.
pub(super) async fn ensure_all_delivered(address: SocketAddr, timers: u32) -> Result<()> {
    let stats = must(&mut Connection::new(address), "GET", "/stats", &().into()).await?;
    ensure!(
        stats["totals"]["delivered"] == timers && stats["pending"] == 0 && stats["dead"] == 0,
        "{timers} came and were acknowledged, but stats say {stats}"
    );
    Ok(())
}

/// Adds the times until a part of the timers, and all of them, were received and acknowledged.
fn report_times(arrivals: &Arrivals, due_ms: u64, table: &mut Table) {
    let mut times_us = arrivals.times_us();
    times_us.sort_unstable();
    let first_s = seconds_since(due_ms, at_share(&times_us, 0));
    table.add("first out", "ms", first_s * 1_000.0);
    for (name, thousandths) in [("10 % out", 100), ("50 % out", 500), ("90 % out", 900)] {
        let at_us = at_share(&times_us, thousandths);
        table.add(name, "s", seconds_since(due_ms, at_us));
    }
    let out_s = seconds_since(due_ms, arrivals.last_out_us());
    let acknowledged_s = seconds_since(due_ms, arrivals.last_acknowledged_us());
    table.add("all out", "s", out_s);
    table.add("all acknowledged", "s", acknowledged_s);
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    let timers = times_us.len() as f64;
    table.add("out per second", "/s", timers / out_s);
    table.add("acknowledged per second", "/s", timers / acknowledged_s);
}

/// Returns the smallest value that covers this many thousandths of the sorted values; the first for
/// 0.
fn at_share(sorted: &[u64], thousandths: usize) -> u64 {
    let place = (sorted.len() * thousandths).div_ceil(1_000).saturating_sub(1);
    sorted.get(place).copied().unwrap_or(0)
}

/// Adds the memory of the server, and its growth.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn report_memory(empty: u64, before: u64, peak: u64, table: &mut Table) {
    table.add("resident, server without timers", "MiB", empty as f64 / MIB);
    table.add("resident, just before they are due", "MiB", before as f64 / MIB);
    table.add("resident, peak from then on", "MiB", peak as f64 / MIB);
    table.add("peak above just before", "MiB", peak.saturating_sub(before) as f64 / MIB);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_sorted_times() {
        let sorted: Vec<u64> = (1..=10).collect();
        for (thousandths, value) in
            [(0, 1), (1, 1), (100, 1), (101, 2), (500, 5), (900, 9), (1_000, 10)]
        {
            assert_eq!(at_share(&sorted, thousandths), value, "{thousandths}");
        }
        assert_eq!(at_share(&[], 500), 0);
    }
}
