//! What a server says of itself at one moment: its metrics, whether it can work, and the counts of
//! its namespaces.
//!
//! Everything is bounded: the bytes of each answer, the namespaces that are looked at, and the time
//! for all of it. A namespace that is deleted between two calls is left out.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use duly_api::{ClusterInfo, ListNamespacesResponse, NamespaceStats, Totals};
use reqwest::Method;

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

/// A namespace.
#[derive(Clone)]
pub(super) struct Namespace {
    pub(super) name: String,
    pub(super) destination: String,
    pub(super) counts: NamespaceStats,
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

impl Namespace {
    /// What it has done; the totals survive a restart of the server.
    pub(super) fn totals(&self) -> Totals {
        self.counts.totals.clone().unwrap_or_default()
    }
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
    let call = session.http.service(Method::GET, &["cluster"]).at_most(RESPONSE_BYTES_MAX);
    let answer = tokio::time::timeout(PATIENCE, call.send()).await.ok()?.ok()?;
    answer.parse().ok().map(|cluster: ClusterInfo| cluster.version)
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
    let call = client.service(Method::GET, &["namespaces"]);
    let call = call.query(&[("limit", NAMESPACES_MAX.to_string())]).at_most(RESPONSE_BYTES_MAX);
    let page: ListNamespacesResponse = call.send().await?.parse()?;
    let mut seen = Vec::new();
    for one in page.namespaces.into_iter().take(NAMESPACES_MAX) {
        let call = client.service(Method::GET, &["namespaces", &one.name, "stats"]);
        let counts = match call.at_most(RESPONSE_BYTES_MAX).send().await {
            Err(Failure::Refused { .. }) => continue,
            answer => answer?.parse()?,
        };
        seen.push(Namespace { destination: namespace::destination(&one), name: one.name, counts });
    }
    Ok((seen, page.cursor.is_some()))
}
