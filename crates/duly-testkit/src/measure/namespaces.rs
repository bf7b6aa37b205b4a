//! Many namespaces with a few timers each, all due within one second.
//!
//! * With `webhook`, each namespace has its own lane to one local receiver, and the server
//!   determines the order. The fairness figures are about this order.
//! * With `pull`, a lease call is about one namespace. A few consumers go round the namespaces and
//!   lease and acknowledge the due firings of each. The consumers determine the order, and the
//!   figures show how fast the server handles two calls per namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use clap::{Args, value_parser};
use duly_load::{Fairness, receiver::Receiver};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::task::JoinSet;

use super::arrivals::Arrivals;
use super::consumer::{Consumer, Exchanged, Manner};
use super::hot_second::{report_memory, wait_until};
use super::plain::{self, Exchange};
use super::progress::part;
use super::usage;
use super::watch::{Watch, no_progress};
use super::{Kind, Table, load, must_in, start};
use crate::clock::{now_ms, seconds_since};
use crate::process::{Options as ServerOptions, Server};

/// Range of the due times, in milliseconds.
const SPAN_MS: u64 = 1_000;
/// Assumed namespaces created and filled per second, at least.
const LEAST_PER_SECOND: u64 = 5_000;
/// Callers that create and fill namespaces. A call is about one namespace, and this number of calls
/// can share a commit.
const CALLERS: usize = 64;
/// Time before the first due time at which the memory is watched.
const BEFORE: std::time::Duration = std::time::Duration::from_millis(300);

/// Connections of the baseline beside webhooks.
const FLOOR_CONNECTIONS: usize = 100;

/// Options of `namespaces`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Number of namespaces.
    #[arg(long, default_value_t = 100_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub namespaces: u32,
    /// Timers of each namespace.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=1_000))]
    pub each: u32,
    /// Delivery method.
    #[arg(long, value_enum, default_value_t = Kind::Webhook)]
    pub kind: Kind,
    /// Connections that lease and settle (pull).
    #[arg(long, default_value_t = 16, value_parser = value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Seconds from the first schedule call to the first due time. Default: 5, one for each 70,000
    /// timers, and one for each 5,000 namespaces.
    #[arg(long, value_name = "SECONDS")]
    pub lead: Option<u32>,
}

/// Runs one round on a fresh server.
pub(super) async fn round(
    server: &ServerOptions,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let mut server = start(server).await?;
    let pid = server.pid();
    let empty_bytes = usage::resident_bytes(pid)?;
    let (namespaces, each) = (usize::try_from(options.namespaces)?, usize::try_from(options.each)?);
    let timers = namespaces * each;
    let arrivals = Arc::new(Arrivals::expecting(timers));
    let receiver = match options.kind {
        Kind::Pull => None,
        Kind::Webhook => Some(Receiver::start(arrivals.hear())?),
    };
    if let Some(receiver) = &receiver {
        part("making the namespaces");
        make(&server, namespaces, receiver.url()).await?;
    }
    let lead_ms = load::lead_ms(timers, options.lead)
        + options.lead.map_or(u64::from(options.namespaces) * 1_000 / LEAST_PER_SECOND, |_| 0);
    let first_ms = now_ms() + lead_ms;
    let mut rng = SmallRng::seed_from_u64(1);
    let dues_ms: Arc<[u64]> =
        (0..timers).map(|_| first_ms + rng.random_range(0..SPAN_MS)).collect();
    arrivals.set_dues(0, &dues_ms);
    part("scheduling");
    fill(&server, namespaces, each, Arc::clone(&dues_ms)).await?;
    load::ensure_still_ahead(first_ms, lead_ms)?;

    wait_until(first_ms, BEFORE).await;
    let before_bytes = usage::resident_bytes(pid)?;
    usage::forget_peak(pid);
    let cpu = usage::cpu(pid)?;
    let watch = Watch::start(pid, Arc::clone(&arrivals), first_ms)?;
    let work = async {
        match &receiver {
            Some(receiver) => {
                arrived(&arrivals).await;
                Ok(Exchange::of_delivery(receiver.delivery_bytes()))
            }
            None => take_all(&server, options, first_ms, &arrivals).await,
        }
    };
    let exchanges = tokio::select! {
        result = work => result?,
        error = no_progress(&arrivals) => return Err(error),
    };
    watch.stop()?;
    let cpu = usage::cpu(pid)?.saturating_sub(cpu);
    let peak_bytes = usage::peak_bytes(pid)?;
    arrivals.verify()?;
    server.kill()?;
    drop(receiver);

    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    let count = timers as f64;
    let all_s = seconds_since(first_ms, arrivals.last_out_us());
    table.add("all out, from the beginning of the second", "s", all_s);
    table.add("out per second", "/s", count / all_s);
    let due_us: Vec<u64> = dues_ms.iter().map(|due_ms| due_ms * 1_000).collect();
    let ideal = Fairness::of(&due_us, each, first_ms);
    Fairness::of(&arrivals.times_us(), each, first_ms).add_into(&ideal, table);
    table.add("CPU of the server, each", "µs", cpu.as_secs_f64() * 1e6 / count);
    report_memory(empty_bytes, before_bytes, peak_bytes, table);
    let (times, connections) = match options.kind {
        Kind::Pull => (namespaces, usize::try_from(options.connections)?),
        Kind::Webhook => (timers, FLOOR_CONNECTIONS),
    };
    let floor_s = plain::seconds(exchanges, times, connections).await?;
    table.add("floor: the same bytes over plain sockets", "s", floor_s);
    Ok(())
}

fn name(place: usize) -> String {
    format!("n{place}")
}

/// Creates every namespace, with a webhook destination.
async fn make(server: &Server, namespaces: usize, url: String) -> Result<()> {
    let body = json!({ "destination": { "http": { "url": url } } });
    load::spread(
        server.address(),
        CALLERS,
        namespaces,
        namespaces,
        "made",
        move |mut connection, place| {
            let body = body.clone();
            async move {
                must_in(&mut connection, &name(place), "PUT", "", &body).await?;
                Ok((connection, 1))
            }
        },
    )
    .await
}

/// Schedules the timers of every namespace, with one call each.
async fn fill(server: &Server, namespaces: usize, each: usize, dues_ms: Arc<[u64]>) -> Result<()> {
    let total = namespaces * each;
    load::spread(
        server.address(),
        CALLERS,
        namespaces,
        total,
        "scheduled",
        move |mut connection, place| {
            let dues_ms = Arc::clone(&dues_ms);
            async move {
                let numbers = place * each..(place + 1) * each;
                let dues_ms = &dues_ms[numbers.clone()];
                load::batch(&mut connection, &name(place), numbers, dues_ms).await?;
                Ok((connection, each))
            }
        },
    )
    .await
}

/// Waits until every timer has arrived.
async fn arrived(arrivals: &Arrivals) {
    while !arrivals.all_out() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Leases from the namespaces in turn, over several connections, until every timer is received and
/// acknowledged.
async fn take_all(
    server: &Server,
    options: &Options,
    first_ms: u64,
    arrivals: &Arc<Arrivals>,
) -> Result<Vec<Exchange>> {
    wait_until(first_ms, std::time::Duration::ZERO).await;
    let (namespaces, each) = (usize::try_from(options.namespaces)?, usize::try_from(options.each)?);
    let manner = Manner { max: each, wait_ms: 0 };
    let turn = Arc::new(AtomicUsize::new(0));
    let left: Arc<[AtomicUsize]> = (0..namespaces).map(|_| AtomicUsize::new(each)).collect();
    let address = server.address();
    let mut consumers = JoinSet::new();
    for _ in 0..options.connections {
        let (turn, left, arrivals) = (Arc::clone(&turn), Arc::clone(&left), Arc::clone(arrivals));
        consumers.spawn(async move {
            let mut consumer = Consumer::new(address, &name(0), manner);
            while !arrivals.all_out() {
                let place = turn.fetch_add(1, Ordering::Relaxed) % left.len();
                if left[place].load(Ordering::Relaxed) == 0 {
                    // Other consumers may have lease calls in progress: let them run.
                    tokio::task::yield_now().await;
                    continue;
                }
                consumer.turn_to(&name(place), manner);
                let came = consumer.take(&arrivals).await?;
                let before = left[place].fetch_sub(came, Ordering::Relaxed);
                ensure!(before >= came, "namespace {} gave more than it has", name(place));
            }
            Ok::<_, anyhow::Error>(consumer.exchanged())
        });
    }
    let mut exchanged = Exchanged::default();
    while let Some(consumer) = consumers.join_next().await {
        exchanged = exchanged.max(consumer??);
    }
    Ok(Exchange::of_consumer(exchanged))
}
