//! A test server without sockets, on a store that counts claims and fails on demand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body};
use duly_api::v1::{self, consume_response::Kind, timers_client::TimersClient};
use duly_core::{
    Millis, NamespaceName, Schedule, TimerId, access::TenantLimits, env::Clock, schedule::IfExists,
    schedule::When, shard::ShardId,
};
use duly_node::Node;
use duly_sink::{Delivery, Envelope, Sink, http::AddressPolicy};
use duly_store::{
    Answer, ClaimRequest, Claimed, Command, Error, Health, Operation, SettleOutcome, Settlement,
    Store, StoreFuture, Timers,
    conformance::{ManualClock, StandIn},
    memory::MemoryStore,
    namespaces::Put,
};
use futures::{Stream, StreamExt, future::BoxFuture, stream};
use tokio::{sync::mpsc, time::timeout};
use tonic::{Status, Streaming};
use tower::{ServiceExt, util::MapRequest};

use crate::{
    audit::Audit,
    auth::{Auth, Caller},
    counting,
    http::{App, BackupLimits, Backups, Guard, ImplicitNamespaces, Limits, Parts},
    memory::budget::Budget,
    telemetry::Metrics,
};

pub(crate) const REQUEST_MEMORY: usize = 4 * 1024 * 1024;

/// Retry delay that a failing store returns.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(7);

/// Counts of the claims of a store, and of the next calls that fail.
#[derive(Debug, Default)]
pub(crate) struct ClaimCounts {
    pub(crate) granted: AtomicUsize,
    pub(crate) failing: AtomicUsize,
    pub(crate) settles_failing: AtomicUsize,
    /// `true`: the store reports work that hangs.
    pub(crate) stalled: AtomicBool,
    /// `true`: a change of the keys hangs.
    pub(crate) keys_stalled: AtomicBool,
}

fn fails(count: &AtomicUsize) -> Option<Error> {
    let less = |left: usize| left.checked_sub(1);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
    let retry_after = Millis::from_ms(u64::try_from(RETRY_AFTER.as_millis()).unwrap());
    Some(Error::Unavailable { reason: "asked to by the test".into(), retry_after })
}

#[derive(Debug)]
struct CountingStore(MemoryStore, Arc<ClaimCounts>);

impl StandIn for CountingStore {
    fn behind(&self) -> &dyn Store {
        &self.0
    }

    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        if let Some(error) = fails(&self.1.failing) {
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(async move {
            let claimed = self.0.claim(shard, request).await?;
            self.1.granted.fetch_add(claimed.firings.len(), Ordering::Relaxed);
            Ok(claimed)
        })
    }

    fn health(&self) -> Health {
        let stalled = self.1.stalled.load(Ordering::Relaxed);
        let stalls = stalled.then(|| "a sync hangs".to_owned()).into_iter().collect();
        let keys_stalled = self.1.keys_stalled.load(Ordering::Relaxed);
        let keys_stall = keys_stalled.then(|| "a change of the keys hangs".to_owned());
        Health { stalls, keys_stall, ..self.0.health() }
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        if let Some(error) = fails(&self.1.settles_failing) {
            return Box::pin(std::future::ready(Err(error)));
        }
        self.0.settle(shard, settlements)
    }
}

struct PendingSink;

impl Sink for PendingSink {
    fn deliver(&self, _: Envelope) -> BoxFuture<'_, Delivery> {
        Box::pin(std::future::pending())
    }
}

pub(crate) struct TestServer {
    pub(crate) app: App,
    pub(crate) claims: Arc<ClaimCounts>,
}

/// The service that a client calls in place of a connection.
type DirectService =
    MapRequest<Router, fn(http::Request<tonic::body::Body>) -> http::Request<Body>>;

/// The origin of pages that may call a [`TestServer`].
pub(crate) const ALLOWED_ORIGIN: &str = "https://console.example";

impl TestServer {
    /// Starts a server with the namespace `a`.
    pub(crate) async fn start() -> Self {
        Self::start_with(Auth::new(false, None, false)).await
    }

    /// Starts a server with this authentication and the namespace `a`.
    pub(crate) async fn start_with(auth: Auth) -> Self {
        Self::start_audited(auth, |_| Audit::off()).await
    }

    /// Starts a server with this authentication, this audit log and the namespace `a`.
    pub(crate) async fn start_audited(
        auth: Auth,
        audit: impl FnOnce(&Arc<dyn Store>) -> Audit,
    ) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let claims = Arc::<ClaimCounts>::default();
        let memory = MemoryStore::new(Arc::clone(&clock), 1);
        let store: Arc<dyn Store> = Arc::new(CountingStore(memory, Arc::clone(&claims)));
        let reasons = counting::reason_limit(&auth);
        let options = duly_node::Options { reasons, ..duly_node::Options::default() };
        let node =
            Node::start(Arc::clone(&store), Arc::new(PendingSink), Arc::clone(&clock), options);
        let app = App::new(Parts {
            audit: audit(&store),
            store,
            node,
            clock,
            implicit_namespaces: ImplicitNamespaces::Create,
            defaults: duly_core::Settings::default(),
            guard: Guard {
                listen: vec![[127, 0, 0, 1].into()],
                allowed_hosts: Vec::new(),
                allowed_origins: vec![ALLOWED_ORIGIN.to_owned()],
                trusted_proxies: Vec::new(),
            },
            auth,
            addresses: AddressPolicy::with_loopback(),
            limits: Limits {
                tenant_limits_max: TenantLimits::default(),
                body_bytes_max: 1024 * 1024,
                request_memory_max: REQUEST_MEMORY,
                request_timeout: Duration::from_secs(30),
                implicit_namespaces_per_second: 20,
            },
            backups: Backups::new(
                None,
                BackupLimits { count_max: 0, interval: Duration::ZERO },
                None,
            ),
            metrics: Metrics::install(),
        });
        let server = Self { app, claims };
        let name = NamespaceName::new("a").unwrap();
        let settings = Box::default();
        let put = Put::Replace { settings, secrets: duly_store::namespaces::Secrets::Set };
        server.app.store.put_namespace(name, put).await.unwrap();
        server
    }

    pub(crate) fn direct(&self) -> DirectService {
        crate::grpc::router(self.app.clone()).map_request(|request| request.map(Body::new))
    }

    /// Creates due timers directly in the store, so that no request memory is counted.
    pub(crate) async fn due(&self, count: usize) {
        let commands = (0..count).map(|i| {
            let id = TimerId::new(&format!("t{i}")).unwrap();
            let schedule = Box::new(Schedule::new(id, When::After(Millis::ZERO)));
            Command {
                namespace: NamespaceName::new("a").unwrap(),
                operation: Operation::Schedule { schedule, if_exists: IfExists::default() },
                answer: Answer::Whole,
            }
        });
        self.app.store.apply(ShardId(0), commands.collect()).await.unwrap();
    }

    pub(crate) fn granted(&self) -> usize {
        self.claims.granted.load(Ordering::Relaxed)
    }

    /// Returns the memory of requests and responses.
    pub(crate) fn budget(&self) -> Budget {
        self.app.budget_of(&Caller::Anyone)
    }

    /// Returns `true` if no request memory is in use.
    pub(crate) fn uses_no_memory(&self) -> bool {
        let all_but_one = self.budget().reserve_unchecked(REQUEST_MEMORY - 1);
        let has_capacity = self.budget().reserve(1).is_ok();
        drop(all_but_one);
        has_capacity
    }
}

/// A consumer.
pub(crate) struct Consumer {
    pub(crate) send: mpsc::Sender<v1::ConsumeRequest>,
    pub(crate) receive: Streaming<v1::ConsumeResponse>,
}

fn receiving<T>(receiver: mpsc::Receiver<T>) -> impl Stream<Item = T> {
    stream::unfold(receiver, |mut receiver| async {
        let item = receiver.recv().await?;
        Some((item, receiver))
    })
}

impl Consumer {
    /// Opens a stream whose leases last `lease_secs`.
    pub(crate) async fn open(server: &TestServer, credits: u32, lease_secs: u64) -> Self {
        Self::open_as(server, credits, lease_secs, None).await
    }

    /// The same with this value of `authorization`.
    pub(crate) async fn open_as(
        server: &TestServer,
        credits: u32,
        lease_secs: u64,
        authorization: Option<&str>,
    ) -> Self {
        let (send, requests) = mpsc::channel(10);
        let lease = Some(Duration::from_secs(lease_secs).into());
        let open = Some(v1::ConsumeOpen { namespace: "a".into(), lease });
        send.send(v1::ConsumeRequest { open, credits, settlements: Vec::new() }).await.unwrap();
        let origin = "http://localhost".parse().unwrap();
        let mut client = TimersClient::with_origin(server.direct(), origin);
        let mut request = tonic::Request::new(receiving(requests));
        if let Some(value) = authorization {
            request.metadata_mut().insert("authorization", value.parse().unwrap());
        }
        Self { send, receive: client.consume(request).await.unwrap().into_inner() }
    }

    pub(crate) async fn send(&self, credits: u32, settlements: Vec<v1::Settlement>) {
        self.send.send(v1::ConsumeRequest { open: None, credits, settlements }).await.unwrap();
    }

    /// Returns the next message; panics after an hour, which means a hang.
    pub(crate) async fn receive(&mut self) -> Option<Result<Kind, Status>> {
        let next = timeout(Duration::from_secs(3_600), self.receive.next()).await;
        Some(next.expect("nothing comes")?.map(|answer| answer.kind.unwrap()))
    }

    pub(crate) async fn firings(&mut self) -> Vec<v1::Firing> {
        match self.receive().await {
            Some(Ok(Kind::Firings(firings))) => firings.firings,
            other => panic!("{other:?}"),
        }
    }
}
