//! Lateness of firings: receive time − due time, by the wall clock of the machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Kind, PATIENCE, Table, floor, must, schedule_all, start, usage};
use crate::api;
use crate::checker::Percentiles;
use crate::clock::{now_ms, now_us};
use crate::process::Options;
use crate::wire::{Connection, request};

/// Number of waiting consumers.
const CONSUMERS: usize = 4;

/// Time after the last due time within which every firing must arrive.
const GRACE: Duration = Duration::from_secs(30);

/// (received, Unix µs; due, Unix ms) of every delivery.
type Arrivals = Arc<Mutex<Vec<(u64, u64)>>>;

/// Runs one round on a fresh server.
pub(super) async fn round(
    options: &Options,
    rate: u32,
    seconds: u32,
    kind: Kind,
    table: &mut Table,
) -> Result<()> {
    let mut server = start(options).await?;
    let mut connection = Connection::new(server.address());
    let arrivals = Arrivals::default();
    let mut receivers = Vec::new();
    let destination = match kind {
        Kind::Pull => json!({ "pull": {} }),
        Kind::Webhook => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let url = format!("http://{}/", listener.local_addr()?);
            receivers.push(tokio::spawn(receive(listener, Arc::clone(&arrivals))));
            json!({ "http": { "url": url } })
        }
    };
    must(&mut connection, "PUT", "", &json!({ "destination": destination })).await?;
    let count = usize::try_from(u64::from(rate) * u64::from(seconds))?;
    // Enough time to schedule all timers before the first is due.
    let lead_ms = 2_000 + u64::try_from(count / 20)?;
    let span_ms = u64::from(seconds) * 1_000;
    let mut rng = SmallRng::seed_from_u64(1);
    let first_ms = now_ms() + lead_ms;
    let dues_ms: Vec<u64> = (0..count).map(|_| first_ms + rng.random_range(0..span_ms)).collect();
    schedule_all(&mut connection, &dues_ms).await?;
    ensure!(now_ms() < first_ms, "scheduling took longer than {lead_ms} ms");
    usage::forget_peak(server.pid());
    let before = usage::resident_bytes(server.pid())?;
    if kind == Kind::Pull {
        for _ in 0..CONSUMERS {
            let consumer = consume(server.address(), Arc::clone(&arrivals));
            receivers.push(tokio::spawn(consumer));
        }
    }
    let deadline_ms = first_ms + span_ms + u64::try_from(GRACE.as_millis())?;
    while arrivals.lock().len() < count && now_ms() < deadline_ms {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for receiver in receivers {
        receiver.abort();
    }
    usage::add_memory(table, "", before, server.pid())?;
    server.kill()?;
    let arrivals = std::mem::take(&mut *arrivals.lock());
    ensure!(arrivals.len() >= count, "only {} of {count} came", arrivals.len());
    report(&arrivals, count, table);
    floor::print_busy_into(table).await
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn report(arrivals: &[(u64, u64)], count: usize, table: &mut Table) {
    let early =
        arrivals.iter().filter(|(received_us, due_ms)| *received_us < due_ms * 1_000).count();
    let late = Percentiles::of(
        arrivals.iter().map(|(received_us, due_ms)| received_us.saturating_sub(due_ms * 1_000)),
    );
    table.add("lateness, p50", "ms", floor::ms(late.p50_us));
    table.add("lateness, p99", "ms", floor::ms(late.p99_us));
    table.add("lateness, p99.9", "ms", floor::ms(late.p999_us));
    table.add("lateness, max", "ms", floor::ms(late.max_us));
    table.add("early", "", early as f64);
    table.add("delivered more than once", "", (arrivals.len() - count) as f64);
}

/// Leases with a long wait, and acknowledges the firings over another connection meanwhile.
async fn consume(address: SocketAddr, arrivals: Arrivals) -> Result<()> {
    let (sender, mut receiver) = mpsc::channel::<Vec<Value>>(1_000);
    let acker = tokio::spawn(async move {
        let mut connection = Connection::new(address);
        while let Some(mut settlements) = receiver.recv().await {
            while let Ok(more) = receiver.try_recv() {
                settlements.extend(more);
            }
            let body = json!({ "settlements": settlements });
            must(&mut connection, "POST", "/settle", &body).await?;
        }
        anyhow::Ok(())
    });
    let mut connection = Connection::new(address);
    let body = br#"{"max":1000,"wait":"20s"}"#;
    let bytes = request(address, "POST", &api::path("measured", "/lease"), body);
    loop {
        let response = tokio::time::timeout(PATIENCE, connection.exchange(&bytes)).await??;
        let received_us = now_us();
        let json = response.json();
        let mut settlements = Vec::new();
        let mut seen = Vec::new();
        for firing in json["firings"].as_array().into_iter().flatten() {
            let due_ms = api::time_ms(&firing["due_at"]).unwrap_or(0);
            seen.push((received_us, due_ms));
            settlements.push(json!({ "token": firing["token"], "ack": {} }));
        }
        arrivals.lock().extend(seen);
        if !settlements.is_empty() && sender.send(settlements).await.is_err() {
            return acker.await?;
        }
    }
}

async fn receive(listener: TcpListener, arrivals: Arrivals) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let arrivals = Arc::clone(&arrivals);
        let service = service_fn(move |request: Request<Incoming>| {
            let received_us = now_us();
            let due = request.headers().get("duly-due-at");
            let due = due.and_then(|value| value.to_str().ok()).unwrap_or("");
            let due_ms = due.parse().ok().or_else(|| api::time_ms(&due.into())).unwrap_or(0);
            arrivals.lock().push((received_us, due_ms));
            std::future::ready(Ok::<_, std::convert::Infallible>(Response::new(
                Empty::<Bytes>::new(),
            )))
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service),
        );
    }
}
