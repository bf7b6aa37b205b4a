//! gRPC transport with the generated client: many calls in flight on a few connections. Single
//! schedule calls have one connection per line.

mod consume;
mod recording;
mod singles;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::Result;
use duly_api::{
    Destination, IfExists, LeaseRequest, NamespaceSettings, OperationResult, Reschedule, Schedule,
    SettleOutcome, SettleResult, Settlement, Timer,
    v1::{self, namespaces_client::NamespacesClient, timers_client::TimersClient},
};
use duly_checker::history::SettleAnswer;
use futures::future::{BoxFuture, FutureExt as _};
use tonic::transport::{Channel, Endpoint};

pub(crate) use consume::StreamMessage;

use self::singles::Singles;
use super::{Firing, Operation, Outcome, PAGE, Settings, Transport, Verdict};

/// Most connections.
const CONNECTIONS: usize = 4;
/// Longest time of a call.
const PATIENCE: Duration = Duration::from_secs(120);
/// Most bytes of payloads and headers of one lease.
const LEASE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Flow-control window of a connection and of each stream: large enough for a batch without a wait.
const WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// A gRPC client of a server.
#[derive(Clone, Debug)]
pub(crate) struct Grpc {
    channels: Vec<Channel>,
    singles: Arc<Singles>,
    payload: String,
}

impl Grpc {
    /// Creates a client with as many connections as `lines` lines can use.
    pub(crate) fn new(address: SocketAddr, lines: usize, payload: String) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?
            .tcp_nodelay(true)
            .timeout(PATIENCE)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let count = lines.clamp(1, CONNECTIONS);
        let singles = Arc::new(Singles::new(address, lines)?);
        Ok(Self {
            channels: (0..count).map(|_| endpoint.connect_lazy()).collect(),
            singles,
            payload,
        })
    }

    fn timers(&self, line: usize) -> TimersClient<Channel> {
        TimersClient::new(self.channels[line % self.channels.len()].clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX)
    }

    fn namespaces(&self) -> NamespacesClient<Channel> {
        NamespacesClient::new(self.channels[0].clone())
    }

    fn schedule(&self, number: u64, due_ms: u64, if_exists: IfExists) -> Schedule {
        schedule(number, due_ms, if_exists, self.payload.clone())
    }

    /// Schedules one timer with its own call.
    async fn single(&self, line: usize, namespace: &str, one: Schedule) -> Result<Outcome> {
        let request = v1::ScheduleRequest { namespace: namespace.to_owned(), schedule: Some(one) };
        match self.singles.schedule(line, &request).await? {
            Ok(timer) => Ok(scheduled(&timer)),
            Err(status) if is_refusal(status.code()) => {
                Ok(Outcome::Refused(status.message().to_owned()))
            }
            Err(status) => Err(said(status)),
        }
    }

    async fn leased(
        &self,
        line: usize,
        namespace: &str,
        max: u32,
        wait: Duration,
    ) -> Result<Vec<v1::Firing>> {
        let request = LeaseRequest {
            namespace: namespace.to_owned(),
            ..LeaseRequest::up_to(max).with_max_bytes(LEASE_BYTES_MAX).with_wait(wait)
        };
        let response = self.timers(line).lease(request).await.map_err(said)?;
        Ok(response.into_inner().firings)
    }

    fn operation(&self, operation: &Operation) -> v1::Operation {
        match *operation {
            Operation::Schedule { number, due_ms } | Operation::Repeat { number, due_ms } => {
                self.schedule(number, due_ms, IfExists::Fail).into()
            }
            Operation::Reschedule { number, due_ms } => reschedule(number, due_ms),
            Operation::Replace { number, due_ms } => {
                self.schedule(number, due_ms, IfExists::Replace).into()
            }
            Operation::Cancel { number } => v1::Operation::cancel(number.to_string()),
        }
    }
}

impl Transport for Grpc {
    fn make<'a>(
        &'a self,
        _: usize,
        namespace: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<()>> {
        let destination = settings.url.clone().map(Destination::http);
        let lease = settings.lease.map(Into::into);
        let settings =
            Some(NamespaceSettings { destination, lease, ..NamespaceSettings::default() });
        let request = v1::PutNamespaceRequest { namespace: namespace.to_owned(), settings };
        async move { self.namespaces().put(request).await.map(|_| ()).map_err(said) }.boxed()
    }

    fn end<'a>(&'a self, _: usize, namespace: &'a str) -> BoxFuture<'a, Result<()>> {
        let request = v1::DeleteNamespaceRequest { namespace: namespace.to_owned(), force: true };
        async move {
            match self.namespaces().delete(request).await {
                Err(status) if status.code() != tonic::Code::NotFound => Err(said(status)),
                _ => Ok(()),
            }
        }
        .boxed()
    }

    fn pending<'a>(&'a self, _: usize, namespace: &'a str) -> BoxFuture<'a, Result<u64>> {
        let request = v1::StatsRequest { namespace: namespace.to_owned() };
        async move { Ok(self.namespaces().stats(request).await.map_err(said)?.into_inner().pending) }
            .boxed()
    }

    fn list<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<usize>> {
        let namespace = namespace.to_owned();
        let request = v1::ListRequest { namespace, limit: Some(PAGE), ..Default::default() };
        async move {
            let page = self.timers(line).list(request).await.map_err(said)?;
            Ok(page.into_inner().timers.len())
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
                let one = self.schedule(number, due_ms, IfExists::Fail);
                return Ok(vec![self.single(line, namespace, one).await?]);
            }
            let operations = operations.iter().map(|one| self.operation(one)).collect();
            let request = v1::BatchRequest { namespace: namespace.to_owned(), operations };
            let response = self.timers(line).batch(request).await.map_err(said)?;
            response.into_inner().results.into_iter().map(outcome).collect()
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
            let wait = Duration::from_millis(wait_ms.into());
            let firings = self.leased(line, namespace, max, wait).await?;
            Ok(firings.into_iter().map(firing).collect())
        }
        .boxed()
    }

    fn settle<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        tokens: &'a [&'a str],
        verdict: Verdict,
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>> {
        async move {
            let settlement = |token: &&str| match verdict {
                Verdict::Ack => Settlement::ack(*token),
                Verdict::DeadLetter => Settlement::dead(*token, "bench"),
            };
            let settlements = tokens.iter().map(settlement).collect();
            let namespace = namespace.to_owned();
            let request = v1::SettleRequest { namespace, settlements, lease: None };
            let response = self.timers(line).settle(request).await.map_err(said)?;
            Ok(response.into_inner().results.into_iter().map(settled).collect())
        }
        .boxed()
    }
}

/// Converts the result of a settlement. A refused settlement settles nothing.
fn settled(result: SettleResult) -> SettleAnswer {
    match result.outcome() {
        SettleOutcome::Ok | SettleOutcome::Cancelled => SettleAnswer::Ok,
        SettleOutcome::Dead => SettleAnswer::Dead,
        SettleOutcome::AlreadySettled => SettleAnswer::AlreadySettled,
        SettleOutcome::LeaseLost => SettleAnswer::LeaseLost,
        SettleOutcome::InvalidToken | SettleOutcome::Unspecified => SettleAnswer::InvalidToken,
    }
}

fn outcome(result: OperationResult) -> Result<Outcome> {
    Ok(match result {
        OperationResult { error: Some(problem), .. } => Outcome::Refused(problem.code),
        OperationResult { timer: Some(timer), .. } => scheduled(&timer),
        OperationResult { cancelled: Some(_), .. } => Outcome::Cancelled,
        OperationResult { .. } => anyhow::bail!("the server answered a result that is none"),
    })
}

const fn scheduled(timer: &Timer) -> Outcome {
    match timer {
        Timer { existing: true, .. } => Outcome::Existing,
        Timer { replaced: true, .. } => Outcome::Replaced,
        Timer { .. } => Outcome::Written,
    }
}

fn reschedule(number: u64, due_ms: u64) -> v1::Operation {
    let change = Reschedule::at(UNIX_EPOCH + Duration::from_millis(due_ms));
    v1::Operation::reschedule(number.to_string(), change)
}

fn schedule(number: u64, due_ms: u64, if_exists: IfExists, payload: String) -> Schedule {
    Schedule::at(UNIX_EPOCH + Duration::from_millis(due_ms))
        .with_id(number.to_string())
        .with_text(payload)
        .with_if_exists(if_exists)
}

/// Returns `true` if this status means that the server understood the call and refused it.
fn is_refusal(code: tonic::Code) -> bool {
    use tonic::Code;
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::ResourceExhausted
    )
}

fn said(status: tonic::Status) -> anyhow::Error {
    anyhow::anyhow!("the server answered {:?}: {}", status.code(), status.message())
}

fn firing(firing: v1::Firing) -> Firing {
    Firing { number: firing.id.parse().ok(), token: firing.token }
}
