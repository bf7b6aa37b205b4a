//! HTTP/1.1 with JSON: a connection for each line; answers are read without making a tree of them.

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures::future::{BoxFuture, FutureExt as _};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::{Firing, Operation, Outcome, Transport};
use crate::wire::{Connection, Response};

/// Longest time of a call.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server over HTTP.
#[derive(Debug)]
pub struct Http {
    lines: Vec<Mutex<Connection>>,
    /// For what is not load: it is whole even when a line was left with half an answer.
    aside: Mutex<Connection>,
    payload: String,
}

impl Http {
    /// With so many lines.
    pub fn new(address: SocketAddr, lines: usize, payload: String) -> Self {
        let line = || Mutex::new(Connection::new(address));
        Self { lines: (0..lines.max(1)).map(|_| line()).collect(), aside: line(), payload }
    }

    /// The connection of a line.
    fn line(&self, line: usize) -> &Mutex<Connection> {
        &self.lines[line % self.lines.len()]
    }

    async fn call(
        &self,
        connection: &Mutex<Connection>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Response> {
        let mut connection = connection.lock().await;
        let response = connection.call(method, path, body.as_bytes(), PATIENCE).await?;
        ensure!(
            response.is_success(),
            "{method} {path} was answered {}: {}",
            response.status,
            String::from_utf8_lossy(&response.body)
        );
        Ok(response)
    }

    fn body(&self, operations: &[Operation]) -> String {
        let mut body = String::with_capacity(32 + operations.len() * (self.payload.len() + 90));
        body.push_str(r#"{"operations":["#);
        let payload = &self.payload;
        for (place, operation) in operations.iter().enumerate() {
            body.push_str(if place == 0 { "" } else { "," });
            match operation {
                Operation::Schedule { number, due_ms } => write!(
                    body,
                    r#"{{"schedule":{{"id":"{number}","due_at":{due_ms},"payload_text":"{payload}"}}}}"#
                ),
                Operation::Replace { number, due_ms } => write!(
                    body,
                    r#"{{"schedule":{{"id":"{number}","due_at":{due_ms},"payload_text":"{payload}","if_exists":"replace"}}}}"#
                ),
                Operation::Cancel { number } => write!(body, r#"{{"cancel":{{"id":"{number}"}}}}"#),
            }
            .expect("a string takes all");
        }
        body.push_str("]}");
        body
    }
}

impl Transport for Http {
    fn make<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<()>> {
        let path = path(namespace, "");
        async move { self.call(&self.aside, "PUT", &path, "{}").await.map(|_| ()) }.boxed()
    }

    fn end<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<()>> {
        let path = path(namespace, "?force=true");
        async move { self.call(&self.aside, "DELETE", &path, "").await.map(|_| ()) }.boxed()
    }

    fn pending<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, Result<u64>> {
        let path = path(namespace, "/stats");
        async move {
            let response = self.call(&self.aside, "GET", &path, "").await?;
            Ok(read::<Stats>(&response)?.pending)
        }
        .boxed()
    }

    fn batch<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        operations: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>> {
        async move {
            let body = self.body(operations);
            let response =
                self.call(self.line(line), "POST", &path(namespace, "/batch"), &body).await?;
            let results = read::<Batched>(&response)?.results;
            results.into_iter().map(Item::outcome).collect()
        }
        .boxed()
    }

    fn lease<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Firing>>> {
        async move {
            let body = format!(r#"{{"max":{max},"max_bytes":33554432,"wait":{wait_ms}}}"#);
            let response =
                self.call(self.line(line), "POST", &path(namespace, "/lease"), &body).await?;
            let firing = |Leased { id, token }: Leased| Firing { number: id.parse().ok(), token };
            Ok(read::<Lease>(&response)?.firings.into_iter().map(firing).collect())
        }
        .boxed()
    }

    fn settle<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        firings: &'a [Firing],
    ) -> BoxFuture<'a, Result<Vec<bool>>> {
        async move {
            let mut body = String::with_capacity(32 + firings.len() * 90);
            body.push_str(r#"{"settlements":["#);
            for (place, firing) in firings.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                write!(body, r#"{comma}{{"token":"{}","ack":{{}}}}"#, firing.token)
                    .expect("a string takes all");
            }
            body.push_str("]}");
            let response =
                self.call(self.line(line), "POST", &path(namespace, "/settle"), &body).await?;
            let results = read::<Settled>(&response)?.results;
            Ok(results.iter().map(|result| result.outcome.as_deref() == Some("ok")).collect())
        }
        .boxed()
    }
}

fn path(namespace: &str, rest: &str) -> String {
    format!("/v1/namespaces/{namespace}{rest}")
}

fn read<'a, T: Deserialize<'a>>(response: &'a Response) -> Result<T> {
    serde_json::from_slice(&response.body).context("the server answered other JSON")
}

#[derive(Deserialize)]
struct Stats {
    pending: u64,
}

#[derive(Deserialize)]
struct Batched {
    results: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    timer: Option<Made>,
    outcome: Option<String>,
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    existing: bool,
    #[serde(default)]
    replaced: bool,
}

#[derive(Deserialize)]
struct Problem {
    code: String,
}

impl Item {
    fn outcome(self) -> Result<Outcome> {
        Ok(match (self.timer, self.error, self.outcome.as_deref()) {
            (Some(Made { existing: true, .. }), ..) => Outcome::Existing,
            (Some(Made { replaced: true, .. }), ..) => Outcome::Replaced,
            (Some(_), ..) => Outcome::Created,
            (None, Some(problem), _) => Outcome::Refused(problem.code),
            (None, None, Some("cancelled")) => Outcome::Cancelled,
            (None, None, _) => anyhow::bail!("the server answered a result that is none"),
        })
    }
}

#[derive(Deserialize)]
struct Lease {
    firings: Vec<Leased>,
}

#[derive(Deserialize)]
struct Leased {
    id: String,
    token: String,
}

#[derive(Deserialize)]
struct Settled {
    results: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    outcome: Option<String>,
}
