//! A complete server on a free port, with its clients.

use std::time::Duration;

use duly_api::v1::{
    self, cluster_client::ClusterClient, namespaces_client::NamespacesClient,
    timers_client::TimersClient,
};
use duly_server::{
    Running,
    config::{Flag, Source, load},
    start,
};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::transport::{Channel, Endpoint};

/// The namespace of most tests.
pub(super) const NAMESPACE: &str = "a";

/// A server under test.
pub(super) struct Server {
    pub(super) running: Running,
    _directory: tempfile::TempDir,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with these environment variables.
    pub(super) async fn with(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flag =
            |flag: &str, key, value: &str| Flag { flag: flag.into(), key, value: value.into() };
        let env = [
            ("DULY_STORE__MIN_FREE_BYTES", "0"),
            ("DULY_STORE__MIN_FREE_PERCENT", "0"),
            ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
        ];
        let env = env.iter().chain(settings);
        let config = load(&Source {
            file: None,
            env: env.map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            flags: vec![
                flag("--data", "store.data", directory.path().to_str().unwrap()),
                flag("--listen", "server.listen", "127.0.0.1:0"),
            ],
        })
        .unwrap();
        Self { running: start(config).await.unwrap(), _directory: directory }
    }

    /// Returns a connection of its own.
    pub(super) fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.running.addr())).unwrap().connect_lazy()
    }

    pub(super) fn timers(&self) -> TimersClient<Channel> {
        TimersClient::new(self.channel())
            .max_decoding_message_size(64 << 20)
            .max_encoding_message_size(64 << 20)
    }

    pub(super) fn namespaces(&self) -> NamespacesClient<Channel> {
        NamespacesClient::new(self.channel())
    }

    pub(super) fn cluster(&self) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel())
    }

    /// Returns the JSON response of HTTP.
    pub(super) async fn http(&self, method: &str, path: &str, body: &str) -> Value {
        self.http_at(method, &format!("{NAMESPACE}/{path}"), body).await
    }

    /// Returns the JSON response of HTTP for any namespace: the path is the part after
    /// `/v1/namespaces/`, or its query.
    pub(super) async fn http_at(&self, method: &str, path: &str, body: &str) -> Value {
        let mut stream = TcpStream::connect(self.running.addr()).await.unwrap();
        let slash = if path.starts_with('?') { "" } else { "/" };
        let request = format!(
            "{method} /v1/namespaces{slash}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: \
             close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Schedules one timer.
    pub(super) async fn schedule(&self, schedule: v1::Schedule) -> v1::Timer {
        self.timers().schedule(scheduling(schedule)).await.unwrap().into_inner()
    }

    /// Creates `count` due timers, named by their numbers.
    pub(super) async fn due(&self, count: usize, payload: &'static [u8]) {
        let operations = (0..count).map(|i| {
            let schedule = v1::Schedule {
                id: Some(format!("{i:05}")),
                payload_base64: Some(payload.into()),
                ..after(0)
            };
            v1::Operation { schedule: Some(schedule.into()), ..v1::Operation::default() }
        });
        let request =
            v1::BatchRequest { namespace: NAMESPACE.into(), operations: operations.collect() };
        let results = self.timers().batch(request).await.unwrap().into_inner().results;
        let made = |result: &v1::OperationResult| {
            result.timer.is_some() && result.cancelled.is_none() && result.error.is_none()
        };
        assert!(results.len() == count && results.iter().all(made));
    }

    /// Leases up to `max` firings, and waits for one.
    pub(super) async fn lease(&self, max: u32) -> Vec<v1::Firing> {
        let request = v1::LeaseRequest {
            namespace: NAMESPACE.into(),
            max: Some(max),
            max_bytes: Some(32 << 20),
            wait: Some(lasting(60_000)),
            ..v1::LeaseRequest::default()
        };
        self.timers().lease(request).await.unwrap().into_inner().firings
    }
}

/// A duration.
pub(super) fn lasting(ms: i64) -> duly_api::Duration {
    let nanos = i32::try_from(ms % 1_000 * 1_000_000).unwrap();
    duly_api::Duration::Span(prost_types::Duration { seconds: ms / 1_000, nanos })
}

/// A time, in seconds and nanoseconds since 1970.
pub(super) fn at(seconds: i64, nanos: i32) -> duly_api::Time {
    duly_api::Time::Unix(prost_types::Timestamp { seconds, nanos })
}

/// Returns a schedule that is due after `ms` milliseconds.
pub(super) fn after(ms: i64) -> v1::Schedule {
    v1::Schedule { delay: Some(lasting(ms)), ..v1::Schedule::default() }
}

/// A schedule of a timer with an id, due in an hour.
pub(super) fn named(id: &str) -> v1::Schedule {
    v1::Schedule { id: Some(id.into()), ..after(3_600_000) }
}

/// The request to schedule.
pub(super) fn scheduling(schedule: v1::Schedule) -> v1::ScheduleRequest {
    v1::ScheduleRequest { namespace: NAMESPACE.into(), schedule: Some(schedule) }
}

/// A verdict.
pub(super) fn ack(token: &str) -> v1::Settlement {
    v1::Settlement { token: token.into(), ack: Some(v1::Ack {}), ..v1::Settlement::default() }
}

/// The request to settle, and to lease nothing.
pub(super) fn settling(settlements: Vec<v1::Settlement>) -> v1::SettleRequest {
    v1::SettleRequest { namespace: NAMESPACE.into(), settlements, lease: None }
}

/// The result of a settlement that was not refused.
pub(super) fn settled(outcome: v1::SettleOutcome) -> v1::SettleResult {
    v1::SettleResult { outcome: Some(outcome.into()), error: None }
}

/// Fails after two minutes, which means a hang: no step of these tests takes a minute.
pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it does not come")
}
