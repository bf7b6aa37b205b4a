//! Many waiting lease calls: their memory in the server, and the lateness of the call that gets a
//! firing.
//!
//! Each caller leases, acknowledges its firing and calls again, so the number of waiting calls
//! stays the same. The server's own gauge shows that all of them wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, value_parser};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::consumer::{Consumer, Manner};
use super::progress::{Progress, part};
use super::usage::{self, MIB};
use super::watch::no_progress;
use super::{PATIENCE, Table, floor, load, must_in, start};
use crate::checker::Percentiles;
use crate::clock::now_ms;
use crate::process::{Options as ServerOptions, Server, settings};
use crate::wire::Connection;

/// The server's limits on connections and waiting calls, set so high that they do not matter.
const SETTINGS: &[(&str, &str)] =
    &[("DULY_SERVER__CONNECTIONS_MAX", "1000000"), ("DULY_DELIVERY__PULL_WAITERS_MAX", "750000")];
/// The server's gauge of waiting calls.
const GAUGE: &str = "duly_lease_waiters";
/// Longest wait of a call in milliseconds: the longest that the server allows.
const WAIT_MS: u32 = 60_000;
/// Time before its due time at which the first timer is scheduled, in milliseconds.
const LEAD_MS: u64 = 3_000;
/// Time between two polls.
const LOOK: Duration = Duration::from_millis(20);

/// Options of `waiters`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Waiting lease calls, each on its own connection.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=1_000_000))]
    pub waiting: u32,
    /// Namespaces over which the calls are spread.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=100_000))]
    pub namespaces: u32,
    /// Firings per second, over all namespaces.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=100_000))]
    pub rate: u32,
    /// Seconds of firings.
    #[arg(long, default_value_t = 15, value_parser = value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
}

/// Runs one round on a fresh server.
pub(super) async fn round(
    server: &ServerOptions,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let mut server =
        start(&ServerOptions { settings: settings(SETTINGS), ..server.clone() }).await?;
    let pid = server.pid();
    let (address, namespaces) = (server.address(), usize::try_from(options.namespaces)?);
    make(&server, namespaces).await?;
    let before_bytes = usage::resident_bytes(pid)?;

    let count = usize::try_from(options.rate * options.seconds)?;
    let arrivals = Arc::new(Arrivals::expecting(count));
    part("beginning to wait");
    let mut waiting = JoinSet::new();
    for place in 0..usize::try_from(options.waiting)? {
        let manner = Manner { max: 1, wait_ms: WAIT_MS };
        let mut consumer = Consumer::new(address, &name(place % namespaces), manner);
        consumer.open().await.context("cannot open all connections; see `ulimit -n`")?;
        let arrivals = Arc::clone(&arrivals);
        waiting.spawn(async move {
            loop {
                if let Err(error) = consumer.take(&arrivals).await {
                    return error;
                }
            }
        });
    }
    all_wait(&server, options.waiting, &mut waiting).await?;
    let waiting_bytes = usage::resident_bytes(pid)?;

    part("firing");
    usage::forget_peak(pid);
    let cpu = usage::cpu(pid)?;
    fire(&server, options, &arrivals).await?;
    let done = async {
        let progress = Progress::new("out", count);
        while !(arrivals.all_out() && arrivals.all_acknowledged()) {
            progress.at(arrivals.out());
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = done => {}
        Some(ended) = waiting.join_next() => return Err(ended?),
        error = no_progress(&arrivals) => return Err(error),
    }
    let cpu = usage::cpu(pid)?.saturating_sub(cpu);
    arrivals.verify()?;
    all_wait(&server, options.waiting, &mut waiting).await?;
    let peak_bytes = usage::peak_bytes(pid)?;
    waiting.shutdown().await;
    server.kill()?;

    let late = Percentiles::of(arrivals.lateness_us(0..count).into_iter().map(|(_, late)| late));
    for (name, value_us) in
        [("p50", late.p50_us), ("p99", late.p99_us), ("p99.9", late.p999_us), ("max", late.max_us)]
    {
        table.add(
            &format!("lateness of a waiter that is woken, {name}"),
            "ms",
            floor::ms(value_us),
        );
    }
    report_memory(options, before_bytes, waiting_bytes, peak_bytes, table);
    table.add("CPU of the server while firing", "s", cpu.as_secs_f64());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn report_memory(options: &Options, before: u64, waiting: u64, peak: u64, table: &mut Table) {
    let added = waiting.saturating_sub(before) as f64;
    table.add("resident, nobody waits", "MiB", before as f64 / MIB);
    table.add("resident, all wait", "MiB", waiting as f64 / MIB);
    table.add("resident, peak while firing", "MiB", peak as f64 / MIB);
    table.add("resident for each that waits", "KiB", added / 1_024.0 / f64::from(options.waiting));
}

async fn make(server: &Server, namespaces: usize) -> Result<()> {
    let mut connection = Connection::new(server.address());
    for place in 0..namespaces {
        must_in(&mut connection, &name(place), "PUT", "", &json!({})).await?;
    }
    Ok(())
}

fn name(place: usize) -> String {
    format!("w{place}")
}

/// Waits until `wanted` lease calls wait.
///
/// Short calls can leave the gauge a little behind. So this function makes one more short lease
/// call per poll, which makes the server count again.
async fn all_wait(
    server: &Server,
    wanted: u32,
    callers: &mut JoinSet<anyhow::Error>,
) -> Result<()> {
    let began = Instant::now();
    let mut connection = Connection::new(server.address());
    loop {
        if let Some(ended) = callers.try_join_next() {
            return Err(ended?);
        }
        let body = json!({ "wait": "1ms" });
        let leased = must_in(&mut connection, &name(0), "POST", "/lease", &body).await?;
        ensure!(leased["firings"] == json!([]), "nothing should be due, but there is {leased}");
        let response = connection.call("GET", "/metrics", b"", PATIENCE).await?;
        ensure!(response.is_success(), "/metrics was answered {}", response.status);
        let waiting = gauge(&String::from_utf8_lossy(&response.body), GAUGE);
        if waiting == Some(f64::from(wanted)) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!("{wanted} lease calls should wait; the server says {waiting:?}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Returns the sum of a gauge in the text format of Prometheus.
fn gauge(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([' ', '{']).then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    values.reduce(|sum, value| sum + value)
}

/// Schedules all timers, one namespace after the other. Their due times are random, evenly spread
/// over the seconds.
async fn fire(server: &Server, options: &Options, arrivals: &Arrivals) -> Result<()> {
    let span_ms = u64::from(options.seconds) * 1_000;
    let namespaces = usize::try_from(options.namespaces)?;
    let count = arrivals.expected();
    // Each namespace needs its own call.
    let lead_ms = LEAD_MS + u64::from(options.namespaces);
    let first_ms = now_ms() + lead_ms;
    let mut rng = SmallRng::seed_from_u64(1);
    let dues_ms: Vec<u64> = (0..count).map(|_| first_ms + rng.random_range(0..span_ms)).collect();
    arrivals.set_dues(0, &dues_ms);
    let mut connection = Connection::new(server.address());
    for place in 0..namespaces {
        // The namespaces share the timers as evenly as possible.
        let (from, to) = (count * place / namespaces, count * (place + 1) / namespaces);
        for from in (from..to).step_by(load::BATCH) {
            let numbers = from..to.min(from + load::BATCH);
            let dues_ms = &dues_ms[numbers.clone()];
            load::batch(&mut connection, &name(place), numbers, dues_ms).await?;
        }
    }
    load::ensure_still_ahead(first_ms, lead_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_found_among_metrics() {
        let text = "# TYPE duly_lease_waiters gauge\nduly_lease_waiters 12\n\
                    duly_lease_waiters_other 5\nduly_x{a=\"b c\"} 1\nduly_x{a=\"d\"} 2\n";
        assert_eq!(gauge(text, "duly_lease_waiters"), Some(12.0));
        assert_eq!(gauge(text, "duly_x"), Some(3.0));
        assert_eq!(gauge(text, "duly_y"), None);
    }
}
