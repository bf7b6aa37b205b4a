//! gRPC by the generated client, over a few connections on which many calls are under way; single
//! schedules over a connection for each line.

mod consume;
mod singles;
mod witness;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use duly_checker::history::SettleAnswer;
use duly_proto::v1::{
    self, namespaces_client::NamespacesClient, operation, operation_result, schedule,
    settle_result, settlement, timers_client::TimersClient,
};
use futures::future::{BoxFuture, FutureExt as _};
use tonic::transport::{Channel, Endpoint};

pub(crate) use consume::HeartbeatReply;

use self::singles::Singles;
use super::{Firing, Operation, Outcome, Settings, Transport};

/// Connections, at most.
const CONNECTIONS: usize = 4;
/// Longest time of a call.
const PATIENCE: Duration = Duration::from_secs(120);
/// Window of a connection and of each stream: a batch need not wait for the other side.
const WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// A server over gRPC.
#[derive(Clone, Debug)]
pub struct Grpc {
    channels: Vec<Channel>,
    singles: Arc<Singles>,
    payload: String,
}

impl Grpc {
    /// With as many connections as are of use to so many lines.
    pub fn new(address: SocketAddr, lines: usize, payload: String) -> Result<Self> {
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

    fn schedule(&self, number: u64, due_ms: u64, if_exists: v1::IfExists) -> v1::Schedule {
        self.schedule_with(number, due_ms, if_exists, self.payload.clone())
    }

    fn schedule_with(
        &self,
        number: u64,
        due_ms: u64,
        if_exists: v1::IfExists,
        payload: String,
    ) -> v1::Schedule {
        v1::Schedule {
            id: Some(number.to_string()),
            when: Some(schedule::When::DueAt(timestamp(due_ms))),
            payload: Some(payload.into()),
            payload_form: v1::PayloadForm::Text.into(),
            if_exists: if_exists.into(),
            ..v1::Schedule::default()
        }
    }

    /// One schedule by a call of its own.
    async fn single(&self, line: usize, namespace: &str, one: v1::Schedule) -> Result<Outcome> {
        let request = v1::ScheduleRequest { namespace: namespace.to_owned(), schedule: Some(one) };
        match self.singles.schedule(line, &request).await? {
            Ok(response) => Ok(scheduled(response.outcome())),
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
        let request = v1::LeaseRequest {
            namespace: namespace.to_owned(),
            max: Some(max),
            max_bytes: Some(32 * 1024 * 1024),
            lease: None,
            wait: prost_types::Duration::try_from(wait).ok(),
        };
        let response = self.timers(line).lease(request).await.map_err(said)?;
        Ok(response.into_inner().firings)
    }

    fn operation(&self, operation: &Operation) -> v1::Operation {
        let operation = match *operation {
            Operation::Schedule { number, due_ms } => {
                operation::Operation::Schedule(self.schedule(number, due_ms, v1::IfExists::Fail))
            }
            Operation::Replace { number, due_ms } => {
                operation::Operation::Schedule(self.schedule(number, due_ms, v1::IfExists::Replace))
            }
            Operation::Cancel { number } => operation::Operation::Cancel(v1::Cancel {
                id: number.to_string(),
                if_revision: None,
            }),
        };
        v1::Operation { operation: Some(operation) }
    }
}

impl Transport for Grpc {
    fn make<'a>(
        &'a self,
        _: usize,
        namespace: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<()>> {
        let http = |url: &String| v1::HttpDestination { url: url.clone(), ..Default::default() };
        let destination = settings
            .url
            .as_ref()
            .map(|url| v1::Destination { kind: Some(v1::destination::Kind::Http(http(url))) });
        let lease = settings.lease.and_then(|lease| prost_types::Duration::try_from(lease).ok());
        let settings =
            Some(v1::NamespaceSettings { destination, lease, ..v1::NamespaceSettings::default() });
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

    fn batch<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        operations: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>> {
        async move {
            if let [Operation::Schedule { number, due_ms }] = *operations {
                let one = self.schedule(number, due_ms, v1::IfExists::Fail);
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
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>> {
        async move {
            let settlements = tokens.iter().map(|token| acknowledgement(token)).collect();
            let request = v1::SettleRequest { namespace: namespace.to_owned(), settlements };
            let response = self.timers(line).settle(request).await.map_err(said)?;
            Ok(response.into_inner().results.into_iter().map(settled).collect())
        }
        .boxed()
    }
}

fn acknowledgement(token: &str) -> v1::Settlement {
    v1::Settlement { token: token.to_owned(), verdict: Some(settlement::Verdict::Ack(v1::Ack {})) }
}

/// A settlement that is refused as such settles nothing.
fn settled(result: v1::SettleResult) -> SettleAnswer {
    let Some(settle_result::Result::Outcome(outcome)) = result.result else {
        return SettleAnswer::InvalidToken;
    };
    match v1::SettleOutcome::try_from(outcome) {
        Ok(v1::SettleOutcome::Ok) => SettleAnswer::Ok,
        Ok(v1::SettleOutcome::Dead) => SettleAnswer::Dead,
        Ok(v1::SettleOutcome::AlreadySettled) => SettleAnswer::AlreadySettled,
        Ok(v1::SettleOutcome::LeaseLost) => SettleAnswer::LeaseLost,
        Ok(v1::SettleOutcome::InvalidToken | v1::SettleOutcome::Unspecified) | Err(_) => {
            SettleAnswer::InvalidToken
        }
    }
}

fn outcome(result: v1::OperationResult) -> Result<Outcome> {
    use operation_result::Result as Of;
    Ok(match result.result.context("the server answered a result that is none")? {
        Of::Scheduled(made) => scheduled(made.outcome()),
        Of::Cancelled(_) => Outcome::Cancelled,
        Of::Error(problem) => Outcome::Refused(problem.code),
        Of::Timer(_) => anyhow::bail!("the server answered a timer, and none was asked for"),
    })
}

fn scheduled(outcome: v1::ScheduleOutcome) -> Outcome {
    match outcome {
        v1::ScheduleOutcome::Existing => Outcome::Existing,
        v1::ScheduleOutcome::Replaced => Outcome::Replaced,
        v1::ScheduleOutcome::Created | v1::ScheduleOutcome::Unspecified => Outcome::Created,
    }
}

/// Whether a call that ended so was understood and refused.
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

fn unix_ms(time: prost_types::Timestamp) -> Option<u64> {
    let seconds = u64::try_from(time.seconds).ok()?;
    Some(seconds * 1_000 + u64::try_from(time.nanos).ok()? / 1_000_000)
}

fn timestamp(unix_ms: u64) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(unix_ms % 1_000).unwrap_or(0) * 1_000_000,
    }
}
