//! Starts a node and provides the handle to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_core::{NamespaceName, env::Clock};
use duly_sink::Sink;
use duly_store::{Result, SettleOutcome, Settlement, Sharded, Store};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::{
    FallbackLoad, LaneLoad, LeaseRequest, Leased, LoopHealth, NodeHealth, Options, allot, auditor,
    census, dispatch,
    health::LoopProgress,
    idle,
    lanes::{Lanes, Listing},
    log_limit::LogLimit,
    nodes::{self, MemberView, Nodes},
    phase::{Phase, Phases},
    pull::{self, Pull},
    record::{Recorder, Way},
    settler::{self, attempt_outcome},
    state::{Notifier, Shared},
    supervise,
    waker::{self, Waker},
    watchdog::{self, Watch},
};

/// Longest time that a drain waits until the store has accepted the last verdicts.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);

/// A node: claims due firings and delivers them. The type has no value of its own; see [`Node::start`].
#[derive(Debug)]
pub struct Node;

impl Node {
    /// Starts a node on the current tokio runtime. It runs until [`Handle::drain`] or the end of the
    /// runtime.
    ///
    /// # Panics
    /// When called outside of a tokio runtime, and when the system provides no thread or timer for
    /// wake-ups: without them nothing would be on time.
    pub fn start(
        store: Arc<dyn Store>,
        sink: Arc<dyn Sink>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> Handle {
        Self::start_with(store, sink, clock, options, |bells| {
            waker::system(bells).expect("a process can have one more thread and one more timer")
        })
    }

    pub(crate) fn start_with(
        store: Arc<dyn Store>,
        sink: Arc<dyn Sink>,
        clock: Arc<dyn Clock>,
        options: Options,
        waker: impl FnOnce(Arc<[Notifier]>) -> Box<dyn Waker>,
    ) -> Handle {
        let shards = store.shards();
        let nodes = Nodes::new(&*store, options.name.clone());
        let lanes = Lanes::new(shards, &options);
        let lanes = if nodes.is_shared() { lanes.shared() } else { lanes };
        let bells: Arc<[Notifier]> = (0..shards).map(|_| Notifier::default()).collect();
        let (settlers, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| mpsc::unbounded_channel()).unzip();
        let boot = clock.boot();
        let beats = || (0..shards).map(|_| LoopProgress::begun(boot)).collect();
        let shared = Arc::new(Shared {
            watchdog_beat: LoopProgress::begun(boot),
            auditor_beat: LoopProgress::begun(boot),
            watch: Watch::new(shards),
            shard_beats: beats(),
            settler_beats: beats(),
            lanes: Mutex::new(lanes),
            asks: Notify::new(),
            pull: Pull::new(options.pull_waiters_max),
            phases: Phases::new(),
            waker: waker(Arc::clone(&bells)),
            bells,
            settlers,
            unsettled: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            quieter: Notify::new(),
            recorder: Recorder::default(),
            failed_attempts: LogLimit::new(10, Duration::from_secs(1)),
            // A store that cannot be reached is logged once every few seconds; metrics and readiness
            // show it too.
            store_errors: LogLimit::new(2, Duration::from_secs(10)),
            nodes,
            store,
            sink,
            clock,
            options,
        });
        for (shard, entries) in shared.shards().zip(receivers) {
            tokio::spawn(settler::run(Arc::clone(&shared), shard, entries));
            let name = format!("shard {}", shard.0);
            let listener = format!("wake-ups of {name}");
            let stalled = Arc::default();
            supervise::spawn(listener, &shared, stalled, move |shared| {
                dispatch::listen(shared, shard)
            });
            let stalled = Arc::clone(&shared.watch.stalled[usize::from(shard.0)]);
            supervise::spawn(name, &shared, stalled, move |shared| {
                // After a restart the loop polls the store for everything again.
                shared.bell(shard).ring_due();
                dispatch::run(shared, shard)
            });
        }
        supervise::spawn("watchdog", &shared, Arc::default(), watchdog::run);
        supervise::spawn("auditor", &shared, Arc::default(), auditor::run);
        supervise::spawn("census", &shared, Arc::default(), census::run);
        supervise::spawn("beats", &shared, Arc::default(), nodes::run);
        supervise::spawn("progress", &shared, Arc::default(), nodes::progress::run);
        supervise::spawn("allotments", &shared, Arc::default(), allot::run);
        supervise::spawn("announcements", &shared, Arc::default(), nodes::listen);
        supervise::spawn("idle", &shared, Arc::default(), idle::run);
        shared.ring_all();
        Handle(shared)
    }
}

/// The handle to a running node; cheap to clone.
#[derive(Debug, Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// Leases firings of the namespace's pull lane, and waits for them in the queue of lease calls.
    ///
    /// Cancellation safe: a caller that goes away leaves no claim behind.
    ///
    /// # Errors
    /// `UnknownNamespace`; `Overloaded` when too many calls wait or no memory is left for the firings;
    /// errors of the store.
    pub async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        let leased = pull::lease(&self.0, request).await;
        Recorder::waiters(self.0.pull.waiting());
        leased
    }

    /// Settles leases of consumers. Returns one outcome for each settlement, in the same order.
    ///
    /// Not cancellation safe: if the call is dropped, the store may have accepted some settlements.
    /// Settling again is harmless.
    ///
    /// # Errors
    /// The store's error, if no shard accepted any settlement; the same settlements can be sent again.
    pub async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Result<SettleOutcome>>> {
        let attempts: Vec<_> = settlements
            .iter()
            .map(|it| Some((it.namespace.clone()?, attempt_outcome(&it.verdict)?)))
            .collect();
        let outcomes = Sharded::new(self.0.store.as_ref()).settle(settlements).await?;
        for (attempt, outcome) in attempts.iter().zip(&outcomes) {
            if let (Some((namespace, ended)), Ok(SettleOutcome::Ok | SettleOutcome::Dead)) =
                (attempt, outcome)
            {
                self.0.recorder.attempt(Way::Pull, namespace, *ended);
            }
        }
        Ok(outcomes)
    }

    /// Drains the node:
    ///
    /// 1. It stops claiming and answers waiting lease calls with no firings.
    /// 2. It lets attempts under way finish within `drain_timeout`.
    /// 3. It aborts the rest. A firing that was not sent is released and not counted. A firing that was
    ///    sent counts as an attempt whose lease was lost.
    ///
    /// Cancellation safe: a drain that has started can be awaited again.
    pub async fn drain(&self) {
        let shared = &self.0;
        shared.phases.enter(Phase::Draining);
        shared.pull.send_all_away();
        shared.nodes.beat_now();
        let within = shared.options.drain_timeout;
        if tokio::time::timeout(within, self.quiet()).await.is_err() {
            self.cut_off().await;
        }
        shared.phases.enter(Phase::Left);
        nodes::leave(shared).await;
    }

    /// Aborts the attempts that did not end in time.
    async fn cut_off(&self) {
        let shared = &self.0;
        let in_flight = shared.lanes.lock().in_flight();
        tracing::warn!(in_flight, "attempts that did not end in time are given up");
        shared.phases.enter(Phase::CutOff);
        if tokio::time::timeout(SETTLE_WITHIN, self.quiet()).await.is_err() {
            let unsettled = shared.unsettled();
            tracing::error!(unsettled, "the store did not take the last verdicts");
        }
    }

    /// Returns the push lanes of a namespace that hold something or recently did.
    pub fn lanes(&self, namespace: &NamespaceName) -> Vec<LaneLoad> {
        census::list(&self.0, Listing::new(namespace.clone()))
    }

    /// Returns the nodes of the deployment as this node sees them. It includes this node once a
    /// majority of the coordinator shards has acknowledged its heartbeats.
    pub fn members(&self) -> Vec<MemberView> {
        self.0.nodes.members(self.0.clock.boot(), self.0.store.shards())
    }

    /// Returns the state of a namespace's fallback, whether the namespace has one or not.
    pub fn fallback(&self, namespace: &NamespaceName) -> FallbackLoad {
        let now = self.0.clock.boot();
        self.0.lanes.lock().fallback(namespace, now)
    }

    /// Returns the health of the node, without waiting.
    pub fn health(&self) -> NodeHealth {
        let boot = self.0.clock.boot();
        let of = |name, beat: &LoopProgress| LoopHealth { name, idle_for: beat.idle_for(boot) };
        let shards = self.0.shard_beats.iter().enumerate();
        let mut loops: Vec<_> = shards.map(|(i, beat)| of(format!("shard {i}"), beat)).collect();
        loops.push(of("watchdog".to_owned(), &self.0.watchdog_beat));
        loops.push(of("auditor".to_owned(), &self.0.auditor_beat));
        let settlers = self.0.settler_beats.iter().zip(&self.0.unsettled).enumerate();
        let busy = settlers.filter(|(_, (_, unsettled))| unsettled.load(Ordering::Relaxed) > 0);
        loops.extend(busy.map(|(i, (beat, _))| of(format!("settler {i}"), beat)));
        NodeHealth {
            loops,
            waiters: self.0.pull.waiting(),
            deliveries_in_flight: self.0.lanes.lock().in_flight(),
            unsettled: self.0.unsettled(),
            draining: self.0.phases.now() != Phase::Running,
            restarts: self.0.watch.restarts(),
            neglected: self.0.watch.neglected.lock().clone(),
            unleased: self.0.watch.unleased.lock().clone(),
            cut_off_for: self.0.nodes.cut_off_for(boot),
            waits_for: self.0.nodes.waits_for(),
        }
    }

    /// Waits until no attempt and no claim for a lease call is under way and every verdict is settled.
    async fn quiet(&self) {
        loop {
            let quieter = self.0.quieter.notified();
            tokio::pin!(quieter);
            // Listen first, then check: otherwise a change between the two would be missed.
            quieter.as_mut().enable();
            let busy = self.0.lanes.lock().in_flight() > 0
                || self.0.pull.serving() > 0
                || self.0.unsettled() > 0;
            if !busy {
                return;
            }
            quieter.await;
        }
    }
}
