//! Operations of callers: the common ones as one script each, the others as *read, decide, write if
//! nothing has changed*.
//!
//! A call is carried out in rounds. A round has each id once, so whatever has to be sent again or
//! takes a second trip, operations on one id keep their order; those on different ids may be
//! carried out in another order than that of the call.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use duly_core::{
    Incarnation, Invalid, Millis, NamespaceName, Schedule, Timer, Timestamp,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Command, Error, Limit, Operation, Outcome, Refusal, Result, TimerView, command::Letter,
};
use futures::{StreamExt, stream};
use redis::Value;

use crate::{
    case::{self, Control, Live, Step},
    change::{AT_ONCE, TRIES, Written, digits},
    deployment::{Deployment, Space, Wanted},
    error::{damaged, unavailable},
    link::Call,
    record::{self, Record},
    reply::Reply,
    script::Script,
};

/// Most scripts of one pipeline.
const PIPELINE: usize = 512;

/// Most schedules of one script.
const GROUP: usize = 64;
/// Most bytes of arguments of one script, unless one schedule alone has more.
const GROUP_BYTES: usize = 256 << 10;

/// An operation that was sent, with its place in the call.
type Item = (usize, Command, Option<Sent>);

/// Schedules of one namespace that share a script.
#[derive(Default)]
struct Group {
    arguments: Vec<Vec<u8>>,
    bytes: usize,
    items: Vec<Item>,
}

impl Group {
    const fn is_full(&self, more: usize) -> bool {
        let some = !self.items.is_empty();
        some && (self.items.len() >= GROUP || self.bytes + more > GROUP_BYTES)
    }

    fn add(&mut self, arguments: Vec<Vec<u8>>, bytes: usize, item: Item) {
        self.arguments.extend(arguments);
        self.bytes += bytes;
        self.items.push(item);
    }

    fn into_call(mut self, name: &NamespaceName) -> (Call, Vec<Item>) {
        self.arguments.insert(0, name.as_str().as_bytes().to_vec());
        (Call::new(Script::Schedule, self.arguments), self.items)
    }
}

/// A schedule that was sent as a new timer.
struct Sent {
    incarnation: Incarnation,
    lane: u8,
}

impl Deployment {
    pub(crate) async fn apply(&self, shard: ShardId, commands: Vec<Command>) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = commands.iter().map(|_| None).collect();
        let mut waiting: VecDeque<(usize, Command)> = commands.into_iter().enumerate().collect();
        while !waiting.is_empty() {
            let round = next_round(&mut waiting);
            for (i, outcome) in self.round(shard, round).await {
                outcomes[i] = Some(outcome);
            }
        }
        let lost = || Outcome::Failed(unavailable("no answer"));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
    }

    async fn round(&self, shard: ShardId, round: Vec<(usize, Command)>) -> Vec<(usize, Outcome)> {
        let mut done = Vec::with_capacity(round.len());
        let mut slow = Vec::new();
        let mut sent = Vec::new();
        let mut calls = Vec::new();
        let mut groups: HashMap<NamespaceName, Group> = HashMap::new();
        for (i, command) in round {
            if let Some(foreign) = self.foreign(shard, &command) {
                done.push((i, Outcome::Refused(foreign)));
                continue;
            }
            match &command.operation {
                Operation::Cancel { id, if_revision: None } => {
                    let name = command.namespace.as_str().as_bytes().to_vec();
                    let arguments = vec![name, id.as_str().as_bytes().to_vec()];
                    calls.push(Call::new(Script::Cancel, arguments));
                    sent.push(vec![(i, command, None)]);
                }
                Operation::Schedule { schedule, .. } => {
                    let incarnation = Incarnation(rand::random());
                    let Ok(record) = case::fresh(schedule, incarnation) else {
                        slow.push((i, command));
                        continue;
                    };
                    let how = Sent { incarnation, lane: record.lane };
                    let arguments = schedule_arguments(schedule, &record);
                    let bytes = arguments.iter().map(Vec::len).sum();
                    let name = command.namespace.clone();
                    let group = groups.entry(name.clone()).or_default();
                    if group.is_full(bytes) {
                        let (call, items) = std::mem::take(group).into_call(&name);
                        calls.push(call);
                        sent.push(items);
                    }
                    group.add(arguments, bytes, (i, command, Some(how)));
                }
                _ => slow.push((i, command)),
            }
        }
        for (name, group) in groups {
            let (call, items) = group.into_call(&name);
            calls.push(call);
            sent.push(items);
        }
        let mut answers = Vec::with_capacity(calls.len());
        while !calls.is_empty() {
            let rest = calls.split_off(calls.len().min(PIPELINE));
            answers.extend(self.router.calls(shard, calls).await);
            calls = rest;
        }
        for (items, answer) in sent.into_iter().zip(answers) {
            take_answers(items, answer, &mut done, &mut slow);
        }
        let work = slow.into_iter().map(|(i, command)| async move {
            let outcome = self.slowly(shard, &command).await.unwrap_or_else(Outcome::Failed);
            (i, outcome.answering(command.answer))
        });
        let mut work = stream::iter(work).buffer_unordered(AT_ONCE);
        while let Some(outcome) = work.next().await {
            done.push(outcome);
        }
        done
    }

    /// Refuses an id of another shard.
    fn foreign(&self, shard: ShardId, command: &Command) -> Option<Refusal> {
        let id = case::id_of(&command.operation)?;
        let own = shard_of(command.namespace.as_str(), id.as_str(), self.shards);
        let allowed = format!("an id of shard {}; this one is of shard {}", shard.0, own.0);
        (own != shard).then(|| Refusal::Invalid(Invalid::new("id", id, allowed)))
    }

    /// Reads, decides, and writes if nothing has changed meanwhile.
    async fn slowly(&self, shard: ShardId, command: &Command) -> Result<Outcome> {
        let incarnation = Incarnation(rand::random());
        let operation = &command.operation;
        let mut swept = matches!(operation, Operation::GiveUp { .. } | Operation::Import { .. });
        if swept {
            // They are refused by the number of dead letters, which the clock may have raised.
            self.sweep_all(shard).await?;
        }
        for _ in 0..TRIES {
            let Some(case) = self.case(shard, wanted(command)).await? else {
                let unknown = Refusal::UnknownNamespace(command.namespace.clone());
                return Ok(Outcome::Refused(unknown));
            };
            if let (Some(named), None) = (letter_of(operation), &case.letter)
                && case.seen.newest.is_none()
            {
                if swept {
                    return Ok(Outcome::Refused(case::not_found(named)));
                }
                // It may be one by the clock, and nobody has written that yet.
                swept = true;
                self.sweep_all(shard).await?;
                continue;
            }
            if let Some(draft) = case.due() {
                self.write(shard, &case, &draft, Script::Change).await?;
                continue;
            }
            let (draft, outcome) = match case.decide(operation, incarnation) {
                Ok(Step::Answer(outcome)) => return Ok(outcome),
                Ok(Step::Write(draft, outcome)) => (draft, outcome),
                Err(refusal) => return Ok(Outcome::Refused(refusal)),
            };
            let script = match operation {
                Operation::Schedule { .. }
                | Operation::Import { .. }
                | Operation::Reschedule { .. }
                | Operation::Redrive { .. } => Script::Grow,
                _ => Script::Change,
            };
            match self.write(shard, &case, &draft, script).await? {
                Written::Done => return Ok(outcome),
                Written::Again => {}
                Written::Closing => return Err(closing()),
                Written::TooMany if swept => {
                    return Ok(Outcome::Refused(too_many(&case.control)));
                }
                Written::TooMany => {
                    // What has ended by the clock is pending no more.
                    swept = true;
                    self.sweep_all(shard).await?;
                }
                Written::TooFast(wait_ms) => {
                    let rate = case.control.settings.limits.schedule_per_second.unwrap_or(0);
                    let wait = Duration::from_millis(wait_ms);
                    let name = &case.control.name;
                    return Ok(Outcome::Refused(Refusal::schedules_too_fast(name, rate, wait)));
                }
            }
        }
        Err(Error::Overloaded {
            reason: format!("others kept changing the timer; it was tried {TRIES} times"),
            retry_after: Millis::from_ms(100),
        })
    }
}

/// Takes the commands of the next round: each id once, and a dead letter that is named by its
/// delivery id, which tells no id, alone.
fn next_round(waiting: &mut VecDeque<(usize, Command)>) -> Vec<(usize, Command)> {
    let mut round = Vec::new();
    let mut ids = HashSet::new();
    let mut later = VecDeque::new();
    while let Some((i, command)) = waiting.pop_front() {
        let Some(id) = case::id_of(&command.operation).cloned() else {
            if round.is_empty() && later.is_empty() {
                return vec![(i, command)];
            }
            later.push_back((i, command));
            break;
        };
        let key = (command.namespace.clone(), id);
        if ids.contains(&key) {
            later.push_back((i, command));
        } else {
            ids.insert(key);
            round.push((i, command));
        }
    }
    later.append(waiting);
    *waiting = later;
    round
}

fn schedule_arguments(schedule: &Schedule, record: &Record) -> Vec<Vec<u8>> {
    let packed = record.pack(rand::random::<u64>().to_be_bytes());
    let (mode, ms) = match schedule.when {
        duly_core::schedule::When::At(at) => ("at", at.unix_ms()),
        duly_core::schedule::When::After(delay) => ("after", delay.ms()),
    };
    let bytes = schedule.payload.as_ref().map_or(0, |payload| payload.bytes.len());
    vec![
        schedule.id.as_str().as_bytes().to_vec(),
        mode.as_bytes().to_vec(),
        digits(ms),
        packed.record[..record::TIMES.start].to_vec(),
        packed.record[record::TIMES.end..].to_vec(),
        case::origin_of(record).unwrap_or_default().into_bytes(),
        packed.payload.unwrap_or_default(),
        digits(bytes),
        schedule.expire_after.map_or_else(Vec::new, |after| digits(after.ms())),
    ]
}

/// Takes the answer of a script apart: what it carried out, and what wants a closer look.
fn take_answers(
    items: Vec<Item>,
    answer: Result<Value>,
    done: &mut Vec<(usize, Outcome)>,
    slow: &mut Vec<(usize, Command)>,
) {
    let mut told = answer.and_then(|value| {
        let mut reply = Reply::list(value)?;
        Ok((reply.time()?, reply))
    });
    // The first word may be about all of them.
    let mut about_all = None;
    for (i, command, how) in items {
        let outcome = match &mut told {
            Ok((now, reply)) => answered(&command, how.as_ref(), *now, reply, &mut about_all),
            Err(error) => Err(error.clone()),
        };
        match outcome.unwrap_or_else(|error| Some(Outcome::Failed(error))) {
            Some(outcome) => done.push((i, outcome.answering(command.answer))),
            None => slow.push((i, command)),
        }
    }
}

/// What a script says of one operation; `None` when a closer look is needed.
fn answered(
    command: &Command,
    how: Option<&Sent>,
    now: Timestamp,
    reply: &mut Reply,
    about_all: &mut Option<String>,
) -> Result<Option<Outcome>> {
    let word = match about_all {
        Some(word) => word.clone(),
        None => reply.text()?,
    };
    Ok(match (word.as_str(), &command.operation, how) {
        ("NONE", ..) => {
            *about_all = Some(word);
            Some(Outcome::Refused(Refusal::UnknownNamespace(command.namespace.clone())))
        }
        ("CLOSING", ..) => {
            *about_all = Some(word);
            Some(Outcome::Failed(closing()))
        }
        ("CREATED", Operation::Schedule { schedule, .. }, Some(sent)) => {
            Some(created(&command.namespace, schedule, sent, now)?)
        }
        ("CANCELLED", Operation::Cancel { id, .. }, _) => {
            let timer = record::unpack_core(id.clone(), &reply.bytes()?)?;
            Some(Outcome::Cancelled {
                attempts: timer.attempts,
                maybe_delivered: timer.maybe_delivered,
                already: false,
            })
        }
        ("SLOW", ..) => None,
        (other, ..) => {
            return Err(damaged(format!("an operation was answered with {other}")));
        }
    })
}

/// The view of a timer that a script has made at `now`.
fn created(
    namespace: &NamespaceName,
    schedule: &Schedule,
    sent: &Sent,
    now: Timestamp,
) -> Result<Outcome> {
    let timer = Timer::new(schedule.clone(), now, sent.incarnation)
        .map_err(|invalid| damaged(format!("a timer was made that may not be: {invalid}")))?;
    let live = Live { record: Record::new(timer, sent.lane), lease: None };
    let view: TimerView = live.view(namespace, now);
    Ok(Outcome::Created(Arc::new(view)))
}

/// What is to be read for an operation.
fn wanted(command: &Command) -> Wanted<'_> {
    let operation = &command.operation;
    let mut wanted = Wanted {
        space: Space::Named(&command.namespace),
        id: case::id_of(operation),
        letter: None,
        firing: None,
        payloads: command.answer == duly_store::Answer::Whole,
    };
    match operation {
        Operation::Import { timer } => {
            wanted.firing = Some((timer.incarnation, timer.occurrence));
        }
        Operation::Redrive { letter: Letter::Delivery(did), .. }
        | Operation::Purge { letter: Letter::Delivery(did) } => wanted.letter = Some(*did),
        _ => {}
    }
    wanted
}

const fn letter_of(operation: &Operation) -> Option<&Letter> {
    match operation {
        Operation::Redrive { letter, .. } | Operation::Purge { letter } => Some(letter),
        _ => None,
    }
}

fn closing() -> Error {
    unavailable("the namespace is being deleted")
}

fn too_many(control: &Control) -> Refusal {
    let max = control.settings.limits.max_pending.unwrap_or(0);
    let reason = format!(
        "namespace {} has {max} pending timers, as many as limits.max_pending allows; cancel some, \
         wait until some have fired, or raise the limit",
        control.name
    );
    let retry_after = Some(Millis::from_secs(1));
    Refusal::Exhausted { limit: Limit::MaxPending, reason, retry_after }
}
