//! Pull: lease calls wait in a queue, and are answered as soon as a firing is claimable.
//!
//! 1. A call is queued, and each namespace with calls is served by one task. The task claims for the
//!    call at the head and answers it. It continues until nothing is claimable or no call waits.
//! 2. The same task starts when a shard loop finds claimable firings in a pull lane.
//! 3. If the caller of a claim disconnects before [`Leased::delivered`], the firings are released and
//!    not counted.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_core::{Millis, NamespaceName, payload::PAYLOAD_BYTES_HARD, shard::ShardId};
use duly_store::{Error, Firing, Result, Token};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use crate::{
    lanes::AttemptKind,
    phase::Phase,
    recorder::{DeliveryMode, Recorder},
    state::Shared,
};

mod claim;
mod hints;
mod stream_leases;
mod waiters;

use hints::{ExpectedFirings, Hints};
pub use stream_leases::{PendingReply, StreamLeases};
use waiters::{EmptyClaim, Serve, WaitMode, Waiters};

/// Time within which a claim must report whether a shard has anything else; after it the shard is
/// walked.
const REPORTED_WITHIN: Duration = Duration::from_millis(50);
/// Retry delay for a caller that found the queue full.
const FULL_RETRY_AFTER: Millis = Millis::from_secs(1);

/// A memory budget for the firings of lease calls. Memory is reserved when the turn of a call has come,
/// so a call that waits holds none. Firings that do not fit are not claimed.
pub trait LeaseMemory: fmt::Debug + Send + Sync {
    /// Sets the largest size of one payload: the first firing is returned regardless of its size.
    fn expect(&self, payload_bytes_max: u64);

    /// Reserves memory before a claim. Returns the number of bytes reserved, at most `bytes_max`; `None`
    /// if there is too little. It may wait for other claims.
    fn set_aside(&self, bytes_max: u64) -> BoxFuture<'_, Option<u64>>;

    /// Releases the reserved memory, because nothing was claimed.
    fn let_go(&self);
}

/// A lease call of a consumer.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Namespace whose firings are leased.
    pub namespace: NamespaceName,
    /// Most firings.
    pub max: usize,
    /// Most bytes of payload and headers; the first firing is returned regardless of its size.
    pub bytes_max: u64,
    /// Duration of the lease; the namespace's default if absent.
    pub lease: Option<Millis>,
    /// Longest wait for a firing; with zero the call tries once.
    pub wait: Duration,
    /// Memory budget for the firings, if there is one.
    pub memory: Option<Arc<dyn LeaseMemory>>,
}

impl LeaseRequest {
    /// Reserves memory. Returns the bytes that may be claimed now; `None` if there is too little memory.
    async fn reserve(&self) -> Option<u64> {
        match &self.memory {
            Some(memory) => memory.set_aside(self.bytes_max).await,
            None => Some(self.bytes_max),
        }
    }

    fn release(&self) {
        if let Some(memory) = &self.memory {
            memory.let_go();
        }
    }
}

/// The result of a lease call. If it is dropped before [`Leased::delivered`], its firings are released
/// and not counted.
#[derive(Debug, Default)]
pub struct Leased {
    /// The firings; empty if there were none in time.
    pub firings: Vec<Firing>,
    /// `true`: there are none because the namespace is paused.
    pub paused: bool,
    claims: Option<Claims>,
}

impl Leased {
    fn new(shared: &Arc<Shared>, firings: Vec<Firing>) -> Self {
        let tokens = firings.iter().map(|f| (f.token.clone(), f.namespace.clone())).collect();
        Self { firings, paused: false, claims: Some(Claims { shared: Arc::clone(shared), tokens }) }
    }

    fn paused() -> Self {
        Self { paused: true, ..Self::default() }
    }

    /// Marks the reply as written: the consumer holds the leases from now on.
    pub fn delivered(mut self) {
        if let Some(claims) = &mut self.claims {
            claims.tokens.clear();
        }
    }
}

/// Claims that are released unless their reply is written.
#[derive(Debug)]
struct Claims {
    shared: Arc<Shared>,
    tokens: Vec<(Token, NamespaceName)>,
}

impl Drop for Claims {
    fn drop(&mut self) {
        for (token, namespace) in self.tokens.drain(..) {
            self.shared.release_later(token, namespace);
        }
    }
}

type ReplySender = oneshot::Sender<Result<Leased>>;

/// The queues of waiting calls.
#[derive(Debug)]
pub(crate) struct Pull {
    pub(crate) waiters: Mutex<Waiters<LeaseRequest, ReplySender>>,
    hints: Mutex<Hints>,
    expected: Mutex<ExpectedFirings>,
    /// Shards for which a claim must report whether they have to be walked.
    unwalked: Mutex<FxHashSet<ShardId>>,
    /// Shard at which the next claim starts; it rotates.
    next_shard: AtomicU16,
    /// Number of namespaces that are being served: a claim may be under way.
    serving: AtomicUsize,
}

impl Pull {
    pub(crate) fn new(waiters_max: usize) -> Self {
        Self {
            waiters: Mutex::new(Waiters::new(waiters_max)),
            hints: Mutex::default(),
            expected: Mutex::default(),
            unwalked: Mutex::default(),
            next_shard: AtomicU16::new(0),
            serving: AtomicUsize::new(0),
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiters.lock().len()
    }

    /// Returns the number of namespaces that are being served.
    pub(crate) fn serving(&self) -> usize {
        self.serving.load(Ordering::Acquire)
    }

    /// Answers every waiting call with no firings.
    pub(crate) fn answer_all_empty(&self) {
        let answers = self.waiters.lock().take_all();
        for answer in answers {
            answer.send(Ok(Leased::default())).ok();
        }
    }
}

/// Starts to serve the namespace: its pull lane may have claimable firings in a shard.
pub(crate) fn ready(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName) {
    if shared.nodes.is_shared() {
        shared.pull.hints.lock().add(namespace, shard);
    }
    let serve = shared.pull.waiters.lock().ready(namespace);
    start(shared, namespace, serve);
}

/// Records that a walk has seen retries in the namespace's pull lane.
pub(crate) fn record_retries(shared: &Shared, namespace: &NamespaceName) {
    if shared.nodes.is_shared() {
        shared.pull.hints.lock().record_retries(namespace, shared.clock.boot());
    }
}

/// Does the same as [`ready`], and lets the claim report whether the shard has anything else. If no
/// claim reports in time, the shard is walked.
pub(crate) fn ready_unwalked(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName) {
    shared.pull.unwalked.lock().insert(shard);
    ready(shared, shard, namespace);
    if !shared.pull.waiters.lock().is_waited_for(namespace) {
        walk_unless_empty(shared, shard, false);
        return;
    }
    // The claim may wait for a claim in another shard, whose server is down.
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(REPORTED_WITHIN).await;
        walk_unless_empty(&shared, shard, false);
    });
}

/// Records that a namespace that has claimed in a shard will have a firing there at this wall time. With
/// `all` that is its first firing of any kind, otherwise the first of the kinds that were claimed.
pub(crate) fn record_expected(
    shared: &Shared,
    shard: ShardId,
    namespace: &NamespaceName,
    wall: Duration,
    all: bool,
) {
    shared.pull.expected.lock().add(shard, namespace, wall, all);
    shared.waker.wake_by(shard, wall);
}

/// Takes the namespaces that were expected to have a firing in a shard by now.
pub(crate) fn take_expected(shared: &Shared, shard: ShardId) -> Vec<NamespaceName> {
    let (due, next) = shared.pull.expected.lock().take_due(shard, shared.clock.wall());
    if let Some(wall) = next {
        // The waker keeps one time per shard, so a later one may have been dropped for an earlier one.
        shared.waker.wake_by(shard, wall);
    }
    due
}

/// Walks a shard unless a claim has reported that it has nothing else.
fn walk_unless_empty(shared: &Shared, shard: ShardId, nothing_else: bool) {
    if shared.pull.unwalked.lock().remove(&shard) && !nothing_else {
        shared.notifier(shard).notify_due();
    }
}

/// Serves a lease call, from its arrival to its reply.
///
/// # Errors
/// `UnknownNamespace`; `Overloaded` when too many calls wait or no memory is left for the firings;
/// errors of the store.
pub(crate) async fn lease(shared: &Arc<Shared>, request: LeaseRequest) -> Result<Leased> {
    let namespace = request.namespace.clone();
    let arrived = tokio::time::Instant::now();
    let largest = match shared.store.get_namespace(namespace.clone()).await {
        Ok(None) => return Err(Error::UnknownNamespace(namespace.to_string())),
        Ok(Some(known)) if known.paused => return Ok(Leased::paused()),
        Ok(Some(known)) => known.settings.limits.max_payload_bytes,
        // The shards that reply have the settings too, and claims respect them.
        Err(Error::Unavailable { .. }) => PAYLOAD_BYTES_HARD,
        Err(error) => return Err(error),
    };
    if shared.phases.now() != Phase::Running {
        return Ok(Leased::default());
    }
    if let Some(memory) = &request.memory {
        memory.expect(largest);
    }
    // The wait began when the call arrived.
    let wait = request.wait.saturating_sub(arrived.elapsed());
    let (answer, mut answered) = oneshot::channel();
    let queued = shared.pull.waiters.lock().push(&namespace, request, WaitMode::of(wait), answer);
    let Some((id, serve)) = queued else {
        return Err(Error::Overloaded {
            reason: format!(
                "{} lease calls wait already, the maximum; repeat the call later, or with a \
                 shorter wait",
                shared.options.pull_waiters_max
            ),
            retry_after: FULL_RETRY_AFTER,
        });
    };
    let guard = QueueGuard { shared, namespace: &namespace, id };
    Recorder::waiters(shared.pull.waiting());
    start(shared, &namespace, serve);
    if !wait.is_zero() {
        shared.nodes.announce_wait(&namespace);
    }
    // Between the check of the phase above and the queue, a drain may have answered all waiting calls.
    if shared.phases.now() != Phase::Running {
        shared.pull.answer_all_empty();
    }
    if wait.is_zero() {
        return (&mut answered).await.unwrap_or_else(|_| Ok(Leased::default()));
    }
    match tokio::time::timeout(wait, &mut answered).await {
        Ok(Ok(answer)) => answer,
        // The sender was dropped, so no reply will come.
        Ok(Err(_)) => Ok(Leased::default()),
        Err(_elapsed) => {
            drop(guard);
            // The call is out of the queue now; a reply that was sent just before still counts.
            match answered.try_recv() {
                Ok(answer) => answer,
                Err(_) => Ok(timed_out(shared, namespace).await),
            }
        }
    }
}

/// Returns the result of a call that timed out; the namespace may have been paused meanwhile.
async fn timed_out(shared: &Shared, namespace: NamespaceName) -> Leased {
    match shared.store.get_namespace(namespace).await {
        Ok(Some(known)) if known.paused => Leased::paused(),
        _ => Leased::default(),
    }
}

/// A place in the queue; it is left when the call ends or its caller disconnects.
struct QueueGuard<'a> {
    shared: &'a Shared,
    namespace: &'a NamespaceName,
    id: u64,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let taken = self.shared.pull.waiters.lock().take(self.namespace, self.id);
        drop(taken);
        Recorder::waiters(self.shared.pull.waiting());
    }
}

fn start(shared: &Arc<Shared>, namespace: &NamespaceName, serve: Serve) {
    if serve == Serve::Start {
        shared.pull.serving.fetch_add(1, Ordering::AcqRel);
        let serving = ServingGuard { shared: Arc::clone(shared), namespace: namespace.clone() };
        tokio::spawn(serve_all(Arc::clone(shared), namespace.clone(), serving));
    }
}

/// A namespace that is being served. A drain waits for its end; if the task panics, the waiting calls
/// return no firings.
struct ServingGuard {
    shared: Arc<Shared>,
    namespace: NamespaceName,
}

impl Drop for ServingGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(
                namespace = %self.namespace,
                "task that serves lease calls panicked; the waiting calls return no firings"
            );
            let unanswered = self.shared.pull.waiters.lock().take_namespace(&self.namespace);
            drop(unanswered);
        }
        self.shared.pull.serving.fetch_sub(1, Ordering::AcqRel);
        self.shared.drain_progress.notify_waiters();
    }
}

/// Serves a namespace until nothing is claimable or no call waits.
async fn serve_all(shared: Arc<Shared>, namespace: NamespaceName, _serving: ServingGuard) {
    loop {
        let head = shared.pull.waiters.lock().head(&namespace);
        let Some(mut head) = head else {
            // No claim will report on the rest of these shards.
            let unclaimed = shared.pull.hints.lock().shards(&namespace);
            for shard in unclaimed {
                walk_unless_empty(&shared, shard, false);
            }
            return;
        };
        let Some(bytes_max) = head.request.reserve().await else {
            // The call fails, so that those behind it are served.
            let answer = shared.pull.waiters.lock().take(&namespace, head.id);
            if let Some(answer) = answer {
                answer.send(Err(out_of_memory_error())).ok();
            }
            continue;
        };
        head.request.bytes_max = bytes_max;
        let claimed =
            tokio::time::timeout(shared.options.stall_after, claim::claim(&shared, &head)).await;
        match claimed.unwrap_or_else(|_elapsed| Err(timed_out_error(&shared))) {
            Ok(firings) if firings.is_empty() => {
                head.request.release();
                let waiters = &shared.pull.waiters;
                let (answers, next) = waiters.lock().empty(&namespace, head.arrived_before);
                for answer in answers {
                    answer.send(Ok(Leased::default())).ok();
                }
                if next == EmptyClaim::Ended {
                    return;
                }
            }
            Ok(firings) => answer_head(&shared, &namespace, head.id, firings),
            Err(error) => {
                head.request.release();
                shared.log_store_error("claim (pull)", &error);
                let answers = shared.pull.waiters.lock().take_namespace(&namespace);
                for answer in answers {
                    answer.send(Err(error.clone())).ok();
                }
                return;
            }
        }
    }
}

/// Returns the error for a call for whose firings there is no memory.
fn out_of_memory_error() -> Error {
    Error::Overloaded {
        reason:
            "too little request memory is free for the firings of a lease; repeat the call later"
                .to_owned(),
        retry_after: FULL_RETRY_AFTER,
    }
}

/// Returns the error for the waiting calls of a namespace whose claim timed out.
fn timed_out_error(shared: &Shared) -> Error {
    shared.watch.restarted("serving lease calls", "store call timed out; the waiting calls fail");
    Error::Unavailable {
        reason: "the store did not reply in time; repeat the call".to_owned(),
        retry_after: FULL_RETRY_AFTER,
    }
}

/// Answers the call at the head. If its caller is gone, the firings are released as `Leased` is dropped.
fn answer_head(shared: &Arc<Shared>, namespace: &NamespaceName, id: u64, mut firings: Vec<Firing>) {
    let wall = shared.clock.wall();
    for firing in &mut firings {
        shared.recorder.lateness(
            DeliveryMode::Pull,
            AttemptKind::of(firing.attempt),
            namespace,
            firing.claimable_since,
            wall,
        );
        shared.options.traces.lease(firing);
    }
    let leased = Leased::new(shared, firings);
    let answer = shared.pull.waiters.lock().take(namespace, id);
    if let Some(answer) = answer {
        answer.send(Ok(leased)).ok();
    }
}
