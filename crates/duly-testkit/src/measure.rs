//! Measurements of a real server from outside, with the baseline of the machine beside each figure.
//!
//! The load generator shares the machine with the server, so it does little work: it sends prebuilt
//! requests over plain connections. A figure is the median of several rounds. This module checks no
//! promises; `docs/internals/checker.md` describes the tools that do.

mod arrivals;
mod consumer;
mod debounce;
mod hot_second;
mod isolation;
mod lateness;
mod load;
mod memory;
mod namespaces;
mod plain;
mod progress;
mod pull;
mod schedules;
mod waiters;
mod watch;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use serde_json::Value;

use crate::api;
use crate::process::{Options as ServerOptions, Server};
use crate::wire::Connection;
pub use debounce::Options as DebounceOptions;
pub use duly_load::Table;
use duly_load::{floor, usage};
pub use hot_second::Options as HotSecondOptions;
pub use isolation::{Beside, Options as IsolationOptions};
pub use namespaces::Options as NamespacesOptions;
pub use pull::Options as PullOptions;
pub use waiters::Options as WaitersOptions;

/// Options of `duly-measure`.
#[derive(Debug, Clone, Parser)]
#[command(name = "duly-measure", about = "Measures a duly server, beside the floor of the machine")]
pub struct Options {
    /// Subject to measure.
    #[command(subcommand)]
    pub subject: Subject,
    /// The `duly` binary under test; use a release build.
    #[arg(long, env = "DULY_BIN", global = true, default_value = "duly")]
    pub bin: PathBuf,
    /// Parent folder of the data directory; it decides which disk is measured.
    #[arg(long, global = true)]
    pub dir: Option<PathBuf>,
    /// Rounds; the median is printed.
    #[arg(long, global = true, default_value_t = 3)]
    pub rounds: u32,
    /// Prints JSON instead of a table.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Subject of a measurement.
#[derive(Debug, Clone, Subcommand)]
pub enum Subject {
    /// Lateness of firings.
    Lateness {
        /// Firings per second.
        #[arg(long, default_value_t = 2_000)]
        rate: u32,
        /// Seconds of firing in each round.
        #[arg(long, default_value_t = 20)]
        seconds: u32,
        /// Delivery method.
        #[arg(long, value_enum, default_value_t = Kind::Pull)]
        kind: Kind,
    },
    /// Durable single schedule calls over HTTP; each connection waits for its response.
    HttpSchedules {
        /// Number of connections.
        #[arg(long, default_value_t = 64)]
        connections: u32,
        /// Seconds of each round.
        #[arg(long, default_value_t = 10)]
        seconds: u32,
    },
    /// Memory and disk of pending timers, and the time to start again after kill -9.
    Memory {
        /// Number of pending timers.
        #[arg(long, default_value_t = 1_000_000)]
        pending: u32,
    },
    /// Many timers due at one instant: seconds until all are received and acknowledged, and memory.
    HotSecond(HotSecondOptions),
    /// Lateness of a quiet lane: alone, beside dead receivers, beside a lane at full speed.
    Isolation(IsolationOptions),
    /// Many namespaces with a few timers each, due within a second: time until all are received,
    /// and fairness.
    Namespaces(NamespacesOptions),
    /// Many waiting lease calls: memory, and lateness of the one that gets a firing.
    Waiters(WaitersOptions),
    /// Repeated replacement of the same ids in batches.
    Debounce(DebounceOptions),
    /// Timers that are due already, leased and acknowledged in batches.
    Pull(PullOptions),
}

/// Delivery method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Leases by waiting consumers.
    Pull,
    /// Webhooks to a local receiver.
    Webhook,
}

/// Longest time of any call.
const PATIENCE: Duration = Duration::from_secs(120);

/// Payload of every timer: 128 bytes of text.
const PAYLOAD: &str = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF";

/// Runs the measurement.
pub async fn run(options: &Options) -> Result<Table> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("duly-measure-");
        builder
    };
    let dir = match &options.dir {
        Some(dir) => builder().tempdir_in(dir)?,
        None => builder().tempdir()?,
    };
    let mut table = Table::default();
    floor::print_into(&mut table, dir.path()).await?;
    for round in 0..options.rounds.max(1) {
        let server = server_options(options, dir.path(), round);
        eprintln!("round {} of {}", round + 1, options.rounds.max(1));
        match &options.subject {
            &Subject::Lateness { rate, seconds, kind } => {
                lateness::round(&server, rate, seconds, kind, &mut table).await?
            }
            &Subject::HttpSchedules { connections, seconds } => {
                schedules::round(&server, connections, seconds, &mut table).await?
            }
            &Subject::Memory { pending } => memory::round(&server, pending, &mut table).await?,
            Subject::HotSecond(options) => hot_second::round(&server, options, &mut table).await?,
            Subject::Isolation(options) => isolation::round(&server, options, &mut table).await?,
            Subject::Namespaces(options) => namespaces::round(&server, options, &mut table).await?,
            Subject::Waiters(options) => waiters::round(&server, options, &mut table).await?,
            Subject::Debounce(options) => debounce::round(&server, options, &mut table).await?,
            Subject::Pull(options) => pull::round(&server, options, &mut table).await?,
        }
        // The next round starts on an empty disk.
        if let Some(data) = &server.data {
            std::fs::remove_dir_all(data)?;
        }
    }
    Ok(table)
}

fn server_options(options: &Options, dir: &Path, round: u32) -> ServerOptions {
    ServerOptions {
        bin: options.bin.clone(),
        data: Some(dir.join(format!("data-{round}"))),
        log: dir.join("server.log"),
        listen: std::net::SocketAddr::from(([127, 0, 0, 1], 0)),
        settings: Vec::new(),
        network: std::sync::Arc::new(crate::wire::Here),
    }
}

async fn start(options: &ServerOptions) -> Result<Server> {
    Server::start(options, PATIENCE).await
}

/// Makes a call that must succeed.
async fn must(
    connection: &mut Connection,
    method: &str,
    rest: &str,
    body: &Value,
) -> Result<Value> {
    must_in(connection, "measured", method, rest, body).await
}

/// Makes a call in another namespace that must succeed.
async fn must_in(
    connection: &mut Connection,
    namespace: &str,
    method: &str,
    rest: &str,
    body: &Value,
) -> Result<Value> {
    let path = api::path(namespace, rest);
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let response = connection.call(method, &path, &body, PATIENCE).await?;
    ensure!(
        response.is_success(),
        "{method} {path}: {} {}",
        response.status,
        String::from_utf8_lossy(&response.body)
    );
    Ok(response.json())
}

/// Schedules timers for these due times (Unix ms) in batches of 1000, over one connection.
async fn schedule_all(connection: &mut Connection, dues_ms: &[u64]) -> Result<()> {
    use std::fmt::Write as _;
    for dues in dues_ms.chunks(1_000) {
        let mut body = String::with_capacity(dues.len() * 190);
        for due_ms in dues {
            let comma = if body.is_empty() { "" } else { "," };
            write!(
                body,
                r#"{comma}{{"schedule":{{"due_at":{due_ms},"payload_text":"{PAYLOAD}"}}}}"#
            )?;
        }
        let body = format!(r#"{{"operations":[{body}]}}"#).into_bytes();
        let path = api::path("measured", "/batch");
        let response = connection.call("POST", &path, &body, PATIENCE).await?;
        ensure!(response.is_success(), "a batch was answered {}", response.status);
        let json = response.json();
        let results = json["results"].as_array().map_or(&[][..], Vec::as_slice);
        let made = results.iter().filter(|result| result.get("timer").is_some()).count();
        ensure!(
            made == dues.len(),
            "only {made} of {} were made; first: {}",
            dues.len(),
            results.first().unwrap_or(&Value::Null)
        );
    }
    Ok(())
}
