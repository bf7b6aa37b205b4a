//! A scripted server: it counts batches, holds them back, and refuses them as configured. It has no
//! timers; its results are made up.

use std::{net::SocketAddr, pin::Pin, sync::Arc};

use duly_api::v1::{
    self,
    timers_server::{Timers, TimersServer},
};
use duly_client::{
    Batching, CancelResponse, Client, LeaseRequest, LeaseResponse, ListRequest, ListResponse,
    Operation, OperationResult, State, Timer,
};
use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};
use tonic::{Code, Request, Response, Status, Streaming, service::Routes, transport::Server};
use tonic_types::{ErrorDetails, StatusExt};

/// The configuration of the server, and the requests it has received.
pub(super) struct Script {
    /// Ids of the operations of each batch.
    pub(super) batches: Mutex<Vec<Vec<String>>>,
    /// Number of batches received.
    pub(super) seen: watch::Sender<usize>,
    /// Number of batches that may get a response.
    pub(super) gate: Semaphore,
    /// Most operations of a request; a larger one is refused.
    pub(super) operations_max: usize,
    /// `authorization` and `user-agent` of the last batch.
    pub(super) caller: Mutex<(Option<String>, Option<String>)>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            batches: Mutex::default(),
            seen: watch::Sender::new(0),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            operations_max: usize::MAX,
            caller: Mutex::default(),
        }
    }
}

impl Script {
    /// Returns a server that holds back all responses until `open` is called.
    pub(super) fn closed() -> Self {
        Self { gate: Semaphore::new(0), ..Self::default() }
    }

    /// Returns the number of operations of each batch.
    pub(super) fn sizes(&self) -> Vec<usize> {
        self.batches.lock().iter().map(Vec::len).collect()
    }

    /// Waits until this many batches have been received.
    pub(super) async fn batch(&self, count: usize) {
        self.seen.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
    }

    /// Lets all batches get a response.
    pub(super) fn open(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    /// Serves in cleartext.
    pub(super) async fn serve(self: &Arc<Self>) -> SocketAddr {
        self.serve_by(Server::builder()).await
    }

    pub(super) async fn serve_by(self: &Arc<Self>, server: Server) -> SocketAddr {
        self.serve_below("", server).await
    }

    /// Serves below a path, like a proxy; `""` for none.
    pub(super) async fn serve_below(
        self: &Arc<Self>,
        path: &str,
        mut server: Server,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut routes = Routes::new(TimersServer::new(Follower(Arc::clone(self))));
        if !path.is_empty() {
            let below = routes.into_axum_router();
            routes = Routes::default().into_axum_router().nest(path, below).into();
        }
        let incoming = stream::unfold(listener, |listener| async {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let serving = server.add_routes(routes).serve_with_incoming(incoming);
        tokio::spawn(async move { serving.await.unwrap() });
        address
    }

    /// Serves, and returns a client.
    pub(super) async fn client(self: &Arc<Self>, batching: Batching) -> Client {
        let url = format!("http://{}", self.serve().await);
        Client::builder(url).batching(batching).build().unwrap()
    }
}

struct Follower(Arc<Script>);

fn id_of(operation: &Operation) -> String {
    operation.timer_id().to_owned()
}

fn done(operation: &Operation) -> OperationResult {
    if operation.cancel.is_some() {
        let cancelled = Some(CancelResponse::cancelled(0, false, false));
        return OperationResult { cancelled, ..OperationResult::default() };
    }
    let (id, state) = (id_of(operation), State::Scheduled.into());
    let timer = Some(Box::new(Timer { id, state, ..Timer::default() }));
    OperationResult { timer, ..OperationResult::default() }
}

/// Duly's error for a request that is too large.
fn too_large() -> Status {
    let mut details = ErrorDetails::new();
    let code = [("code".to_owned(), "request_too_large".to_owned())];
    details.set_error_info("REQUEST_TOO_LARGE", "duly", code);
    Status::with_error_details(Code::InvalidArgument, "split the request", details)
}

type Answer<T> = Result<Response<T>, Status>;

fn none<T>() -> Answer<T> {
    Err(Status::unimplemented("not in the script"))
}

#[tonic::async_trait]
impl Timers for Follower {
    async fn batch(&self, request: Request<v1::BatchRequest>) -> Answer<v1::BatchResponse> {
        let header = |name| {
            let value = request.metadata().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        };
        *self.0.caller.lock() = (header("authorization"), header("user-agent"));
        let operations = request.into_inner().operations;
        self.0.batches.lock().push(operations.iter().map(id_of).collect());
        self.0.seen.send_modify(|seen| *seen += 1);
        self.0.gate.acquire().await.unwrap().forget();
        if operations.len() > self.0.operations_max {
            return Err(too_large());
        }
        Ok(Response::new(v1::BatchResponse { results: operations.iter().map(done).collect() }))
    }

    type ConsumeStream =
        Pin<Box<dyn Stream<Item = Result<v1::ConsumeResponse, Status>> + Send + 'static>>;

    async fn consume(
        &self,
        _: Request<Streaming<v1::ConsumeRequest>>,
    ) -> Answer<Self::ConsumeStream> {
        Err(Status::permission_denied("not you"))
    }

    async fn schedule(&self, _: Request<v1::ScheduleRequest>) -> Answer<Timer> {
        none()
    }

    async fn get(&self, _: Request<v1::GetRequest>) -> Answer<Timer> {
        none()
    }

    async fn reschedule(&self, _: Request<v1::RescheduleRequest>) -> Answer<Timer> {
        none()
    }

    async fn cancel(&self, _: Request<v1::CancelRequest>) -> Answer<CancelResponse> {
        none()
    }

    async fn fire(&self, _: Request<v1::FireRequest>) -> Answer<Timer> {
        none()
    }

    /// Lists two pages of a timer each; the first is without two shards.
    async fn list(&self, request: Request<ListRequest>) -> Answer<ListResponse> {
        let timer = |id: &str| Timer { id: id.into(), ..Timer::default() };
        Ok(Response::new(match request.into_inner().cursor {
            None => ListResponse {
                timers: vec![timer("a")],
                cursor: Some("2".into()),
                unavailable_shards: vec![1, 4],
                ..ListResponse::default()
            },
            Some(_) => ListResponse { timers: vec![timer("b")], ..ListResponse::default() },
        }))
    }

    async fn lease(&self, _: Request<LeaseRequest>) -> Answer<LeaseResponse> {
        none()
    }

    async fn settle(&self, _: Request<v1::SettleRequest>) -> Answer<v1::SettleResponse> {
        none()
    }

    async fn cancel_many(
        &self,
        _: Request<v1::CancelManyRequest>,
    ) -> Answer<v1::CancelManyResponse> {
        none()
    }

    async fn redrive(&self, _: Request<v1::RedriveRequest>) -> Answer<v1::RedriveResponse> {
        none()
    }

    async fn purge(&self, _: Request<v1::PurgeRequest>) -> Answer<v1::PurgeResponse> {
        none()
    }

    async fn forget(&self, _: Request<v1::ForgetRequest>) -> Answer<v1::ForgetResponse> {
        none()
    }

    async fn dead_letter_overdue(
        &self,
        _: Request<v1::DeadLetterOverdueRequest>,
    ) -> Answer<v1::DeadLetterOverdueResponse> {
        none()
    }
}
