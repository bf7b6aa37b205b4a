//! Helpers for the cases: a namespace on a harness, and short calls to use it.
//!
//! The suite uses shard 0, and a harness opens its store with one shard. Every helper panics if a call fails
//! as a whole.

use std::sync::Arc;

use duly_core::{
    Destination, Millis, NamespaceName, Payload, RetryPolicy, Schedule, Settings, State, TimerId,
    Timestamp,
    destination::{HttpDestination, LaneKey},
    payload::Form,
    schedule::{IfExists, Patch, When},
    shard::ShardId,
    timer::{AttemptOutcome, Wait},
};

use super::Harness;
use crate::{
    Answer, ClaimRequest, Claimed, Command, Firing, Forecast, ForecastRequest, Lane, LaneClaim,
    ListRequest, MemberId, Operation, Outcome, Owner, Ready, ReadyCursor, Refusal, SettleOutcome,
    SettleVerdict, Settlement, Stats, Store, TimerView, Token,
    command::DeadLetterId,
    namespaces::{Activity, Namespace, Put},
    query::ListState,
};

/// The shard that the suite uses.
pub(super) const SHARD: ShardId = ShardId(0);
/// The node that claims, in cases with a node.
pub(super) const NODE: MemberId = MemberId(7);

/// One namespace on one harness.
#[derive(Clone)]
pub(super) struct Scene<'a> {
    pub(super) harness: &'a dyn Harness,
    pub(super) namespace: NamespaceName,
}

/// Default settings of a scene: pull, waits of 1 s, 10 s and 100 s, leases of 30 s.
pub(super) fn settings() -> Settings {
    Settings {
        retry: RetryPolicy::Delays(vec![secs(1), secs(10), secs(100)]),
        ..Settings::default()
    }
}

pub(super) const fn secs(seconds: u64) -> Millis {
    Millis::from_secs(seconds)
}

pub(super) const fn ms(ms: u64) -> Millis {
    Millis::from_ms(ms)
}

pub(super) fn id(text: &str) -> TimerId {
    TimerId::new(text).expect("cases use ids that are allowed")
}

pub(super) fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).expect("cases use names that are allowed")
}

pub(super) fn text(text: impl Into<String>) -> Payload {
    Payload { form: Form::Text, bytes: text.into().into() }
}

pub(super) fn http(url: &str) -> Destination {
    Destination::Http(HttpDestination::new(url).expect("cases use URLs that are allowed"))
}

pub(super) fn timer(text: &str, when: When) -> Schedule {
    Schedule::new(id(text), when)
}

pub(super) fn schedule_op(schedule: Schedule, if_exists: IfExists) -> Operation {
    Operation::Schedule { schedule: Box::new(schedule), if_exists }
}

pub(super) fn cancel_op(text: &str) -> Operation {
    Operation::Cancel { id: id(text), if_revision: None }
}

pub(super) fn stop_op(text: &str) -> Operation {
    Operation::CancelOrStop { id: id(text), if_revision: None, seen: None }
}

pub(super) fn patch_op(text: &str, patch: Patch) -> Operation {
    Operation::Reschedule { id: id(text), patch: Box::new(patch), if_revision: None }
}

pub(super) fn fire_op(text: &str) -> Operation {
    Operation::Fire { id: id(text) }
}

/// A failed attempt that is tried again after exactly `after`.
pub(super) fn retry_in(after: Millis) -> SettleVerdict {
    failed(Wait::Exactly(after), AttemptOutcome::Failed)
}

pub(super) fn failed(wait: Wait, outcome: AttemptOutcome) -> SettleVerdict {
    SettleVerdict::Retry { wait, outcome, reason: "status 503".to_owned() }
}

pub(super) fn dead() -> SettleVerdict {
    SettleVerdict::Dead { reason: "never again".to_owned() }
}

pub(super) fn ids(firings: &[Firing]) -> Vec<&str> {
    firings.iter().map(|firing| firing.id.as_str()).collect()
}

/// Returns the refusal of an outcome; panics if it is none.
pub(super) fn refused(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Returns the code of a refusal, by its name in the API.
pub(super) fn code(outcome: Outcome) -> &'static str {
    refused(outcome).code().as_str()
}

impl<'a> Scene<'a> {
    pub(super) async fn new(harness: &'a dyn Harness) -> Self {
        Self::with(harness, settings()).await
    }

    pub(super) async fn with(harness: &'a dyn Harness, settings: Settings) -> Self {
        let scene = Self { harness, namespace: name("shop") };
        scene.put(settings).await;
        scene
    }

    /// Creates another namespace on the same harness.
    pub(super) async fn other(&self, text: &str, settings: Settings) -> Scene<'a> {
        let other = Scene { harness: self.harness, namespace: name(text) };
        other.put(settings).await;
        other
    }

    pub(super) async fn put(&self, settings: Settings) {
        let put =
            Put::Replace { settings: Box::new(settings), secrets: crate::namespaces::Secrets::Set };
        let namespace = self.namespace.clone();
        self.store().put_namespace(namespace, put).await.expect("settings are written");
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        self.harness.store()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.harness.now()
    }

    /// Returns the due time this long after now.
    pub(super) fn at(&self, after: Millis) -> When {
        When::At(self.now().saturating_add(after))
    }

    pub(super) async fn advance(&self, by: Millis) {
        self.harness.advance(by).await;
    }

    pub(super) async fn apply_all(&self, operations: Vec<Operation>) -> Vec<Outcome> {
        let commands = operations.into_iter().map(|operation| Command {
            namespace: self.namespace.clone(),
            operation,
            answer: Answer::Whole,
        });
        let outcomes = self.store().apply(SHARD, commands.collect()).await;
        outcomes.expect("operations are carried out")
    }

    pub(super) async fn apply(&self, operation: Operation) -> Outcome {
        let mut outcomes = self.apply_all(vec![operation]).await;
        assert_eq!(outcomes.len(), 1, "one outcome per operation");
        outcomes.remove(0)
    }

    /// Schedules a timer, which must be new.
    pub(super) async fn create(&self, schedule: Schedule) -> Arc<TimerView> {
        match self.apply(schedule_op(schedule, IfExists::Fail)).await {
            Outcome::Created(view) => view,
            other => panic!("expected a new timer, got {other:?}"),
        }
    }

    /// Schedules a new timer that is due this long after now.
    pub(super) async fn create_in(&self, text: &str, after: Millis) -> Arc<TimerView> {
        self.create(timer(text, self.at(after))).await
    }

    /// Applies a patch, which must be accepted.
    pub(super) async fn patch(&self, text: &str, patch: Patch) -> Arc<TimerView> {
        match self.apply(patch_op(text, patch)).await {
            Outcome::Changed(view) => view,
            other => panic!("expected a change, got {other:?}"),
        }
    }

    pub(super) fn lane(&self, key: LaneKey) -> Lane {
        Lane { namespace: self.namespace.clone(), key }
    }

    /// Returns a consumer's request for everything in these lanes.
    pub(super) fn request(&self, keys: Vec<LaneKey>) -> ClaimRequest {
        let lanes = keys.into_iter().map(|key| LaneClaim {
            lane: self.lane(key),
            first_max: 1_000,
            retry_max: 1_000,
        });
        ClaimRequest {
            lanes: lanes.collect(),
            total_max: 1_000,
            bytes_max: u64::MAX,
            owner: Owner::Consumer { lease: None },
        }
    }

    pub(super) async fn claim_as(&self, request: ClaimRequest) -> Claimed {
        let claimed = self.store().claim(SHARD, request).await;
        claimed.expect("a claim succeeds")
    }

    /// Claims everything in the pull lane, as a consumer.
    pub(super) async fn claim(&self) -> Vec<Firing> {
        self.claim_as(self.request(vec![LaneKey::Pull])).await.firings
    }

    /// Claims everything in the pull lane, as [`NODE`].
    pub(super) async fn claim_for_node(&self) -> Vec<Firing> {
        let mut request = self.request(vec![LaneKey::Pull]);
        request.owner = Owner::Node(NODE);
        self.claim_as(request).await.firings
    }

    /// Claims one firing, which must be the only one.
    pub(super) async fn claim_one(&self) -> Firing {
        let mut firings = self.claim().await;
        assert_eq!(firings.len(), 1, "exactly one firing is claimable: {:?}", ids(&firings));
        firings.remove(0)
    }

    /// Returns the lanes that have something claimable.
    pub(super) async fn ready(&self, after: Option<ReadyCursor>, limit: usize) -> Ready {
        let ready = self.store().ready(SHARD, after, limit).await;
        ready.expect("the ready lanes are returned")
    }

    pub(super) async fn set_activity(&self, activity: Activity) -> Namespace {
        let namespace = self.store().set_activity(self.namespace.clone(), activity).await;
        namespace.expect("the namespace is there")
    }

    pub(super) async fn settle_all(
        &self,
        settlements: Vec<(Token, SettleVerdict)>,
    ) -> Vec<SettleOutcome> {
        let settlements = settlements.into_iter().map(|(token, verdict)| Settlement {
            token,
            namespace: Some(self.namespace.clone()),
            verdict,
        });
        let outcomes = self.store().settle(SHARD, settlements.collect()).await;
        outcomes.expect("verdicts are taken")
    }

    pub(super) async fn settle(&self, firing: &Firing, verdict: SettleVerdict) -> SettleOutcome {
        self.settle_all(vec![(firing.token.clone(), verdict)]).await[0]
    }

    /// Settles with a verdict, which must be accepted.
    pub(super) async fn settled(&self, firing: &Firing, verdict: SettleVerdict) {
        assert_eq!(self.settle(firing, verdict).await, SettleOutcome::Ok, "{}", firing.id);
    }

    pub(super) async fn get(&self, text: &str) -> Option<TimerView> {
        let view = self.store().get(SHARD, self.namespace.clone(), id(text), u64::MAX).await;
        view.expect("a timer can be read")
    }

    /// Returns the view of a timer, which must exist.
    pub(super) async fn view(&self, text: &str) -> TimerView {
        let view = self.get(text).await;
        view.unwrap_or_else(|| panic!("there is no timer {text}"))
    }

    pub(super) async fn state(&self, text: &str) -> Option<State> {
        self.get(text).await.map(|view| view.state)
    }

    pub(super) async fn stats(&self) -> Stats {
        let stats = self.store().stats(SHARD, self.namespace.clone()).await;
        stats.expect("counts can be read").expect("the namespace is there")
    }

    /// Waits until at most this number of tombstones take memory. Stores free it in the background.
    pub(super) async fn freed_down_to(&self, retained: u64) {
        for _ in 0..100 {
            if self.stats().await.retained <= retained {
                return;
            }
            self.advance(Millis::from_ms(1)).await;
        }
        panic!("{} tombstones take memory", self.stats().await.retained);
    }

    pub(super) async fn forecast(&self, bucket: Millis, count: usize) -> Forecast {
        let namespace = self.namespace.clone();
        let request = ForecastRequest { namespace, bucket, count };
        let forecast = self.store().forecast(SHARD, request).await;
        forecast.expect("a forecast can be read").expect("the namespace is there")
    }

    pub(super) fn list_request(&self, state: ListState) -> ListRequest {
        ListRequest::new(self.namespace.clone(), state)
    }

    /// Returns the timers of all pages of a list.
    pub(super) async fn list_whole(&self, mut request: ListRequest) -> Vec<TimerView> {
        let mut found = Vec::new();
        for _ in 0..10_000 {
            let page = self.store().list(SHARD, request.clone()).await;
            let page = page.expect("a list can be read");
            assert!(page.timers.len() <= request.limit, "a page keeps to its limit");
            found.extend(page.timers);
            match page.next {
                Some(next) => {
                    let on = request.after.as_ref().is_none_or(|after| next > *after);
                    assert!(on, "every page gets further than the one before");
                    request.after = Some(next);
                }
                None => return found,
            }
        }
        panic!("the list does not end");
    }

    pub(super) async fn list_ids(&self, request: ListRequest) -> Vec<String> {
        let found = self.list_whole(request).await;
        found.iter().map(|view| view.id().to_string()).collect()
    }

    /// Brings a timer to this state; nothing else may be claimable. Returns the request that created it, and
    /// its firing if it was claimed.
    pub(super) async fn bring(&self, text: &str, state: State) -> (Schedule, Option<Firing>) {
        let after = match state {
            State::Scheduled | State::Cancelled => secs(3_600),
            _ => Millis::ZERO,
        };
        let schedule = timer(text, self.at(after));
        self.create(schedule.clone()).await;
        let firing = match state {
            State::Scheduled | State::Due => None,
            State::Cancelled => {
                let outcome = self.apply(cancel_op(text)).await;
                assert!(matches!(outcome, Outcome::Cancelled { .. }), "{outcome:?}");
                None
            }
            _ => Some(self.claim_one().await),
        };
        if let Some(firing) = &firing {
            match state {
                State::Retrying => self.settled(firing, retry_in(secs(3_600))).await,
                State::Finished => self.settled(firing, SettleVerdict::Ack).await,
                State::Dead => self.settled(firing, dead()).await,
                _ => {}
            }
        }
        assert_eq!(self.state(text).await, Some(state), "{text}");
        (schedule, firing)
    }

    pub(super) async fn redrive(&self, letter: DeadLetterId, delay: Millis) -> Outcome {
        self.apply(Operation::Redrive { letter, delay }).await
    }

    pub(super) async fn purge(&self, letter: DeadLetterId) -> Outcome {
        self.apply(Operation::Purge { letter }).await
    }

    /// Restarts the store; returns `true` if the harness can.
    pub(super) async fn restart(&self, how: super::Restart) -> bool {
        self.harness.restart(how).await.is_some()
    }
}
