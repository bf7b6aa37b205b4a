//! One poll of a server: its metrics, its readiness, and the counts of its namespaces.
//!
//! Everything is bounded: the bytes of each response, the number of namespaces, and the time of the
//! whole poll. A namespace that is deleted between two calls is left out.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use duly_api::{ClusterInfo, ListNamespacesResponse, NamespaceStats, Totals, cluster::Readiness};
use reqwest::Method;

use crate::{
    commands::{health, metrics::Sample, namespace},
    failure::Failure,
    session::Session,
};

/// Most namespaces whose counts are requested.
pub(super) const NAMESPACES_MAX: usize = 100;
/// Largest response in bytes.
const RESPONSE_BYTES_MAX: usize = 8 << 20;
/// Time limit of all calls of one poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(10);

/// One series of the metrics, with its value.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: f64,
}

/// The metrics, by name and labels.
#[derive(Default)]
pub(super) struct Metrics(pub(super) HashMap<String, Series>);

/// A namespace.
#[derive(Clone)]
pub(super) struct Namespace {
    pub(super) name: String,
    pub(super) destination: String,
    pub(super) stats: NamespaceStats,
}

/// The result of a poll.
pub(super) struct Scrape {
    pub(super) at: Instant,
    pub(super) metrics: Metrics,
    pub(super) readiness: Readiness,
    pub(super) namespaces: Vec<Namespace>,
    /// `true`: the server has more namespaces than `NAMESPACES_MAX`.
    pub(super) has_more: bool,
}

impl Namespace {
    /// Returns the totals of the namespace, which survive a restart of the server.
    pub(super) fn totals(&self) -> Totals {
        self.stats.totals.clone().unwrap_or_default()
    }
}

impl Metrics {
    /// Parses the Prometheus text format; lines that cannot be read are skipped.
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

/// Polls the server.
pub(super) async fn poll(session: &Session) -> Result<Scrape, Failure> {
    let polled = tokio::time::timeout(POLL_TIMEOUT, request_all(session)).await;
    polled.unwrap_or_else(|_| {
        Err(Failure::coded(
            "unreachable",
            format_args!(
                "no response from the server within {} s: check it with `duly health`, or name \
                 another with --server",
                POLL_TIMEOUT.as_secs()
            ),
        ))
    })
}

/// Returns the server's version.
pub(super) async fn version(session: &Session) -> Option<String> {
    let call = session.http.service(Method::GET, &["cluster"]).at_most(RESPONSE_BYTES_MAX);
    let response = tokio::time::timeout(POLL_TIMEOUT, call.send()).await.ok()?.ok()?;
    response.parse().ok().map(|cluster: ClusterInfo| cluster.version)
}

async fn request_all(session: &Session) -> Result<Scrape, Failure> {
    let client = &session.http;
    let metrics = client.root(&["metrics"]).at_most(RESPONSE_BYTES_MAX).send().await?;
    let at = Instant::now();
    let metrics = Metrics::parse(&metrics.text);
    let (_, readiness) = health::request_readiness(session, "readyz").await?;
    let (namespaces, has_more) = match namespaces(session).await {
        // A server that is still opening its store has only metrics and reasons.
        Err(Failure::Refused { .. }) => (Vec::new(), false),
        other => other?,
    };
    Ok(Scrape { at, metrics, readiness, namespaces, has_more })
}

async fn namespaces(session: &Session) -> Result<(Vec<Namespace>, bool), Failure> {
    let client = &session.http;
    let call = client.service(Method::GET, &["namespaces"]);
    let call = call.query(&[("limit", NAMESPACES_MAX.to_string())]).at_most(RESPONSE_BYTES_MAX);
    let page: ListNamespacesResponse = call.send().await?.parse()?;
    let mut seen = Vec::new();
    for one in page.namespaces.into_iter().take(NAMESPACES_MAX) {
        let call = client.service(Method::GET, &["namespaces", &one.name, "stats"]);
        let stats = match call.at_most(RESPONSE_BYTES_MAX).send().await {
            Err(Failure::Refused { .. }) => continue,
            response => response?.parse()?,
        };
        seen.push(Namespace { destination: namespace::destination(&one), name: one.name, stats });
    }
    Ok((seen, page.cursor.is_some()))
}
