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
use tokio::sync::{Notify, mpsc};

use crate::{
    FallbackLoad, LaneLoad, LeaseRequest, Leased, LoopHealth, NodeHealth, Options, auditor,
    dispatch,
    health::LoopProgress,
    idle_namespaces, lane_metrics,
    lanes::{LaneListing, Lanes, Pools},
    log_limit::LogLimit,
    nodes::{self, MemberView, Nodes},
    phase::{Phase, Phases},
    pull::{self, Pull},
    quota_loop,
    recorder::{DeliveryMode, Recorder},
    settler::{self, attempt_end},
    state::{Notifier, Shared},
    traces::{TimerSpan, Traces},
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
        Self::start_with(store, sink, clock, options, |notifiers| {
            waker::system(notifiers).expect("a process can have one more thread and one more timer")
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
        let lanes = Lanes::new(shards, &options, nodes.is_shared());
        let notifiers: Arc<[Notifier]> = (0..shards).map(|_| Notifier::default()).collect();
        let (settlers, receivers): (Vec<_>, Vec<_>) =
            (0..shards).map(|_| mpsc::unbounded_channel()).unzip();
        let boot = clock.boot();
        let loops_progress = || (0..shards).map(|_| LoopProgress::started(boot)).collect();
        let shared = Arc::new(Shared {
            watchdog_progress: LoopProgress::started(boot),
            auditor_progress: LoopProgress::started(boot),
            watch: Watch::new(shards),
            shard_progress: loops_progress(),
            settler_progress: loops_progress(),
            pools: Pools::new(lanes),
            urgent_requests: Notify::new(),
            pull: Pull::new(options.pull_waiters_max),
            phases: Phases::new(),
            waker: waker(Arc::clone(&notifiers)),
            notifiers,
            settlers,
            unsettled: (0..shards).map(|_| AtomicUsize::new(0)).collect(),
            drain_progress: Notify::new(),
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
            watchdog::supervise(listener, &shared, stalled, move |shared| {
                dispatch::forward_wakeups(shared, shard)
            });
            let stalled = Arc::clone(&shared.watch.stalled[usize::from(shard.0)]);
            watchdog::supervise(name, &shared, stalled, move |shared| {
                // After a restart the loop polls the store for everything again.
                shared.notifier(shard).notify_due();
                dispatch::run(shared, shard)
            });
        }
        watchdog::supervise("watchdog", &shared, Arc::default(), watchdog::run);
        watchdog::supervise("auditor", &shared, Arc::default(), auditor::run);
        watchdog::supervise("lane metrics", &shared, Arc::default(), lane_metrics::run);
        watchdog::supervise("heartbeats", &shared, Arc::default(), nodes::run);
        watchdog::supervise("shard progress", &shared, Arc::default(), nodes::advance_progress);
        watchdog::supervise("quota requests", &shared, Arc::default(), quota_loop::run);
        watchdog::supervise("announcements", &shared, Arc::default(), nodes::listen);
        watchdog::supervise("idle namespaces", &shared, Arc::default(), idle_namespaces::run);
        shared.notify_all_shards();
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
    /// `trace_parent` is the trace context of the consumer's call.
    ///
    /// Not cancellation safe: if the call is dropped, the store may have accepted some settlements.
    /// Settling again is harmless.
    ///
    /// # Errors
    /// The store's error, if no shard accepted any settlement; the same settlements can be sent again.
    pub async fn settle(
        &self,
        mut settlements: Vec<Settlement>,
        trace_parent: Option<&str>,
    ) -> Result<Vec<Result<SettleOutcome>>> {
        for settlement in &mut settlements {
            self.0.options.reasons.apply(settlement, |_| "");
        }
        let traces = &self.0.options.traces;
        let spans: Vec<_> =
            settlements.iter().map(|it| traces.settle_lease(&it.token, &it.verdict)).collect();
        let elsewhere = match self.0.nodes.is_shared() && spans.iter().all(TimerSpan::is_none) {
            true => traces.settle_elsewhere(trace_parent),
            false => TimerSpan::default(),
        };
        let attempts: Vec<_> = settlements
            .iter()
            .map(|it| Some((it.namespace.clone()?, attempt_end(&it.verdict)?)))
            .collect();
        let outcomes = Sharded::new(self.0.store.as_ref()).settle(settlements).await?;
        for (attempt, outcome) in attempts.iter().zip(&outcomes) {
            if let (Some((namespace, ended)), Ok(outcome)) = (attempt, outcome)
                && outcome.is_accepted()
            {
                self.0.recorder.attempt(DeliveryMode::Pull, namespace, *ended);
            }
        }
        elsewhere.end("done", None);
        for (span, outcome) in spans.into_iter().zip(&outcomes) {
            match outcome {
                Ok(outcome) => span.end(outcome.as_str(), None),
                Err(error) => span.end("failed", Some(&error.to_string())),
            }
        }
        Ok(outcomes)
    }

    /// Returns the traces of timers.
    pub fn traces(&self) -> &Traces {
        &self.0.options.traces
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
        shared.pull.answer_all_empty();
        shared.nodes.send_heartbeats_now();
        let within = shared.options.drain_timeout;
        if tokio::time::timeout(within, self.until_idle()).await.is_err() {
            self.abort_attempts().await;
        }
        shared.phases.enter(Phase::Left);
        nodes::leave(shared).await;
    }

    /// Aborts the attempts that did not end in time.
    async fn abort_attempts(&self) {
        let shared = &self.0;
        let in_flight = shared.pools.webhooks().in_flight();
        tracing::warn!(in_flight, "drain time-out reached; aborting the attempts still under way");
        shared.phases.enter(Phase::CutOff);
        if tokio::time::timeout(SETTLE_WITHIN, self.until_idle()).await.is_err() {
            let unsettled = shared.unsettled();
            tracing::error!(
                unsettled,
                "store did not accept the last verdicts in time; their firings may be delivered again"
            );
        }
    }

    /// Returns the push lanes of a namespace that hold something or recently did.
    pub fn lanes(&self, namespace: &NamespaceName) -> Vec<LaneLoad> {
        lane_metrics::list(&self.0, LaneListing::new(namespace.clone()))
    }

    /// Returns the nodes of the deployment as this node sees them. It includes this node once a
    /// majority of the coordinator shards has acknowledged its heartbeats.
    pub fn members(&self) -> Vec<MemberView> {
        self.0.nodes.members(self.0.clock.boot(), self.0.store.shards())
    }

    /// Returns the state of a namespace's fallback, whether the namespace has one or not.
    pub fn fallback(&self, namespace: &NamespaceName) -> FallbackLoad {
        let now = self.0.clock.boot();
        self.0.pools.webhooks().fallback(namespace, now)
    }

    /// Returns the health of the node, without waiting.
    pub fn health(&self) -> NodeHealth {
        let boot = self.0.clock.boot();
        let of =
            |name, progress: &LoopProgress| LoopHealth { name, idle_for: progress.idle_for(boot) };
        let shards = self.0.shard_progress.iter().enumerate();
        let mut loops: Vec<_> =
            shards.map(|(i, progress)| of(format!("shard {i}"), progress)).collect();
        loops.push(of("watchdog".to_owned(), &self.0.watchdog_progress));
        loops.push(of("auditor".to_owned(), &self.0.auditor_progress));
        let settlers = self.0.settler_progress.iter().zip(&self.0.unsettled).enumerate();
        let busy = settlers.filter(|(_, (_, unsettled))| unsettled.load(Ordering::Relaxed) > 0);
        loops.extend(busy.map(|(i, (progress, _))| of(format!("settler {i}"), progress)));
        NodeHealth {
            loops,
            waiters: self.0.pull.waiting(),
            deliveries_in_flight: self.0.pools.webhooks().in_flight(),
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
    async fn until_idle(&self) {
        loop {
            let drain_progress = self.0.drain_progress.notified();
            tokio::pin!(drain_progress);
            // Listen first, then check: otherwise a change between the two would be missed.
            drain_progress.as_mut().enable();
            let busy = self.0.pools.webhooks().in_flight() > 0
                || self.0.pull.serving() > 0
                || self.0.unsettled() > 0;
            if !busy {
                return;
            }
            drain_progress.await;
        }
    }
}
