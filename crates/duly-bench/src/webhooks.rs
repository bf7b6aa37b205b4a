//! Benchmark of the webhook sink with a receiver on this machine: deliveries per second, CPU,
//! latency.
//!
//! ```text
//!   this process                        another process (its CPU is not counted)
//!   n senders ── HttpSink::deliver ──►  receiver: reads each whole request, replies 200, counts
//!   n senders ── plain sockets ──────►  the same: the baseline, without an HTTP client
//! ```
//!
//! It measures the sink alone: no store, no lanes. Each delivery must be confirmed, and the
//! receiver must have counted exactly the requests that were sent.

mod far_side;
mod plain;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use clap::{Args, value_parser};
use duly_core::{
    DeliveryId, Incarnation, NamespaceName, Payload, TimerId, Timestamp,
    destination::HttpDestination, headers::Headers, namespace::SigningSecret, payload::Form,
};
use duly_sink::{
    Delivery, Envelope, Sink as _,
    http::{AddressPolicy, HttpSink, Options as SinkOptions},
};
use duly_store_embedded::SystemClock;
use tokio::{runtime::Runtime, task::JoinSet};

pub use far_side::receive;

use crate::{
    error::{Error, Result},
    latency::Latencies,
    machine::Machine,
    report::{Report, Row},
    targets, usage,
};

/// Secrets that sign deliveries; `Options::secrets` of them are used.
const SECRETS: [&str; 2] =
    ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"];
/// Longest time of one delivery; a slower one ends the run.
const PATIENCE: Duration = Duration::from_secs(60);

/// Options of the webhook benchmark.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Deliveries of each round.
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(u64).range(1..=1_000_000_000))]
    pub deliveries: u64,
    /// Deliveries in progress at once, each on its own connection.
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 128, value_parser = value_parser!(u32).range(0..=262_144))]
    pub payload_bytes: u32,
    /// Secrets that sign each delivery; two, as during a rotation.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u8).range(0..=2))]
    pub secrets: u8,
    /// Rounds; the report shows their median.
    #[arg(long, default_value_t = 3, value_parser = value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Program to run as the receiver, instead of this one.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

/// Measures the webhook sink as the options say.
///
/// # Errors
/// When a delivery or the receiver fails. There is no report then.
pub fn run(options: &Options) -> Result<Report> {
    let command = std::iter::once("duly-bench".to_owned()).chain(std::env::args().skip(1));
    let machine = Machine::of(std::path::Path::new("."));
    let mut report = Report::new(command.collect::<Vec<_>>().join(" "), machine);
    let runtime = Runtime::new().map_err(Error::io("start", "the runtime"))?;
    for round in 1..=options.runs {
        eprintln!("round {round} of {}: webhooks", options.runs);
        let far_side = far_side::FarSide::start(options.program.as_deref())?;
        let url = format!("http://127.0.0.1:{}/hook", far_side.port());
        let envelope = envelope(options, &url)?;
        let sent = runtime.block_on(deliver(options, &envelope))?;
        let alone = runtime.block_on(plain::exchange(options, far_side.port()))?;
        Error::unless_equal("requests", 2 * options.deliveries, far_side.end()?)?;
        let about = format!(
            "{} under way, {} B payload, {} signature(s), to a receiver in another process",
            options.in_flight, options.payload_bytes, options.secrets
        );
        add(report.row("webhooks", about, options.deliveries), options.deliveries, &sent, &alone);
    }
    targets::judge(&mut report, options.deliveries);
    Ok(report)
}

/// Cost of all deliveries on one path.
struct Took {
    elapsed: Duration,
    cpu: Duration,
    latencies: Latencies,
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn add(row: &mut Row, deliveries: u64, sent: &Took, alone: &Took) {
    const FLOOR: &str = "as many bytes over plain sockets";
    let per_second = |took: &Took| deliveries as f64 / took.elapsed.as_secs_f64().max(1e-9);
    let cpu = |took: &Took| took.cpu.as_secs_f64() * 1e6 / deliveries as f64;
    row.add("per_second", "/s", per_second(sent))
        .beside("per_second", FLOOR, per_second(alone))
        .add("cpu", "µs", cpu(sent))
        .beside("cpu", FLOOR, cpu(alone));
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        row.add(name, "ms", sent.latencies.quantile_ms(share)).beside(
            name,
            FLOOR,
            alone.latencies.quantile_ms(share),
        );
    }
}

fn envelope(options: &Options, url: &str) -> Result<Envelope> {
    let unexpected = |error: duly_core::Invalid| Error::Unexpected {
        expected: "a valid delivery".to_owned(),
        found: error.to_string(),
    };
    let secrets = SECRETS.iter().take(options.secrets.into());
    Ok(Envelope {
        namespace: NamespaceName::new("bench").map_err(unexpected)?,
        id: TimerId::new("order-1").map_err(unexpected)?,
        delivery_id: DeliveryId::of("bench", "order-1", Incarnation(1), 0),
        attempt: 1,
        due_at: Timestamp::saturating_from_unix_ms(1_700_000_000_000),
        headers: Headers::default(),
        payload: Some(Payload {
            form: Form::Text,
            bytes: Bytes::from(vec![b'x'; options.payload_bytes as usize]),
        }),
        destination: HttpDestination::new(url).map_err(unexpected)?,
        signing_secrets: secrets
            .map(|secret| SigningSecret::new(secret))
            .collect::<std::result::Result<_, _>>()
            .map_err(unexpected)?,
        trace_parent: None,
        deadline: Instant::now() + PATIENCE,
    })
}

/// Sends the deliveries through the sink.
async fn deliver(options: &Options, envelope: &Envelope) -> Result<Took> {
    let sink_options =
        SinkOptions { addresses: AddressPolicy::with_loopback(), ..SinkOptions::default() };
    let sink = HttpSink::new(sink_options, Arc::new(SystemClock)).map_err(|error| {
        Error::Unexpected { expected: "a sink".to_owned(), found: error.to_string() }
    })?;
    measure(options, |turns| {
        let (sink, envelope) = (sink.clone(), envelope.clone());
        async move {
            let mut latencies = Latencies::new();
            while turns.next() {
                let began = Instant::now();
                let sent = Envelope { deadline: began + PATIENCE, ..envelope.clone() };
                match sink.deliver(sent).await {
                    Delivery::Confirmed => latencies.record(began.elapsed()),
                    other => {
                        return Err(Error::Unexpected {
                            expected: "a confirmed delivery".to_owned(),
                            found: format!("{other:?}"),
                        });
                    }
                }
            }
            Ok(latencies)
        }
    })
    .await
}

/// The number of deliveries still to be made.
#[derive(Clone)]
struct Turns(Arc<AtomicU64>);

impl Turns {
    /// Takes one delivery; returns `false` if none is left.
    fn next(&self) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_ok()
    }
}

/// Runs as many senders at once as the options say.
async fn measure<F>(options: &Options, sender: impl Fn(Turns) -> F) -> Result<Took>
where
    F: Future<Output = Result<Latencies>> + Send + 'static,
{
    let turns = Turns(Arc::new(AtomicU64::new(options.deliveries)));
    let (began, cpu) = (Instant::now(), usage::process_cpu());
    let mut senders = JoinSet::new();
    for _ in 0..options.in_flight {
        senders.spawn(sender(turns.clone()));
    }
    let mut latencies = Latencies::new();
    while let Some(done) = senders.join_next().await {
        let done = done.map_err(|error| Error::Unexpected {
            expected: "a sender that ends".to_owned(),
            found: error.to_string(),
        })?;
        latencies.add(&done?);
    }
    let took =
        Took { elapsed: began.elapsed(), cpu: usage::process_cpu().saturating_sub(cpu), latencies };
    Error::unless_equal("exchanges", options.deliveries, took.latencies.count())?;
    Ok(took)
}
