//! What a server says of itself at one moment: its metrics, whether it can work, and the counts of
//! its namespaces.
//!
//! Everything is bounded: the bytes of each answer, the namespaces that are looked at, and the time
//! for all of it. A namespace that is deleted between two calls is left out.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde::Deserialize;

use crate::{
    cli::Session,
    commands::{
        health::{self, Readiness},
        metrics::Sample,
        namespace,
    },
    failure::Failure,
};

/// Most namespaces whose counts are asked for.
pub(super) const NAMESPACES_MAX: usize = 100;
/// Most bytes of one answer.
const RESPONSE_BYTES_MAX: usize = 8 << 20;
/// Time for all the calls of one look.
const PATIENCE: Duration = Duration::from_secs(10);

/// One line of the metrics.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: f64,
}

/// The metrics, by the line up to the value.
#[derive(Default)]
pub(super) struct Metrics(pub(super) HashMap<String, Series>);

/// What is asked of a namespace's settings.
#[derive(Deserialize)]
struct Settings {
    name: String,
    #[serde(default)]
    destination: serde_json::Value,
}

#[derive(Deserialize)]
struct Page {
    namespaces: Vec<Settings>,
    cursor: Option<String>,
}

/// The counts of a namespace.
#[derive(Clone, Default, Deserialize)]
pub(super) struct Counts {
    pub(super) pending: u64,
    pub(super) due: u64,
    pub(super) in_flight: u64,
    pub(super) paused: bool,
    pub(super) lanes: Vec<Lane>,
    pub(super) totals: Totals,
}

/// What is asked of a lane.
#[derive(Clone, Deserialize)]
pub(super) struct Lane {
    pub(super) breaker: Option<String>,
}

/// Totals of a namespace; they survive a restart of the server.
#[derive(Clone, Default, Deserialize)]
pub(super) struct Totals {
    pub(super) fired: u64,
    pub(super) dead: u64,
}

/// A namespace.
#[derive(Clone)]
pub(super) struct Namespace {
    pub(super) name: String,
    pub(super) destination: String,
    pub(super) counts: Counts,
}

/// What was seen.
pub(super) struct Scrape {
    pub(super) at: Instant,
    pub(super) metrics: Metrics,
    pub(super) readiness: Readiness,
    pub(super) namespaces: Vec<Namespace>,
    /// Whether there are more namespaces than are looked at.
    pub(super) has_more: bool,
}

impl Metrics {
    /// Reads the text format of Prometheus; what cannot be read is passed over.
    pub(super) fn parse(text: &str) -> Self {
        let series = text.lines().filter_map(|line| {
            let sample = Sample::parse(line)?;
            let value = sample.value.parse().ok()?;
            let labels = sample.labels.into_iter();
            let labels: Vec<_> = labels.map(|(name, value)| (name.to_owned(), value)).collect();
            let key = format!("{} {labels:?}", sample.name);
            Some((key, Series { name: sample.name.to_owned(), labels, value }))
        });
        Self(series.collect())
    }
}

/// Looks at the server.
pub(super) async fn look(session: &Session) -> Result<Scrape, Failure> {
    let looked = tokio::time::timeout(PATIENCE, ask(session)).await;
    looked.unwrap_or_else(|_| {
        Err(Failure::coded(
            "unreachable",
            format_args!(
                "the server did not answer within {} s: see whether it runs (`duly health`), or \
                 name another with --server",
                PATIENCE.as_secs()
            ),
        ))
    })
}

/// The version that the server says it has.
pub(super) async fn version(session: &Session) -> Option<String> {
    #[derive(Deserialize)]
    struct Document {
        info: Info,
    }
    #[derive(Deserialize)]
    struct Info {
        version: String,
    }
    let call = session.http.root(Method::GET, &["openapi.json"]).at_most(RESPONSE_BYTES_MAX);
    let answer = tokio::time::timeout(PATIENCE, call.send()).await.ok()?.ok()?;
    answer.parse::<Document>().ok().map(|document| document.info.version)
}

async fn ask(session: &Session) -> Result<Scrape, Failure> {
    let client = &session.http;
    let metrics = client.root(Method::GET, &["metrics"]).at_most(RESPONSE_BYTES_MAX).send().await?;
    let at = Instant::now();
    let metrics = Metrics::parse(&metrics.text);
    let (_, readiness) = health::ask(session, "readyz").await?;
    let (namespaces, has_more) = match namespaces(session).await {
        // A server that still reads its store has metrics and reasons, and nothing else.
        Err(Failure::Refused { .. }) => (Vec::new(), false),
        other => other?,
    };
    Ok(Scrape { at, metrics, readiness, namespaces, has_more })
}

async fn namespaces(session: &Session) -> Result<(Vec<Namespace>, bool), Failure> {
    let client = &session.http;
    let call = client.call(Method::GET, &[]).query(&[("limit", NAMESPACES_MAX.to_string())]);
    let page: Page = call.at_most(RESPONSE_BYTES_MAX).send().await?.parse()?;
    let mut seen = Vec::new();
    for Settings { name, destination } in page.namespaces.into_iter().take(NAMESPACES_MAX) {
        let call = client.call(Method::GET, &[&name, "stats"]).at_most(RESPONSE_BYTES_MAX);
        let counts = match call.send().await {
            Err(Failure::Refused { .. }) => continue,
            answer => answer?.parse()?,
        };
        let destination = namespace::destination(&destination);
        seen.push(Namespace { name, destination, counts });
    }
    Ok((seen, page.cursor.is_some()))
}
