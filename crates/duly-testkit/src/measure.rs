//! Measures a real server from outside, with the machine's own floor beside each figure.
//!
//! The load generator shares the machine with the server, so it is kept lean: prebuilt requests
//! over plain connections. A figure is the median of several rounds. Nothing here judges; see
//! `docs/internals/checker.md` for what does.

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

/// What `duly-measure` takes.
#[derive(Debug, Clone, Parser)]
#[command(name = "duly-measure", about = "Measures a duly server, beside the floor of the machine")]
pub struct Options {
    /// What to measure.
    #[command(subcommand)]
    pub subject: Subject,
    /// The `duly` binary under test; a release build.
    #[arg(long, env = "DULY_BIN", global = true, default_value = "duly")]
    pub bin: PathBuf,
    /// Folder for the data directory; decides which disk is measured.
    #[arg(long, global = true)]
    pub dir: Option<PathBuf>,
    /// Rounds; the median is printed.
    #[arg(long, global = true, default_value_t = 3)]
    pub rounds: u32,
    /// Print JSON instead of a table.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What can be measured.
#[derive(Debug, Clone, Subcommand)]
pub enum Subject {
    /// How late firings arrive.
    Lateness {
        /// Firings per second.
        #[arg(long, default_value_t = 2_000)]
        rate: u32,
        /// Seconds of firing in each round.
        #[arg(long, default_value_t = 20)]
        seconds: u32,
        /// How they are delivered.
        #[arg(long, value_enum, default_value_t = Kind::Pull)]
        kind: Kind,
    },
    /// Durable single schedules over HTTP, each connection waiting for its answer.
    HttpSchedules {
        /// Connections at once.
        #[arg(long, default_value_t = 64)]
        connections: u32,
        /// Seconds of each round.
        #[arg(long, default_value_t = 10)]
        seconds: u32,
    },
    /// Memory and disk of pending timers, and the time to open them again after kill -9.
    Memory {
        /// Timers.
        #[arg(long, default_value_t = 1_000_000)]
        pending: u32,
    },
    /// Many timers due at one instant: seconds until all are out and acknowledged, and memory.
    HotSecond(HotSecondOptions),
    /// Lateness of a quiet lane: alone, beside dead receivers, beside a lane at full speed.
    Isolation(IsolationOptions),
    /// Many namespaces with a few timers each, due within a second: time until all are out, and
    /// fairness.
    Namespaces(NamespacesOptions),
    /// Many lease calls that wait: memory, and lateness of the one that is woken.
    Waiters(WaitersOptions),
    /// The same ids replaced over and over in batches.
    Debounce(DebounceOptions),
    /// Timers that are due already, leased and acknowledged in batches.
    Pull(PullOptions),
}

/// How firings are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Leased by waiting consumers.
    Pull,
    /// Webhooks to a local receiver.
    Webhook,
}

/// Longest time any call may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Payload of every timer: 128 bytes of text.
const PAYLOAD: &str = "0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF0123456789abcdef0123456789ABCDEF";

/// Measures what was asked for.
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

/// A call that must succeed.
async fn must(
    connection: &mut Connection,
    method: &str,
    rest: &str,
    body: &Value,
) -> Result<Value> {
    must_in(connection, "measured", method, rest, body).await
}

/// A call in another namespace that must succeed.
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

/// Schedules timers for these times (Unix ms) in batches of 1000, over one connection.
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
