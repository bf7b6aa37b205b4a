//! HTTP/1.1 transport with JSON: one connection per line. Responses are parsed without a JSON tree.

mod recording;

use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use duly_checker::history::SettleAnswer;
use futures::future::{BoxFuture, FutureExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::{Firing, Operation, Outcome, PAGE, Settings, Transport};
use crate::wire::{Connection, Response, settle_answer};

/// Longest time of a call.
const PATIENCE: Duration = Duration::from_secs(120);

/// Result of a refused settlement: it settles nothing.
const REFUSED: SettleAnswer = SettleAnswer::InvalidToken;

/// An HTTP client of a server.
#[derive(Debug)]
pub(crate) struct Http {
    lines: Vec<Mutex<Connection>>,
    payload: String,
}

impl Http {
    /// Creates a client with `lines` lines.
    pub(crate) fn new(address: SocketAddr, lines: usize, payload: String) -> Self {
        let line = || Mutex::new(Connection::new(address));
        Self { lines: (0..lines.max(1)).map(|_| line()).collect(), payload }
    }

    /// Returns the connection of a line.
    fn line(&self, line: usize) -> &Mutex<Connection> {
        &self.lines[line % self.lines.len()]
    }

    /// Makes a call and returns the response, also one with an error status.
    async fn called(
        &self,
        connection: &Mutex<Connection>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Response> {
        let mut connection = connection.lock().await;
        Ok(connection.call(method, path, body.as_bytes(), PATIENCE).await?)
    }

    async fn call(
        &self,
        connection: &Mutex<Connection>,
        method: &str,
        path: &str,
        body: &str,
    ) -> Result<Response> {
        let response = self.called(connection, method, path, body).await?;
        ensure!(
            response.is_success(),
            "{method} {path} was answered {}: {}",
            response.status,
            String::from_utf8_lossy(&response.body)
        );
        Ok(response)
    }

    /// Schedules one timer with its own call.
    async fn single(
        &self,
        line: usize,
        namespace: &str,
        number: u64,
        due_ms: u64,
    ) -> Result<Outcome> {
        let payload = &self.payload;
        let body = format!(r#"{{"id":"{number}","due_at":{due_ms},"payload_text":"{payload}"}}"#);
        let path = path(namespace, "/timers");
        let response = self.called(self.line(line), "POST", &path, &body).await?;
        if response.is_success() {
            return Ok(read::<Made>(&response)?.outcome());
        }
        ensure!(
            (400..500).contains(&response.status),
            "POST {path} was answered {}: {}",
            response.status,
            String::from_utf8_lossy(&response.body)
        );
        Ok(Outcome::Refused(read::<Problem>(&response)?.code))
    }

    fn body(&self, operations: &[Operation]) -> String {
        let mut body = String::with_capacity(32 + operations.len() * (self.payload.len() + 90));
        body.push_str(r#"{"operations":["#);
        let payload = &self.payload;
        for (place, operation) in operations.iter().enumerate() {
            body.push_str(if place == 0 { "" } else { "," });
            match operation {
                Operation::Schedule { number, due_ms } | Operation::Repeat { number, due_ms } => write!(
                    body,
                    r#"{{"schedule":{{"id":"{number}","due_at":{due_ms},"payload_text":"{payload}"}}}}"#
                ),
                Operation::Replace { number, due_ms } => write!(
                    body,
                    r#"{{"schedule":{{"id":"{number}","due_at":{due_ms},"payload_text":"{payload}","if_exists":"replace"}}}}"#
                ),
                Operation::Reschedule { number, due_ms } => {
                    write!(body, r#"{{"reschedule":{{"id":"{number}","due_at":{due_ms}}}}}"#)
                }
                Operation::Cancel { number } => write!(body, r#"{{"cancel":{{"id":"{number}"}}}}"#),
            }
            .expect("a string takes all");
        }
        body.push_str("]}");
        body
    }
}

impl Transport for Http {
    fn make<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<()>> {
        let path = path(namespace, "");
        let mut body = json!({});
        if let Some(url) = &settings.url {
            body["destination"] = json!({ "http": { "url": url } });
        }
        if let Some(lease) = settings.lease {
            body["lease"] = json!(format!("{}ms", lease.as_millis()));
        }
        async move { self.call(self.line(line), "PUT", &path, &body.to_string()).await.map(|_| ()) }
            .boxed()
    }

    fn end<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<()>> {
        let path = path(namespace, "?force=true");
        async move {
            let response = self.called(self.line(line), "DELETE", &path, "").await?;
            ensure!(
                response.is_success() || response.status == 404,
                "DELETE {path} was answered {}: {}",
                response.status,
                String::from_utf8_lossy(&response.body)
            );
            Ok(())
        }
        .boxed()
    }

    fn pending<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<u64>> {
        let path = path(namespace, "/stats");
        async move {
            let response = self.call(self.line(line), "GET", &path, "").await?;
            Ok(read::<Stats>(&response)?.pending)
        }
        .boxed()
    }

    fn list<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<usize>> {
        let path = path(namespace, &format!("/timers?limit={PAGE}"));
        async move {
            let response = self.call(self.line(line), "GET", &path, "").await?;
            Ok(read::<Page>(&response)?.timers.len())
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
            if let [Operation::Schedule { number, due_ms }] = *operations {
                return Ok(vec![self.single(line, namespace, number, due_ms).await?]);
            }
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
            let body = format!(r#"{{"max":{max},"max_bytes":33554432,"wait":"{wait_ms}ms"}}"#);
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
        tokens: &'a [&'a str],
        verdict: super::Verdict,
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>> {
        async move {
            let verdict = match verdict {
                super::Verdict::Ack => r#""ack":{}"#,
                super::Verdict::DeadLetter => r#""dead":{"reason":"bench"}"#,
            };
            let mut body = String::with_capacity(32 + tokens.len() * 90);
            body.push_str(r#"{"settlements":["#);
            for (place, token) in tokens.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                write!(body, r#"{comma}{{"token":"{token}",{verdict}}}"#)
                    .expect("a string takes all");
            }
            body.push_str("]}");
            let response =
                self.call(self.line(line), "POST", &path(namespace, "/settle"), &body).await?;
            let results = read::<Settled>(&response)?.results;
            let answer = |verdict: Verdict| verdict.outcome.as_deref().and_then(settle_answer);
            Ok(results.into_iter().map(|one| answer(one).unwrap_or(REFUSED)).collect())
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
struct Page {
    timers: Vec<serde::de::IgnoredAny>,
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

impl Made {
    fn outcome(&self) -> Outcome {
        match self {
            Self { existing: true, .. } => Outcome::Existing,
            Self { replaced: true, .. } => Outcome::Replaced,
            Self { .. } => Outcome::Written,
        }
    }
}

#[derive(Deserialize)]
struct Problem {
    code: String,
}

impl Item {
    fn outcome(self) -> Result<Outcome> {
        Ok(match (self.timer, self.error, self.outcome.as_deref()) {
            (Some(made), ..) => made.outcome(),
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
