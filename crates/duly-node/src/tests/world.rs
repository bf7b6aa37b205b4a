//! A node whose environment the test controls.

use std::sync::Arc;

use duly_core::{
    Destination, Millis, NamespaceName, RetryPolicy, Schedule, Settings, State, TimerId,
    destination::HttpDestination,
    payload::{Form, Payload},
    schedule::{IfExists, When},
    shard::ShardId,
};
use duly_sink::{Envelope, Sink};
use duly_store::{
    Answer, Command, Namespaces, Operation, Outcome, Store, TimerView, Timers,
    command::DeadLetterId,
    conformance::ManualClock,
    memory::MemoryStore,
    namespaces::{Put, Secrets},
};
use duly_store_embedded::{EmbeddedStore, disk::SimDisk};
use futures::future::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::manual_waker::ManualWaker;
use super::*;
use crate::{Handle, Node, Options};

pub(super) use super::flaky::Flaky;

/// Number of yields after which all tasks have run: far more than any chain of tasks here.
const YIELDS: usize = 300;

pub(super) const fn ms(ms: u64) -> Millis {
    Millis::from_ms(ms)
}

pub(super) fn failed(kind: AttemptOutcome) -> Delivery {
    Delivery::failed(kind, "said no")
}

/// One delivery that waits for the test's answer.
pub(super) struct Call {
    pub(super) envelope: Envelope,
    answer: oneshot::Sender<Option<Delivery>>,
}

impl Call {
    pub(super) fn answer(self, delivery: Delivery) {
        self.answer.send(Some(delivery)).ok();
    }

    pub(super) fn panic(self) {
        self.answer.send(None).ok();
    }
}

/// A sink that asks the test.
struct AskingSink(mpsc::UnboundedSender<Call>);

impl Sink for AskingSink {
    fn deliver(&self, envelope: Envelope) -> BoxFuture<'_, Delivery> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.0.send(Call { envelope, answer }).ok();
            match answered.await {
                Ok(Some(delivery)) => delivery,
                Ok(None) => panic!("asked to by the test"),
                Err(_) => std::future::pending().await,
            }
        })
    }
}

pub(super) struct World {
    pub(super) clock: ManualClock,
    pub(super) flaky: Arc<Flaky>,
    pub(super) handle: Handle,
    pub(super) namespace: NamespaceName,
    pub(super) waker: ManualWaker,
    calls: mpsc::UnboundedReceiver<Call>,
}

pub(super) fn settings() -> Settings {
    Settings { retry: RetryPolicy::Delays(vec![ms(1_000), ms(10_000)]), ..Settings::default() }
}

/// A node on the embedded store, with a simulated disk.
pub(super) async fn embedded(seed: u64, change: impl FnOnce(&mut Options)) -> World {
    let clock = ManualClock::default();
    // Small near horizons and resident windows: every timer passes through them.
    let options = duly_store_embedded::Options {
        random_seed: Some(seed),
        near_max: 4,
        overdue_max: 3,
        min_free_bytes: Some(0),
        min_free_percent: 0,
        ..duly_store_embedded::Options::default()
    };
    let disk = Arc::new(SimDisk::new(seed));
    let store = EmbeddedStore::open_inline(disk, options, Arc::new(clock.clone()));
    World::start_on(clock, Arc::new(store.expect("a new store opens")), change).await
}

impl World {
    pub(super) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(super) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let clock = ManualClock::default();
        let memory = MemoryStore::new(Arc::new(clock.clone()), 1);
        Self::start_on(clock, Arc::new(memory), change).await
    }

    /// Starts a node on a store with this clock.
    pub(super) async fn start_on(
        clock: ManualClock,
        store: Arc<dyn Store>,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let flaky = Arc::new(Flaky::new(store));
        let (asking, calls) = mpsc::unbounded_channel();
        let mut options = Options::default();
        change(&mut options);
        let mut manual_waker = None;
        let handle = Node::start_with(
            Arc::<Flaky>::clone(&flaky),
            Arc::new(AskingSink(asking)),
            Arc::new(clock.clone()),
            options,
            |notifiers| {
                let waker = ManualWaker::new(clock.clone(), notifiers);
                manual_waker = Some(waker.clone());
                Box::new(waker)
            },
        );
        let world = Self {
            clock,
            flaky,
            handle,
            namespace: NamespaceName::new("shop").unwrap(),
            waker: manual_waker.unwrap(),
            calls,
        };
        world.put(settings()).await;
        world.quiet().await;
        world
    }

    pub(super) async fn put(&self, settings: Settings) {
        let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
        let namespace = self.namespace.clone();
        self.flaky.put_namespace(namespace, put).await.unwrap();
    }

    pub(super) async fn limit_in_flight(&self, max: u32) {
        let mut settings = settings();
        settings.limits.max_in_flight = max;
        self.put(settings).await;
    }

    pub(super) async fn schedule(&self, id: &str, delay: Millis, url: &str) {
        let http = HttpDestination::new(url).unwrap();
        self.schedule_to(id, delay, Destination::Http(http)).await;
    }

    pub(super) async fn schedule_pull(&self, id: &str, delay: Millis) {
        self.schedule_to(id, delay, Destination::Pull).await;
    }

    /// Schedules `count` timers without a destination, due at once.
    pub(super) async fn schedule_many(&self, count: usize) {
        for i in 0..count {
            let id = TimerId::new(&format!("t{i}")).unwrap();
            self.apply(Schedule::new(id, When::After(Millis::ZERO))).await;
        }
    }

    /// Schedules a timer whose payload has this many bytes.
    pub(super) async fn schedule_bytes(&self, id: &str, delay: Millis, url: &str, bytes: usize) {
        let mut schedule = Schedule::new(TimerId::new(id).unwrap(), When::After(delay));
        schedule.spec.destination = Some(Destination::Http(HttpDestination::new(url).unwrap()));
        schedule.spec.payload = Some(Payload { form: Form::Text, bytes: vec![b'x'; bytes].into() });
        self.apply(schedule).await;
    }

    /// Schedules a timer for consumers, due at once, whose payload has this many bytes.
    pub(super) async fn schedule_pull_bytes(&self, id: &str, bytes: usize) {
        let mut schedule = Schedule::new(TimerId::new(id).unwrap(), When::After(Millis::ZERO));
        schedule.spec.payload = Some(Payload { form: Form::Text, bytes: vec![b'x'; bytes].into() });
        self.apply(schedule).await;
    }

    /// Hides a lane from the node, or shows it again: a fault for the auditor.
    pub(super) fn lose(&self, origin: Option<&str>) {
        let lane = origin.map(|origin| duly_store::Lane {
            namespace: self.namespace.clone(),
            key: LaneKey::Receiver(Arc::from(origin)),
        });
        self.handle.0.pools.webhooks().lost = lane;
    }

    /// Limits the number of waiting lanes.
    pub(super) fn remember_waiting(&self, lanes: usize) {
        self.handle.0.pools.webhooks().remember_waiting(lanes);
    }

    /// Moves the clock without a notification.
    pub(super) fn advance_unnoticed(&self, by: Millis) {
        self.clock.advance(by);
    }

    async fn schedule_to(&self, id: &str, delay: Millis, destination: Destination) {
        let mut schedule = Schedule::new(TimerId::new(id).unwrap(), When::After(delay));
        schedule.spec.destination = Some(destination);
        self.apply(schedule).await;
    }

    pub(super) async fn apply(&self, schedule: Schedule) {
        let schedule = Box::new(schedule);
        let outcome = self.one(Operation::Schedule { schedule, if_exists: IfExists::Fail }).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }

    /// Redrives a dead letter, due at once.
    pub(super) async fn redrive(&self, id: &str) {
        let letter = DeadLetterId::Timer(TimerId::new(id).unwrap());
        let outcome = self.one(Operation::Redrive { letter, delay: Millis::ZERO }).await;
        assert!(matches!(outcome, Outcome::Changed(_)), "{outcome:?}");
    }

    async fn one(&self, operation: Operation) -> Outcome {
        let namespace = self.namespace.clone();
        let command = Command { namespace, operation, answer: Answer::Whole };
        self.flaky.apply(ShardId(0), vec![command]).await.unwrap().remove(0)
    }

    /// Moves the clock and notifies the shards whose requested time has come.
    pub(super) async fn advance(&self, by: Millis) {
        self.clock.advance(by);
        self.waker.notify_due();
        self.quiet().await;
    }

    /// Sets the wall clock forward or back and notifies, as the system does when it is set.
    pub(super) async fn step(&self, by_ms: i64) {
        self.clock.step_wall(by_ms);
        self.waker.notify_all_shards();
        self.quiet().await;
    }

    /// Runs all tasks until they wait, without moving the clock.
    pub(super) async fn quiet(&self) {
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the next delivery.
    pub(super) async fn call(&mut self) -> Call {
        tokio::time::timeout(Duration::from_secs(60), self.calls.recv())
            .await
            .expect("a delivery")
            .expect("the node lives")
    }

    /// Takes the stream of all deliveries from now on.
    pub(super) fn take_calls(&mut self) -> mpsc::UnboundedReceiver<Call> {
        std::mem::replace(&mut self.calls, mpsc::unbounded_channel().1)
    }

    pub(super) fn try_call(&mut self) -> Option<Call> {
        self.calls.try_recv().ok()
    }

    /// Checks that nothing more is delivered without moving the clock.
    pub(super) async fn nothing_more(&mut self) {
        self.quiet().await;
        if let Some(call) = self.try_call() {
            panic!("unexpected delivery: {:?}", call.envelope);
        }
    }

    pub(super) async fn view(&self, id: &str) -> TimerView {
        let id = TimerId::new(id).unwrap();
        let got = self.flaky.get(ShardId(0), self.namespace.clone(), id, u64::MAX).await;
        got.unwrap().expect("the timer is there")
    }

    pub(super) async fn state(&self, id: &str) -> State {
        self.view(id).await.state
    }

    /// Waits until a timer is in a state.
    pub(super) async fn until(&self, id: &str, state: State) -> TimerView {
        // The pauses between retries of the node are runtime time, which advances by itself when all
        // tasks wait.
        for _ in 0..1_000 {
            let view = self.view(id).await;
            if view.state == state {
                return view;
            }
            self.quiet().await;
            tokio::time::advance(Duration::from_millis(10)).await;
        }
        panic!("{id} is {} and not {state}", self.state(id).await);
    }
}
