//! Baseline of the machine, measured in the same run: append and sync, wake-up, loopback echo.

use std::convert::Infallible;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::table::Table;
use crate::wire::{Connection, request};
use duly_checker::Percentiles;

const LASTING: Duration = Duration::from_secs(1);
const WAKES: u32 = 200;

/// Duration of the baseline with busy cores. The host of a virtual machine takes cores away a few
/// times a second.
const BUSY: Duration = Duration::from_secs(4);

/// Measures the idle machine and adds the figures.
pub(crate) async fn print_into(table: &mut Table, dir: &Path) -> Result<()> {
    let sync = append_and_sync(dir)?;
    add(table, "baseline: append 512 B + fdatasync", &sync);
    let wake = tokio::task::spawn_blocking(wake_up).await?;
    add(table, "baseline: wake-up lateness (nanosleep)", &wake);
    let per_second = echo().await?;
    table.add("baseline: loopback HTTP echo, 1 connection", "/s", per_second);
    Ok(())
}

/// Measures the lateness of a thread that never sleeps while every core is busy, and adds the
/// figures.
///
/// This is the time that the host of a virtual machine, or another program, takes away. No timer
/// can be less late under load.
pub(crate) async fn print_busy_into(table: &mut Table) -> Result<()> {
    let cores = thread::available_parallelism()?.get();
    let spinning = (0..cores).map(|_| tokio::task::spawn_blocking(spin)).collect::<Vec<_>>();
    let mut late = Vec::new();
    for one in spinning {
        late.extend(one.await?);
    }
    let late = Percentiles::of(late);
    let name = "baseline: busy cores, lateness without sleeping";
    add(table, name, &late);
    table.add(&format!("{name}, p99.9"), "ms", ms(late.p999_us));
    table.add(&format!("{name}, max"), "ms", ms(late.max_us));
    Ok(())
}

/// Returns, for each whole millisecond, how much later the clock could first be read.
fn spin() -> Vec<u64> {
    let began = Instant::now();
    let mut late = Vec::new();
    let mut next = Duration::from_millis(1);
    while next < BUSY {
        let now = began.elapsed();
        while next <= now {
            late.push(micros(now - next));
            next += Duration::from_millis(1);
        }
    }
    late
}

fn add(table: &mut Table, name: &str, percentiles: &Percentiles) {
    table.add(&format!("{name}, p50"), "ms", ms(percentiles.p50_us));
    table.add(&format!("{name}, p99"), "ms", ms(percentiles.p99_us));
}

/// Returns microseconds as milliseconds, for a table.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(crate) fn ms(us: u64) -> f64 {
    us as f64 / 1_000.0
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn append_and_sync(dir: &Path) -> Result<Percentiles> {
    let path = dir.join("floor");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let began = Instant::now();
    let mut took = Vec::new();
    while began.elapsed() < LASTING {
        let one = Instant::now();
        file.write_all(&[7; 512])?;
        file.sync_data()?;
        took.push(micros(one.elapsed()));
    }
    std::fs::remove_file(path)?;
    Ok(Percentiles::of(took))
}

fn wake_up() -> Percentiles {
    Percentiles::of((0..WAKES).map(|_| {
        let until = Instant::now() + Duration::from_millis(5);
        thread::sleep(until - Instant::now());
        micros(until.elapsed())
    }))
}

async fn echo() -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
            });
            // The service returns an error when the client disconnects.
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        }
    });
    let mut connection = Connection::new(address);
    let bytes = request(address, "POST", "/", b"{}");
    let began = Instant::now();
    let mut calls = 0_u32;
    while began.elapsed() < LASTING {
        connection.exchange(&bytes).await?;
        calls += 1;
    }
    server.abort();
    Ok(f64::from(calls) / began.elapsed().as_secs_f64())
}
