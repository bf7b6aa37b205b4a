//! Runs one operation.

use duly_core::{
    Incarnation, Millis, NamespaceName, RetryPolicy, Schedule, Timer, TimerId, TimerSpec,
    schedule::{Patch, When},
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Wait},
};

use super::{
    ClaimOp, ImportedHistory, Known, Op, OpCommand, Timing, advance, normal, restart, tick,
};
use crate::{
    Answer, ClaimRequest, Command, Firing, Lane, LaneClaim, MemberId, Operation, Owner,
    SettleVerdict, Settlement, Token,
    command::DeadLetterId,
    conformance::{
        Harness,
        scene::{SHARD, name},
    },
    namespaces::{Put, Secrets},
};

/// Runs `op` on a harness and returns the result in normal form. `known` belongs to the harness and is kept
/// from step to step.
pub async fn apply_to(harness: &dyn Harness, op: &Op, known: &mut Known) -> Vec<String> {
    tick(harness).await;
    match op {
        Op::Apply { namespace, requests } => {
            apply(harness, &name(namespace), requests, known).await
        }
        Op::Claim(claim_op) => claim(harness, claim_op, known).await,
        Op::Settle(verdicts) => settle(harness, verdicts, known).await,
        Op::ReleaseNode(node) => {
            let released = harness.store().release_owner(SHARD, MemberId(*node)).await;
            vec![format!("{released:?}")]
        }
        Op::Advance(by) => advance(harness, *by).await,
        Op::StepWall(by_ms) => vec![format!("{:?}", harness.step_wall(*by_ms))],
        Op::Restart(how) => restart(harness, *how).await,
        Op::SetActivity(namespace, activity) => {
            let set = harness.store().set_activity(name(namespace), *activity).await;
            vec![format!("{set:?}")]
        }
        Op::Put(namespace, settings) => {
            let put = Put::Replace { settings: settings.clone(), secrets: Secrets::Set };
            let put = harness.store().put_namespace(name(namespace), put).await;
            vec![format!("{put:?}")]
        }
    }
}

async fn apply(
    harness: &dyn Harness,
    namespace: &NamespaceName,
    requests: &[OpCommand],
    known: &mut Known,
) -> Vec<String> {
    let commands = requests.iter().filter_map(|request| {
        Some(Command {
            namespace: namespace.clone(),
            operation: operation(harness, request, known)?,
            answer: Answer::Whole,
        })
    });
    let answer = harness.store().apply(SHARD, commands.collect()).await;
    match answer {
        Ok(outcomes) => {
            outcomes.iter().for_each(|outcome| known.note_outcome(outcome));
            let lines = outcomes.iter().map(|o| normal::outcome(o, harness.now(), known));
            lines.collect()
        }
        Err(error) => vec![error.code().as_str().to_owned()],
    }
}

/// Returns the operation of a request; `None` if it names a firing and there was none yet.
fn operation(harness: &dyn Harness, request: &OpCommand, known: &Known) -> Option<Operation> {
    let latest = |id: &TimerId| DeadLetterId::Timer(id.clone());
    let of_firing = |back: u64| Some(DeadLetterId::Delivery(known.firing(back)?.1));
    Some(match request.clone() {
        OpCommand::Schedule {
            id,
            timing,
            payload,
            tags,
            destination,
            retry,
            expire_after,
            if_exists,
        } => Operation::Schedule {
            schedule: Box::new(Schedule {
                id,
                when: when(harness, timing),
                spec: TimerSpec {
                    payload,
                    tags,
                    destination,
                    retry,
                    expire_after,
                    ..TimerSpec::default()
                },
            }),
            if_exists,
        },
        OpCommand::Reschedule { id, timing, payload, destination, if_revision } => {
            let patch = Patch {
                when: timing.map(|timing| when(harness, timing)),
                payload,
                destination,
                ..Patch::default()
            };
            let patch = Box::new(patch);
            Operation::Reschedule { id, patch, if_revision }
        }
        OpCommand::Import { id, incarnation, occurrence, timing, history } => Operation::Import {
            timer: imported(harness, id, (incarnation, occurrence), timing, history),
        },
        OpCommand::Cancel { id, if_revision, or_stop: false } => {
            Operation::Cancel { id, if_revision }
        }
        OpCommand::Cancel { id, if_revision, or_stop: true } => {
            Operation::CancelOrStop { id, if_revision, seen: None }
        }
        OpCommand::Fire(id) => Operation::Fire { id },
        OpCommand::DeadLetter(id, ago) => Operation::DeadLetter {
            id,
            if_due_by: duly_core::Timestamp::saturating_from_unix_ms(
                harness.now().unix_ms().saturating_sub(ago.ms()),
            ),
        },
        OpCommand::Redrive(id, delay) => Operation::Redrive { letter: latest(&id), delay },
        OpCommand::RedriveFiring(back, delay) => {
            Operation::Redrive { letter: of_firing(back)?, delay }
        }
        OpCommand::Forget(id) => Operation::Forget { id },
        OpCommand::Purge(id) => Operation::Purge { letter: latest(&id) },
        OpCommand::PurgeFiring(back) => Operation::Purge { letter: of_firing(back)? },
    })
}

/// Returns a timer as another store had it.
fn imported(
    harness: &dyn Harness,
    id: TimerId,
    (incarnation, occurrence): (u64, u32),
    timing: Timing,
    history: ImportedHistory,
) -> Box<Timer> {
    let now = harness.now();
    let schedule = Schedule::new(id, when(harness, timing));
    let mut timer = Timer::new(schedule, now, Incarnation(incarnation)).expect("near enough");
    timer.occurrence = occurrence;
    if history != ImportedHistory::First {
        let attempt = Attempt::new(1, now, AttemptOutcome::Failed, "elsewhere");
        let policy = RetryPolicy::Delays(vec![Millis::ZERO]);
        timer.attempt_failed(attempt, Wait::None, &policy, 0, timer.due_at);
    }
    if history == ImportedHistory::Dead {
        timer.mark_dead_letter(now, DeadLetterReason::AttemptsSpent);
    }
    Box::new(timer)
}

fn when(harness: &dyn Harness, timing: Timing) -> When {
    match timing {
        Timing::After(delay) => When::After(delay),
        Timing::At(by_ms) => {
            let now_ms = harness.now().unix_ms();
            let due_ms = now_ms.saturating_add_signed(by_ms);
            When::At(duly_core::Timestamp::saturating_from_unix_ms(due_ms))
        }
    }
}

async fn claim(harness: &dyn Harness, claim_op: &ClaimOp, known: &mut Known) -> Vec<String> {
    let lanes = claim_op.lanes.iter().map(|(namespace, key)| LaneClaim {
        lane: Lane { namespace: name(namespace), key: key.clone() },
        first_max: claim_op.first_max,
        retry_max: claim_op.retry_max,
    });
    let request = ClaimRequest {
        lanes: lanes.collect(),
        total_max: 10_000,
        bytes_max: claim_op.bytes_max,
        owner: match claim_op.node {
            Some(node) => Owner::Node(MemberId(node)),
            None => Owner::Consumer { lease: claim_op.lease },
        },
    };
    let mut claimed = match harness.store().claim(SHARD, request).await {
        Ok(claimed) => claimed,
        Err(error) => return vec![error.code().as_str().to_owned()],
    };
    let mut lines = Vec::new();
    // Retries of one lane are adjacent. The order of their times leaves the order of their ids open, so
    // they are compared in the order of ids.
    let is_retry = |firing: &Firing| known.is_retry(firing);
    for lane in claimed.firings.chunk_by_mut(|a, b| same_lane(a, b) && is_retry(a) == is_retry(b)) {
        if !lane.is_sorted_by_key(|firing| firing.claimable_at) {
            lines.push("not in order of their times".to_owned());
        }
        if lane.first().is_some_and(is_retry) {
            lane.sort_by(|a, b| a.id.cmp(&b.id));
        }
    }
    for firing in claimed.firings {
        lines.push(normal::firing(&firing, known));
        known.note(firing.token, firing.delivery_id);
    }
    lines.push(format!("more {:?}", claimed.more));
    lines
}

fn same_lane(a: &Firing, b: &Firing) -> bool {
    (&a.namespace, &a.lane) == (&b.namespace, &b.lane)
}

async fn settle(
    harness: &dyn Harness,
    verdicts: &[(u64, SettleVerdict)],
    known: &Known,
) -> Vec<String> {
    let settlements = verdicts.iter().map(|(back, verdict)| Settlement {
        // Before the first claim, any token will do.
        token: known.firing(*back).map_or_else(|| Token::new(SHARD, &[0; 8]), |(t, _)| t.clone()),
        namespace: None,
        verdict: verdict.clone(),
    });
    match harness.store().settle(SHARD, settlements.collect()).await {
        Ok(outcomes) => outcomes.iter().map(|outcome| outcome.as_str().to_owned()).collect(),
        Err(error) => vec![error.code().as_str().to_owned()],
    }
}
