//! Pull: lease calls wait in line, and are answered as soon as something is there.
//!
//! A call is queued, and its namespace is served by a task of its own: claim for the call at the
//! head, answer it, go on until nothing is claimable or nobody waits. What a shard loop finds ready
//! in a pull lane starts the same task. A claim whose caller is gone, at any moment up to
//! [`Leased::delivered`], is released uncounted.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_core::{Millis, NamespaceName, shard::ShardId};
use duly_store::{Error, Firing, Result, Token};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use tokio::sync::oneshot;

use crate::{
    lanes::Kind,
    phase::Phase,
    record::{Recorder, Way},
    state::Shared,
};

mod claim;
mod expected;
mod held;
mod hints;
mod waiters;

use expected::Expected;
pub use held::{Held, OnItsWay};
use hints::Hints;
use waiters::{Empty, Patience, Serve, Waiters};

/// How long a claim may take to tell whether a shard has anything else, until that is looked for.
const TOLD_WITHIN: Duration = Duration::from_millis(50);
/// When a caller that found the line full may come again.
const FULL_RETRY_AFTER: Millis = Millis::from_secs(1);

/// Memory for what a lease brings, asked for when its turn has come: what would not fit is not claimed,
/// however long the call has waited, and one that waits takes nothing.
pub trait Room: fmt::Debug + Send + Sync {
    /// Learns how large one payload may be: the first firing comes whatever its size.
    fn expect(&self, payload_bytes_max: u64);

    /// Sets memory aside before a claim, and says for how many bytes, at most `bytes_max`; `None`
    /// where there is too little. It may wait for other claims.
    fn set_aside(&self, bytes_max: u64) -> BoxFuture<'_, Option<u64>>;

    /// Nothing was claimed: gives it back.
    fn let_go(&self);
}

/// What a consumer asks for.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Whose firings.
    pub namespace: NamespaceName,
    /// Most firings.
    pub max: usize,
    /// Most bytes of payload and headers; the first firing comes whatever its size.
    pub bytes_max: u64,
    /// How long the lease is; the namespace's own when absent.
    pub lease: Option<Millis>,
    /// How long to wait for a firing; zero is one try.
    pub wait: Duration,
    /// What has to have room for the firings, if anything has.
    pub room: Option<Arc<dyn Room>>,
}

impl LeaseRequest {
    /// How many bytes may be claimed for it now; `None` where it has no room.
    async fn set_aside(&self) -> Option<u64> {
        match &self.room {
            Some(room) => room.set_aside(self.bytes_max).await,
            None => Some(self.bytes_max),
        }
    }

    fn let_go(&self) {
        if let Some(room) = &self.room {
            room.let_go();
        }
    }
}

/// What a consumer gets. Dropped before [`Leased::delivered`], its claims are released uncounted.
#[derive(Debug, Default)]
pub struct Leased {
    /// The firings; empty when there were none in time.
    pub firings: Vec<Firing>,
    /// Whether there were none because the namespace is paused.
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

    /// The answer has been written: the consumer holds the claims from now on.
    pub fn delivered(mut self) {
        if let Some(claims) = &mut self.claims {
            claims.tokens.clear();
        }
    }
}

/// Claims that go back to the store unless their answer was written.
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

type Answer = oneshot::Sender<Result<Leased>>;

/// The lines of waiting calls.
#[derive(Debug)]
pub(crate) struct Pull {
    waiters: Mutex<Waiters<LeaseRequest, Answer>>,
    hints: Mutex<Hints>,
    expected: Mutex<Expected>,
    /// Shards in which a claim is to tell whether they have to be walked.
    unwalked: Mutex<FxHashSet<ShardId>>,
    /// Where the next claim starts, so that shards take turns.
    next_shard: AtomicU16,
    /// Namespaces that are being served: a claim may be under way.
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

    /// How many namespaces are being served.
    pub(crate) fn serving(&self) -> usize {
        self.serving.load(Ordering::Acquire)
    }

    /// Whether calls wait for a namespace.
    pub(crate) fn is_waited_for(&self, namespace: &NamespaceName) -> bool {
        self.waiters.lock().is_waited_for(namespace)
    }

    /// Whether calls wait for a namespace and nobody serves them.
    pub(crate) fn is_neglected(&self, namespace: &NamespaceName) -> bool {
        self.waiters.lock().is_neglected(namespace)
    }

    /// Namespaces for which calls wait.
    pub(crate) fn waited_for(&self) -> Vec<NamespaceName> {
        self.waiters.lock().waited_for()
    }

    /// Takes the namespaces for which a call waits, or has waited since they were last taken.
    pub(crate) fn take_waited(&self) -> BTreeSet<NamespaceName> {
        self.waiters.lock().take_waited()
    }

    /// Says whether a call waits for a namespace, or has waited since [`Self::take_waited`].
    pub(crate) fn was_waited_for(&self, namespace: &NamespaceName) -> bool {
        self.waiters.lock().was_waited_for(namespace)
    }

    /// Answers every waiting call with nothing.
    pub(crate) fn send_all_away(&self) {
        let answers = self.waiters.lock().take_all();
        for answer in answers {
            answer.send(Ok(Leased::default())).ok();
        }
    }
}

/// Something of the namespace's pull lane may be claimable in a shard.
pub(crate) fn ready(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName) {
    if shared.nodes.is_shared() {
        shared.pull.hints.lock().add(namespace, shard);
    }
    let serve = shared.pull.waiters.lock().ready(namespace);
    start(shared, namespace, serve);
}

/// A walk has seen retries of the namespace's pull lane.
pub(crate) fn saw_retries(shared: &Shared, namespace: &NamespaceName) {
    if shared.nodes.is_shared() {
        shared.pull.hints.lock().saw_retries(namespace, shared.clock.boot());
    }
}

/// As [`ready`], where a claim is to tell whether the shard has anything else; without one it is walked.
pub(crate) fn ready_unwalked(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName) {
    shared.pull.unwalked.lock().insert(shard);
    ready(shared, shard, namespace);
    if !shared.pull.is_waited_for(namespace) {
        walk_unless(shared, shard, false);
        return;
    }
    // The claim may wait for one in another shard, whose server is away.
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(TOLD_WITHIN).await;
        walk_unless(&shared, shard, false);
    });
}

/// A namespace that has claimed in a shard will have something there again at this wall time, which is
/// the first thing of `all`, or of one kind.
pub(crate) fn expect(
    shared: &Shared,
    shard: ShardId,
    namespace: &NamespaceName,
    wall: Duration,
    all: bool,
) {
    shared.pull.expected.lock().add(shard, namespace, wall, all);
    shared.waker.wake_by(shard, wall);
}

/// Takes out namespaces that were expected to have something in a shard by now.
pub(crate) fn take_expected(shared: &Shared, shard: ShardId) -> Vec<NamespaceName> {
    let (due, next) = shared.pull.expected.lock().take_due(shard, shared.clock.wall());
    if let Some(wall) = next {
        // A shard is woken at one time, so the next may have been forgotten for one before it.
        shared.waker.wake_by(shard, wall);
    }
    due
}

/// A shard is walked unless a claim has said that there is nothing else.
fn walk_unless(shared: &Shared, shard: ShardId, nothing_else: bool) {
    if shared.pull.unwalked.lock().remove(&shard) && !nothing_else {
        shared.bell(shard).ring_due();
    }
}

/// A lease call, from its arrival to its answer.
///
/// # Errors
/// `UnknownNamespace`, `Overloaded` when too many calls wait or there is no room for the firings, and
/// whatever the store says.
pub(crate) async fn lease(shared: &Arc<Shared>, request: LeaseRequest) -> Result<Leased> {
    let namespace = request.namespace.clone();
    match shared.store.get_namespace(namespace.clone()).await? {
        None => return Err(Error::UnknownNamespace(namespace.to_string())),
        Some(known) if known.paused => return Ok(Leased::paused()),
        Some(_) if shared.phases.now() != Phase::Running => return Ok(Leased::default()),
        Some(known) => {
            if let Some(room) = &request.room {
                room.expect(known.settings.limits.max_payload_bytes);
            }
        }
    }
    let wait = request.wait;
    let (answer, mut answered) = oneshot::channel();
    let queued = shared.pull.waiters.lock().push(&namespace, request, Patience::of(wait), answer);
    let Some((id, serve)) = queued else {
        return Err(Error::Overloaded {
            reason: format!(
                "{} lease calls wait already, as many as may; come again, or wait for less time",
                shared.options.pull_waiters_max
            ),
            retry_after: FULL_RETRY_AFTER,
        });
    };
    let place = Place { shared, namespace: &namespace, id };
    Recorder::waiters(shared.pull.waiting());
    start(shared, &namespace, serve);
    if !wait.is_zero() {
        shared.nodes.waits(&namespace);
    }
    // Between the look at the phase above and the queue a drain may have sent everybody away.
    if shared.phases.now() != Phase::Running {
        shared.pull.send_all_away();
    }
    if wait.is_zero() {
        return (&mut answered).await.unwrap_or_else(|_| Ok(Leased::default()));
    }
    match tokio::time::timeout(wait, &mut answered).await {
        Ok(Ok(answer)) => answer,
        // Nobody is left who could answer.
        Ok(Err(_)) => Ok(Leased::default()),
        Err(_elapsed) => {
            drop(place);
            // Out of the line now; what was answered a moment before still counts.
            match answered.try_recv() {
                Ok(answer) => answer,
                Err(_) => Ok(out_of_time(shared, namespace).await),
            }
        }
    }
}

/// The answer to a call that waited in vain: it may have been paused meanwhile.
async fn out_of_time(shared: &Shared, namespace: NamespaceName) -> Leased {
    match shared.store.get_namespace(namespace).await {
        Ok(Some(known)) if known.paused => Leased::paused(),
        _ => Leased::default(),
    }
}

/// A place in line; given up when the call ends or its caller goes away.
struct Place<'a> {
    shared: &'a Shared,
    namespace: &'a NamespaceName,
    id: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let taken = self.shared.pull.waiters.lock().take(self.namespace, self.id);
        drop(taken);
        Recorder::waiters(self.shared.pull.waiting());
    }
}

fn start(shared: &Arc<Shared>, namespace: &NamespaceName, serve: Serve) {
    if serve == Serve::Start {
        shared.pull.serving.fetch_add(1, Ordering::AcqRel);
        let serving = Serving { shared: Arc::clone(shared), namespace: namespace.clone() };
        tokio::spawn(serve_all(Arc::clone(shared), namespace.clone(), serving));
    }
}

/// A namespace that is being served. A drain waits for its end; a panic leaves nobody waiting.
struct Serving {
    shared: Arc<Shared>,
    namespace: NamespaceName,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(namespace = %self.namespace, "serving lease calls panicked");
            let unanswered = self.shared.pull.waiters.lock().take_namespace(&self.namespace);
            drop(unanswered);
        }
        self.shared.pull.serving.fetch_sub(1, Ordering::AcqRel);
        self.shared.quieter.notify_waiters();
    }
}

/// Serves a namespace until nothing is claimable or nobody waits.
async fn serve_all(shared: Arc<Shared>, namespace: NamespaceName, _serving: Serving) {
    loop {
        let head = shared.pull.waiters.lock().head(&namespace);
        let Some(mut head) = head else {
            // No claim is made where one was to tell of the rest of the shard.
            let unclaimed = shared.pull.hints.lock().shards(&namespace);
            for shard in unclaimed {
                walk_unless(&shared, shard, false);
            }
            return;
        };
        let Some(bytes_max) = head.request.set_aside().await else {
            // It makes way for those behind it.
            let answer = shared.pull.waiters.lock().take(&namespace, head.id);
            if let Some(answer) = answer {
                answer.send(Err(no_room())).ok();
            }
            continue;
        };
        head.request.bytes_max = bytes_max;
        let claimed =
            tokio::time::timeout(shared.options.stall_after, claim::claim(&shared, &head)).await;
        match claimed.unwrap_or_else(|_elapsed| Err(no_answer(&shared))) {
            Ok(firings) if firings.is_empty() => {
                head.request.let_go();
                let waiters = &shared.pull.waiters;
                let (answers, next) = waiters.lock().empty(&namespace, head.arrived_before);
                for answer in answers {
                    answer.send(Ok(Leased::default())).ok();
                }
                if next == Empty::Ended {
                    return;
                }
            }
            Ok(firings) => hand_out(&shared, &namespace, head.id, firings),
            Err(error) => {
                head.request.let_go();
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

/// The answer to a call for whose firings there is no memory.
fn no_room() -> Error {
    Error::Overloaded {
        reason: "there is no room in memory for the firings of a lease: come again".to_owned(),
        retry_after: FULL_RETRY_AFTER,
    }
}

/// A claim that hangs must not hold up its namespace for ever; its waiting calls hear of it.
fn no_answer(shared: &Shared) -> Error {
    shared.watch.restarted("serving lease calls", "got no answer of the store");
    Error::Unavailable {
        reason: "the store gave no answer; repeat the call".to_owned(),
        retry_after: FULL_RETRY_AFTER,
    }
}

/// Answers the call at the head. If its caller is gone the claims go back as `Leased` is dropped.
fn hand_out(shared: &Arc<Shared>, namespace: &NamespaceName, id: u64, firings: Vec<Firing>) {
    let wall = shared.clock.wall();
    for firing in &firings {
        shared.recorder.lateness(Way::Pull, Kind::of(firing), firing.claimable_since, wall);
    }
    let leased = Leased::new(shared, firings);
    let answer = shared.pull.waiters.lock().take(namespace, id);
    if let Some(answer) = answer {
        answer.send(Ok(leased)).ok();
    }
}
