//! Consumer for measurements: leases a batch, notes it, acknowledges it, and repeats this over one
//! connection.
//!
//! The lease request is built once, and responses are parsed without a JSON tree. A settlement with
//! another result than `ok` ends the run.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::task::JoinSet;

use super::PATIENCE;
use super::arrivals::Arrivals;
use crate::api;
use crate::clock::now_us;
use crate::wire::{Connection, request};

/// Parameters of lease calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// Most firings per call.
    pub(super) max: usize,
    /// Longest wait of a call, in milliseconds.
    pub(super) wait_ms: u32,
}

/// One connection to the pull lane of a namespace.
pub(super) struct Consumer {
    address: SocketAddr,
    connection: Connection,
    lease: Vec<u8>,
    settle_path: String,
    bytes: Exchanged,
}

/// Bytes of the calls of a consumer, for the baseline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Exchanged {
    /// Bytes of a lease request.
    pub(super) lease_request: usize,
    /// Bytes of the longest lease response.
    pub(super) lease_answer: usize,
    /// Bytes of the longest settle request.
    pub(super) settle_request: usize,
    /// Bytes of the longest settle response.
    pub(super) settle_answer: usize,
}

impl Exchanged {
    /// Returns the larger value of each field.
    pub(super) fn max(self, other: Self) -> Self {
        Self {
            lease_request: self.lease_request.max(other.lease_request),
            lease_answer: self.lease_answer.max(other.lease_answer),
            settle_request: self.settle_request.max(other.settle_request),
            settle_answer: self.settle_answer.max(other.settle_answer),
        }
    }
}

impl Consumer {
    /// Creates a consumer of this namespace.
    pub(super) fn new(address: SocketAddr, namespace: &str, manner: Manner) -> Self {
        let mut consumer = Self {
            address,
            connection: Connection::new(address),
            lease: Vec::new(),
            settle_path: String::new(),
            bytes: Exchanged::default(),
        };
        consumer.turn_to(namespace, manner);
        consumer
    }

    /// Opens the connection, before the measured time.
    pub(super) async fn open(&mut self) -> Result<()> {
        Ok(self.connection.open().await?)
    }

    /// Switches to another namespace.
    pub(super) fn turn_to(&mut self, namespace: &str, manner: Manner) {
        let Manner { max, wait_ms } = manner;
        let body = format!(r#"{{"max":{max},"max_bytes":33554432,"wait":"{wait_ms}ms"}}"#);
        let path = api::path(namespace, "/lease");
        self.lease = request(self.address, "POST", &path, body.as_bytes());
        self.settle_path = api::path(namespace, "/settle");
    }

    /// Returns the bytes of the calls so far.
    pub(super) const fn exchanged(&self) -> Exchanged {
        self.bytes
    }

    /// Leases once and acknowledges the firings. Returns their number.
    pub(super) async fn take(&mut self, arrivals: &Arrivals) -> Result<usize> {
        let exchange = self.connection.exchange(&self.lease);
        let response = tokio::time::timeout(PATIENCE, exchange).await??;
        let received_us = now_us();
        ensure!(response.is_success(), "a lease was answered {}", response.status);
        let leased: Leased<'_> =
            serde_json::from_slice(&response.body).context("a lease was answered other JSON")?;
        if leased.firings.is_empty() {
            return Ok(0);
        }
        let mut body = String::with_capacity(leased.firings.len() * 90);
        body.push_str(r#"{"settlements":["#);
        for (place, firing) in leased.firings.iter().enumerate() {
            arrivals.note(firing.id.as_bytes(), received_us);
            body.push_str(if place == 0 { "" } else { "," });
            body.push_str(r#"{"token":""#);
            body.push_str(firing.token);
            body.push_str(r#"","ack":{}}"#);
        }
        body.push_str("]}");
        let count = leased.firings.len();
        let lease_answer = response.body.len();
        let settled = self.connection.call("POST", &self.settle_path, body.as_bytes(), PATIENCE);
        let settled = settled.await?;
        ensure!(settled.is_success(), "a settle was answered {}", settled.status);
        ensure_all_ok(&settled.body, count)?;
        arrivals.note_acknowledged(count);
        self.bytes = self.bytes.max(Exchanged {
            lease_request: self.lease.len(),
            lease_answer,
            settle_request: body.len(),
            settle_answer: settled.body.len(),
        });
        Ok(count)
    }
}

/// Leases over `connections` connections until every timer has arrived and was acknowledged.
pub(super) async fn take_all(
    address: SocketAddr,
    namespace: &'static str,
    connections: usize,
    manner: Manner,
    arrivals: &Arc<Arrivals>,
) -> Result<Exchanged> {
    let mut consumers = JoinSet::new();
    for _ in 0..connections {
        let arrivals = Arc::clone(arrivals);
        let mut consumer = Consumer::new(address, namespace, manner);
        consumer.open().await?;
        consumers.spawn(async move {
            while !arrivals.all_out() {
                consumer.take(&arrivals).await?;
            }
            Ok::<_, anyhow::Error>(consumer.exchanged())
        });
    }
    let mut bytes = Exchanged::default();
    while let Some(consumer) = consumers.join_next().await {
        bytes = bytes.max(consumer??);
    }
    Ok(bytes)
}

/// The used fields of a lease response.
#[derive(Deserialize)]
struct Leased<'a> {
    #[serde(borrow)]
    firings: Vec<Firing<'a>>,
}

#[derive(Deserialize)]
struct Firing<'a> {
    token: &'a str,
    id: &'a str,
}

#[derive(Deserialize)]
struct Settled<'a> {
    #[serde(borrow)]
    results: Vec<Verdict<'a>>,
}

#[derive(Deserialize)]
struct Verdict<'a> {
    outcome: Option<&'a str>,
}

fn ensure_all_ok(body: &[u8], count: usize) -> Result<()> {
    let settled: Settled<'_> =
        serde_json::from_slice(body).context("a settle was answered other JSON")?;
    if let Some(other) = settled.results.iter().find(|result| result.outcome != Some("ok")) {
        bail!("a settlement was answered {:?}", other.outcome.unwrap_or("an error"));
    }
    ensure!(settled.results.len() == count, "{count} settled, {} answered", settled.results.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_settlement_must_be_ok() {
        ensure_all_ok(br#"{"results":[{"outcome":"ok"},{"outcome":"ok"}]}"#, 2).unwrap();
        for (wrong, count) in [
            (&br#"{"results":[{"outcome":"ok"}]}"#[..], 2),
            (br#"{"results":[{"outcome":"ok"},{"outcome":"lease_lost"}]}"#, 2),
            (br#"{"results":[{"error":{"code":"internal"}}]}"#, 1),
            (b"{}", 0),
        ] {
            assert!(ensure_all_ok(wrong, count).is_err(), "{}", String::from_utf8_lossy(wrong));
        }
    }
}
