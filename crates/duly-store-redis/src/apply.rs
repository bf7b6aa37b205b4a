//! Operations of callers: the common ones take one script each, the others *read, decide, and write if
//! nothing has changed*.
//!
//! A call is executed in rounds, and a round has each id once. So operations on one id keep their order,
//! also if some are sent again or take the slow path. Operations on different ids may be executed in
//! another order than that of the call.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use duly_core::{
    Incarnation, Invalid, NamespaceName, Schedule, Timer, Timestamp,
    schedule::When,
    shard::{ShardId, shard_of},
};
use duly_decide::{Item, contended};
use duly_store::{Command, Operation, Outcome, Refusal, Result, TimerView};
use redis::Value;

use crate::{
    change::{at_once, digits, next_round},
    connection::Call,
    deployment::Deployment,
    error::{before_change, damaged, unavailable},
    namespaces::Absence,
    rate::Grant,
    record::{self, Packed, Record},
    reply::Reply,
    row::receiver_of,
    rows::ShardRows,
    script::Script,
};

/// Most schedule operations of one script.
const GROUP: usize = 64;
/// Most bytes of arguments of one script, unless a single schedule operation has more.
const GROUP_BYTES: usize = 256 << 10;

/// Least number of arguments of each schedule operation.
const PARTS: usize = 4;

/// A command with its place in the call, and the incarnation of the timer that it creates.
type SentCommand = (usize, Command, Option<Incarnation>);

/// Schedule operations of one namespace that share a script.
#[derive(Default)]
struct ScheduleGroup {
    schedules: ScheduleArguments,
    items: Vec<SentCommand>,
}

impl ScheduleGroup {
    const fn is_full(&self, more: usize) -> bool {
        let some = !self.items.is_empty();
        some && (self.items.len() >= GROUP || self.schedules.bytes + more > GROUP_BYTES)
    }
}

/// Arguments of a schedule script.
#[derive(Default)]
pub(crate) struct ScheduleArguments {
    count: usize,
    /// [`PARTS`] arguments of each schedule operation, the id first.
    each: Vec<Vec<u8>>,
    /// Five more arguments for each one that needs them.
    more: Vec<Vec<u8>>,
    bytes: usize,
}

impl ScheduleArguments {
    pub(crate) fn add(&mut self, schedule: &Schedule, record: &Record, packed: Packed) {
        let (sign, ms) = match schedule.when {
            When::At(at) => ("", at.unix_ms()),
            When::After(delay) => ("+", delay.ms()),
        };
        self.count += 1;
        self.bytes += size_of(&packed);
        self.each.push(schedule.id.as_str().as_bytes().to_vec());
        self.each.push(format!("{sign}{ms}").into_bytes());
        self.each.push(packed.record[..record::TIMES.start].to_vec());
        self.each.push(packed.record[record::TIMES.end..].to_vec());
        let receiver = receiver_of(record);
        if receiver.is_some() || packed.payload.is_some() || schedule.spec.expire_after.is_some() {
            let bytes = schedule.spec.payload.as_ref().map_or(0, |payload| payload.bytes.len());
            let expires = schedule.spec.expire_after.map(|after| digits(after.ms()));
            self.more.push(digits(self.count));
            self.more.push(receiver.unwrap_or_default().as_bytes().to_vec());
            self.more.push(packed.payload.unwrap_or_default());
            self.more.push(digits(bytes));
            self.more.push(expires.unwrap_or_default());
        }
    }

    pub(crate) fn arguments(self, name: &NamespaceName, admission: Vec<u8>) -> Vec<Vec<u8>> {
        let mut arguments = vec![name.as_str().as_bytes().to_vec(), admission, digits(self.count)];
        arguments.extend(self.each);
        arguments.extend(self.more);
        arguments
    }
}

/// Returns the approximate bytes of arguments of a record.
fn size_of(packed: &Packed) -> usize {
    packed.record.len() + packed.payload.as_ref().map_or(0, Vec::len)
}

impl Deployment {
    pub(crate) async fn apply(&self, shard: ShardId, commands: Vec<Command>) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = commands.iter().map(|_| None).collect();
        let mut waiting: VecDeque<(usize, Command)> = commands.into_iter().enumerate().collect();
        while !waiting.is_empty() {
            // A dead letter that is named by its delivery id has no id here.
            let key = |(_, command): &(usize, Command)| {
                Some((command.namespace.clone(), command.operation.id()?.clone()))
            };
            let round = next_round(&mut waiting, key);
            for (i, outcome) in self.round(shard, round).await {
                outcomes[i] = Some(outcome);
            }
        }
        let lost = || Outcome::Failed(unavailable("no reply"));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
    }

    async fn round(&self, shard: ShardId, round: Vec<(usize, Command)>) -> Vec<(usize, Outcome)> {
        let mut done = Vec::with_capacity(round.len());
        let mut slow = Vec::new();
        let mut absent: HashMap<NamespaceName, Vec<(usize, Command)>> = HashMap::new();
        let unrepaired = self.unrepaired(round.iter().map(|(_, command)| &command.namespace)).await;
        let mut sent = Vec::new();
        let mut calls = Vec::new();
        let mut groups: HashMap<NamespaceName, Vec<ScheduleGroup>> = HashMap::new();
        for (i, command) in round {
            if let Some(foreign) = self.foreign(shard, &command) {
                done.push((i, Outcome::Refused(foreign)));
                continue;
            }
            let creates =
                matches!(command.operation, Operation::Schedule { .. } | Operation::Import { .. });
            if let Some(error) = unrepaired.get(&command.namespace).filter(|_| creates) {
                done.push((i, Outcome::Failed(error.clone())));
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
                    let Ok(record) = new_record(schedule, incarnation) else {
                        slow.push((i, command));
                        continue;
                    };
                    let packed = record.pack(rand::random::<u64>().to_be_bytes());
                    let bytes = size_of(&packed);
                    let groups = groups.entry(command.namespace.clone()).or_default();
                    if groups.last().is_none_or(|group| group.is_full(bytes)) {
                        groups.push(ScheduleGroup::default());
                    }
                    if let Some(group) = groups.last_mut() {
                        group.schedules.add(schedule, &record, packed);
                        group.items.push((i, command, Some(incarnation)));
                    }
                }
                _ => slow.push((i, command)),
            }
        }
        let mut granted = Vec::new();
        for (name, groups) in groups {
            for group in groups {
                let (admission, grant) = self.admit_by_rate(shard, &name, &group.schedules).await;
                granted.extend(grant.map(|grant| (sent.len(), name.clone(), grant)));
                let arguments = group.schedules.arguments(&name, admission);
                calls.push(Call::new(Script::Schedule, arguments));
                sent.push(group.items);
            }
        }
        let results = self.pipelined(shard, calls).await;
        for (place, (items, answer)) in sent.into_iter().zip(results).enumerate() {
            let (done_before, namespace) =
                (done.len(), items.first().map(|item| &item.1.namespace));
            let namespace = namespace.cloned();
            let mut slow_path = Vec::new();
            let word = parse_replies(items, answer, &mut done, &mut slow_path);
            match (word.as_deref(), namespace) {
                (Some("NONE"), Some(name)) => absent.entry(name).or_default().extend(slow_path),
                (Some("RATED"), Some(name)) => {
                    self.remember_rate(&name);
                    slow.extend(slow_path);
                }
                _ => slow.extend(slow_path),
            }
            if let Some((_, name, grant)) = granted.iter().find(|(own, ..)| *own == place) {
                let used = done[done_before..].iter().filter(|(_, outcome)| takes_rate(outcome));
                self.give_back(name, grant, grant.count.saturating_sub(used.count())).await;
            }
        }
        for (name, commands) in absent {
            let outcome = match before_change(self.absent(shard, &name).await) {
                Ok(Absence::Taken) => {
                    slow.extend(commands);
                    continue;
                }
                Ok(Absence::NoNamespace) => Outcome::Refused(Refusal::UnknownNamespace(name)),
                Err(error) => Outcome::Failed(error),
            };
            done.extend(commands.into_iter().map(|(i, _)| (i, outcome.clone())));
        }
        let work = slow.into_iter().map(|(i, command)| async move {
            (i, self.apply_slow(shard, &command).await.answering(command.answer))
        });
        done.extend(at_once(work).await);
        done
    }

    /// Returns what covers these schedule operations for the rate of their namespace, and the grant of
    /// the coordinator shard if there is one.
    async fn admit_by_rate(
        &self,
        shard: ShardId,
        name: &NamespaceName,
        schedules: &ScheduleArguments,
    ) -> (Vec<u8>, Option<Grant>) {
        if self.coordinator_of(name) == shard {
            return (b"home".to_vec(), None);
        }
        if !self.rated.lock().contains(name) {
            return (Vec::new(), None);
        }
        // Without a reply each operation takes the slow path, which returns the error.
        let free = self.count_free_ids(shard, name, schedules).await.unwrap_or(0);
        if free == 0 {
            return (digits(0), None);
        }
        let grant = self.grant(name, free).await.unwrap_or_default();
        (digits(grant.count), Some(grant))
    }

    /// Returns for how many of them the rate is asked: a repeated schedule operation takes nothing of
    /// it.
    pub(crate) async fn count_free_ids(
        &self,
        shard: ShardId,
        name: &NamespaceName,
        all: &ScheduleArguments,
    ) -> Result<usize> {
        let mut arguments = vec![name.as_str().as_bytes().to_vec()];
        arguments.extend(all.each.iter().step_by(PARTS).cloned());
        let mut reply = self.call_script(shard, Script::CountFreeIds, arguments).await?;
        let _now = reply.time()?;
        Ok(usize::try_from(reply.number()?).unwrap_or(all.count))
    }

    /// Reads, decides, and writes if nothing has changed in between.
    async fn apply_slow(&self, shard: ShardId, command: &Command) -> Outcome {
        let item = Item { command, random: rand::random() };
        let mut rows = ShardRows::new(self, shard, None);
        let outcome = duly_decide::apply(&mut rows, &[item]).await.pop();
        // The coordinator shard may have granted an operation that made no timer.
        rows.give_back(&command.namespace).await;
        outcome.unwrap_or_else(|| Err(contended())).unwrap_or_else(Outcome::Failed)
    }

    /// Refuses an id of another shard.
    fn foreign(&self, shard: ShardId, command: &Command) -> Option<Refusal> {
        let id = command.operation.id()?;
        let own = shard_of(command.namespace.as_str(), id.as_str(), self.shards);
        let allowed = format!("an id of shard {}; this one is of shard {}", shard.0, own.0);
        (own != shard).then(|| Refusal::Invalid(Invalid::new("id", id, allowed)))
    }
}

/// Parses the reply of a script: outcomes go to `done`, operations that need the slow path to
/// `slow_path`. Returns the word that applied to all of them, if there was one.
fn parse_replies(
    items: Vec<SentCommand>,
    answer: Result<Value>,
    done: &mut Vec<(usize, Outcome)>,
    slow_path: &mut Vec<(usize, Command)>,
) -> Option<String> {
    let mut reply = answer.and_then(|value| {
        let mut reply = Reply::list(value)?;
        Ok((reply.time()?, reply))
    });
    // The first word may apply to all of them.
    let mut word_for_all = None;
    for (i, command, incarnation) in items {
        let outcome = match &mut reply {
            Ok((now, reply)) => {
                parse_outcome(&command, incarnation, *now, reply, &mut word_for_all)
            }
            Err(error) => Err(error.clone()),
        };
        match outcome.unwrap_or_else(|error| Some(Outcome::Failed(error))) {
            Some(outcome) => done.push((i, outcome.answering(command.answer))),
            None => slow_path.push((i, command)),
        }
    }
    word_for_all
}

/// Returns the timer that a schedule operation makes if its id is free. The store's clock is not known
/// yet, so a delay counts from the beginning of time.
///
/// # Errors
/// When the due time is past 2200-01-01 at any time of the clock.
pub(crate) fn new_record(
    schedule: &Schedule,
    incarnation: Incarnation,
) -> std::result::Result<Record, Invalid> {
    Timer::new(schedule.clone(), Timestamp::MIN, incarnation).map(Record::of)
}

/// Returns `true` if an outcome counts for the rate. One in doubt does, as the timer may have been made.
const fn takes_rate(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Created(_) | Outcome::Failed(_))
}

/// Returns the outcome that a script reports for one operation; `None` if it needs the slow path.
fn parse_outcome(
    command: &Command,
    incarnation: Option<Incarnation>,
    now: Timestamp,
    reply: &mut Reply,
    word_for_all: &mut Option<String>,
) -> Result<Option<Outcome>> {
    let word = match word_for_all {
        Some(word) => word.clone(),
        None => reply.text()?,
    };
    Ok(match (word.as_str(), &command.operation, incarnation) {
        // The slow path waits for the deletion lock, asks the coordinator shard, or finds out why
        // the namespace is missing.
        ("NONE" | "CLOSING" | "RATED", ..) => {
            *word_for_all = Some(word);
            None
        }
        ("CREATED", Operation::Schedule { schedule, .. }, Some(incarnation)) => {
            Some(created(&command.namespace, schedule, incarnation, now)?)
        }
        ("CANCELLED", Operation::Cancel { id, .. }, _) => {
            let timer =
                record::unpack_core(id.clone(), &reply.bytes()?).map_err(record::unreadable)?;
            Some(Outcome::Cancelled {
                attempts: timer.attempts,
                maybe_delivered: timer.maybe_delivered,
                already: false,
            })
        }
        ("SLOW", ..) => None,
        (other, ..) => {
            return Err(damaged(format!("unknown reply to an operation: {other}")));
        }
    })
}

/// Returns the view of a timer that a script has made at `now`.
fn created(
    namespace: &NamespaceName,
    schedule: &Schedule,
    incarnation: Incarnation,
    now: Timestamp,
) -> Result<Outcome> {
    let timer = Timer::new(schedule.clone(), now, incarnation)
        .map_err(|invalid| damaged(format!("a script created an invalid timer: {invalid}")))?;
    Ok(Outcome::Created(Arc::new(TimerView::unleased(namespace.clone(), timer, now))))
}

#[cfg(test)]
mod tests;
