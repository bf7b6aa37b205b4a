//! The steps of the crash and fault tests, and their execution on a store.
//!
//! A step names timers, never tokens. The executor keeps the tokens of the claims, so the same steps can
//! run on two stores, and again after a restart.

use std::{collections::BTreeMap, sync::Arc};

use duly_core::{
    Millis, NamespaceName, Payload, Schedule, Settings, TimerId, Timestamp,
    destination::LaneKey,
    payload::Form,
    schedule::{Change, IfExists, Patch, When},
    shard::ShardId,
    timer::{AttemptOutcome, Wait},
};
use duly_store::{
    ClaimRequest, Command, Error, Firing, Lane, LaneClaim, Operation, Outcome, Owner, Result,
    SettleOutcome, SettleVerdict, Settlement, Store, TimerView, Token,
    command::DeadLetterId,
    conformance::ManualClock,
    namespaces::{Activity, DeleteMode, Namespace, Put, Secrets},
};

/// The only shard.
pub(crate) const SHARD: ShardId = ShardId(0);

/// A request of a test to a store.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A batch of operations in one namespace.
    Apply(&'static str, Vec<Operation>),
    /// A claim of up to this many firings of the pull lane.
    Claim(&'static str, usize),
    /// A verdict on the lease that a timer was last claimed with.
    Settle(&'static str, String, SettleVerdict),
    Put(&'static str, Box<Settings>),
    Activity(&'static str, Activity),
    Delete(&'static str),
    /// Background work of the store, after the clock was moved.
    Tick,
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Outcomes(Vec<Outcome>),
    Claimed(Vec<Firing>),
    Settled(Vec<SettleOutcome>),
    Namespace(Box<Namespace>),
    Nothing,
    /// The call was refused because of its contents.
    Refused(Error),
}

/// Tokens of the latest claims, by namespace and timer.
pub(crate) type Tokens = BTreeMap<(&'static str, String), Token>;

/// Waits for a call: an inline store returns at once, one with threads soon.
pub(crate) fn wait<T>(call: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut call = std::pin::pin!(call);
    loop {
        match call.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => return answer,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Carries out a step. A failure of the store is an error, even of a single item of a batch.
pub(crate) fn perform(store: &dyn Store, step: &Step, tokens: &mut Tokens) -> Result<Answer> {
    match ask(store, step, tokens) {
        Err(error @ (Error::Invalid(_) | Error::UnknownNamespace(_))) => Ok(Answer::Refused(error)),
        answered => answered,
    }
}

fn ask(store: &dyn Store, step: &Step, tokens: &mut Tokens) -> Result<Answer> {
    Ok(match step {
        Step::Apply(namespace, operations) => {
            let outcomes = apply(store, namespace, operations.clone())?;
            if let Some(error) = outcomes.iter().find_map(failure) {
                return Err(error);
            }
            Answer::Outcomes(outcomes)
        }
        Step::Claim(namespace, most) => {
            let firings = claim(store, namespace, *most)?;
            for firing in &firings {
                tokens.insert((*namespace, firing.id.to_string()), firing.token.clone());
            }
            Answer::Claimed(firings)
        }
        Step::Settle(namespace, id, verdict) => {
            let Some(token) = tokens.get(&(*namespace, id.clone())) else {
                return Ok(Answer::Nothing);
            };
            Answer::Settled(vec![settle(store, namespace, token, verdict.clone())?])
        }
        Step::Put(namespace, settings) => {
            let put = Put::Replace { settings: settings.clone(), secrets: Secrets::Set };
            let (namespace, _) = wait(store.put_namespace(name(namespace), put))?;
            Answer::Namespace(Box::new(namespace))
        }
        Step::Activity(namespace, activity) => {
            let namespace = wait(store.set_activity(name(namespace), *activity))?;
            Answer::Namespace(Box::new(namespace))
        }
        Step::Delete(namespace) => {
            wait(store.delete_namespace(name(namespace), DeleteMode::Force))?;
            Answer::Nothing
        }
        Step::Tick => {
            wait(store.ready(SHARD, None, 1))?;
            Answer::Nothing
        }
    })
}

fn failure(outcome: &Outcome) -> Option<Error> {
    match outcome {
        Outcome::Failed(error) => Some(error.clone()),
        _ => None,
    }
}

pub(crate) fn apply(
    store: &dyn Store,
    namespace: &str,
    operations: Vec<Operation>,
) -> Result<Vec<Outcome>> {
    let commands = operations.into_iter().map(|operation| Command {
        namespace: name(namespace),
        operation,
        answer: duly_store::Answer::Whole,
    });
    wait(store.apply(SHARD, commands.collect()))
}

pub(crate) fn claim_request(namespace: &str, most: usize) -> ClaimRequest {
    let lane = Lane { namespace: name(namespace), key: LaneKey::Pull };
    ClaimRequest {
        lanes: vec![LaneClaim { lane, first_max: most, retry_max: most }],
        total_max: most,
        bytes_max: u64::MAX,
        owner: Owner::Consumer { lease: None },
    }
}

pub(crate) fn claim(store: &dyn Store, namespace: &str, most: usize) -> Result<Vec<Firing>> {
    Ok(wait(store.claim(SHARD, claim_request(namespace, most)))?.firings)
}

pub(crate) fn settle(
    store: &dyn Store,
    namespace: &str,
    token: &Token,
    verdict: SettleVerdict,
) -> Result<SettleOutcome> {
    let settlement = Settlement { token: token.clone(), namespace: Some(name(namespace)), verdict };
    Ok(wait(store.settle(SHARD, vec![settlement]))?[0])
}

pub(crate) fn get(store: &dyn Store, namespace: &str, id: &str) -> Option<TimerView> {
    wait(store.get(SHARD, name(namespace), timer_id(id), u64::MAX)).expect("a timer can be read")
}

pub(crate) fn name(text: &str) -> NamespaceName {
    NamespaceName::new(text).expect("tests use names that are allowed")
}

pub(crate) fn timer_id(text: &str) -> TimerId {
    TimerId::new(text).expect("tests use ids that are allowed")
}

/// Returns the time this long after the start of the tests' clock.
pub(crate) fn at(after_ms: u64) -> When {
    When::At(due(after_ms))
}

pub(crate) fn due(after_ms: u64) -> Timestamp {
    ManualClock::START.saturating_add(Millis::from_ms(after_ms))
}

/// Makes a payload that differs from those of other seeds.
pub(crate) fn payload(seed: &str, bytes: usize) -> Payload {
    let text: Vec<u8> = seed.bytes().cycle().take(bytes.max(seed.len())).collect();
    Payload { form: Form::Binary, bytes: text.into() }
}

pub(crate) fn schedule(id: &str, after_ms: u64, payload_bytes: usize) -> Operation {
    put_timer(id, after_ms, payload(id, payload_bytes), IfExists::Fail)
}

pub(crate) fn put_timer(
    id: &str,
    after_ms: u64,
    payload: Payload,
    if_exists: IfExists,
) -> Operation {
    let mut schedule = Schedule::new(timer_id(id), at(after_ms));
    schedule.spec.payload = Some(payload);
    Operation::Schedule { schedule: Box::new(schedule), if_exists }
}

pub(crate) fn reschedule(id: &str, after_ms: u64) -> Operation {
    patch(id, Patch { when: Some(at(after_ms)), ..Patch::default() })
}

pub(crate) fn repay(id: &str, payload: Payload) -> Operation {
    patch(id, Patch { payload: Change::Set(payload), ..Patch::default() })
}

fn patch(id: &str, patch: Patch) -> Operation {
    Operation::Reschedule { id: timer_id(id), patch: Box::new(patch), if_revision: None }
}

pub(crate) fn cancel(id: &str) -> Operation {
    Operation::Cancel { id: timer_id(id), if_revision: None }
}

pub(crate) fn fire(id: &str) -> Operation {
    Operation::Fire { id: timer_id(id) }
}

pub(crate) fn redrive(id: &str, delay_ms: u64) -> Operation {
    let letter = DeadLetterId::Timer(timer_id(id));
    Operation::Redrive { letter, delay: Millis::from_ms(delay_ms) }
}

pub(crate) fn purge(id: &str) -> Operation {
    Operation::Purge { letter: DeadLetterId::Timer(timer_id(id)) }
}

pub(crate) fn retry_in(after_ms: u64) -> SettleVerdict {
    SettleVerdict::Retry {
        wait: Wait::Exactly(Millis::from_ms(after_ms)),
        outcome: AttemptOutcome::Failed,
        reason: "status 503".to_owned(),
    }
}

pub(crate) fn dead_letter_verdict() -> SettleVerdict {
    SettleVerdict::Dead { reason: "never again".to_owned() }
}
