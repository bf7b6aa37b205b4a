//! Writes decisions, and sweeps what the clock has ended.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
};

use duly_core::{NamespaceName, TimerId, Timestamp, shard::ShardId};
pub(crate) use duly_decide::TRIES;
use duly_decide::{Draft, Holder, Lease, LimitKind};
use duly_store::{Error, MemberId, Result};
use futures::{StreamExt, TryStreamExt, stream};
use redis::Value;

use crate::{
    connection::Call,
    deployment::{Deployment, ReadRequest},
    error::{damaged, unavailable},
    nodes::parse_member_id,
    record::member_id_text,
    reply::Reply,
    row::Row,
    script::Script,
};

/// Most changes of one call that are under way at the same time.
pub(crate) const AT_ONCE: usize = 64;
/// Most ended leases, and most ended firings, that one step of a sweep takes.
const SWEEP: usize = 64;
/// Most steps of a sweep before a call continues with what there is.
pub(crate) const SWEEPS: usize = 64;

/// Runs steps, at most [`AT_ONCE`] at the same time. Returns their results in the order in which they
/// end.
pub(crate) async fn at_once<T>(steps: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    stream::iter(steps).buffer_unordered(AT_ONCE).collect().await
}

/// Runs a step in many shards. Each runs to its end, also if others fail. Returns the first error if
/// there was one.
pub(crate) async fn everywhere<T>(
    steps: impl Iterator<Item = impl Future<Output = Result<T>>>,
) -> Result<Vec<T>> {
    at_once(steps).await.into_iter().collect()
}

/// Most scripts of one pipeline.
const PIPELINE: usize = 512;

/// Takes the items of the next round: each key once, and an item without a key alone.
pub(crate) fn next_round<T, K: Eq + Hash>(
    waiting: &mut VecDeque<T>,
    key_of: impl Fn(&T) -> Option<K>,
) -> Vec<T> {
    let (mut round, mut later, mut keys) = (Vec::new(), VecDeque::new(), HashSet::new());
    while let Some(item) = waiting.pop_front() {
        let Some(key) = key_of(&item) else {
            if round.is_empty() && later.is_empty() {
                return vec![item];
            }
            later.push_back(item);
            break;
        };
        if keys.contains(&key) {
            later.push_back(item);
        } else {
            keys.insert(key);
            round.push(item);
        }
    }
    later.append(waiting);
    *waiting = later;
    round
}

/// Result of writing a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteResult {
    Done,
    /// Something has changed since it was read.
    Changed,
    /// The namespace is being deleted.
    Closing,
    /// The namespace has as many pending timers, or dead letters, as it may.
    Full(LimitKind),
    /// The coordinator shard must be asked for a grant of `schedule_per_second`.
    NeedsGrant,
    /// `schedule_per_second` is used up; the next one fits after this many milliseconds.
    RateExceeded(u64),
}

/// Fate of a member id whose leases are ended in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberFate {
    /// It cannot act in this shard any more.
    Ends,
    /// It stays, and may take new leases in the meantime.
    Stays,
}

impl Deployment {
    /// Calls scripts, in pipelines of at most [`PIPELINE`]. Returns a result for each, in their order.
    pub(crate) async fn pipelined(
        &self,
        shard: ShardId,
        mut calls: Vec<Call>,
    ) -> Vec<Result<Value>> {
        let mut results = Vec::with_capacity(calls.len());
        while !calls.is_empty() {
            let rest = calls.split_off(calls.len().min(PIPELINE));
            results.extend(self.router.calls(shard, calls).await);
            calls = rest;
        }
        results
    }

    /// Writes a draft, unless something has changed since the row was read. `rate` is the admission of an operation
    /// that `schedule_per_second` limits.
    pub(crate) async fn write(
        &self,
        shard: ShardId,
        row: &Row,
        draft: &Draft,
        script: Script,
        rate: Option<&'static str>,
    ) -> Result<WriteResult> {
        let version = rand::random::<u64>().to_be_bytes();
        let mut reply =
            self.call_script(shard, script, row.arguments(draft, version, rate)).await?;
        let word = reply.text()?;
        let _now = reply.time()?;
        Ok(match word.as_str() {
            "DONE" => WriteResult::Done,
            "AGAIN" => WriteResult::Changed,
            "CLOSING" => WriteResult::Closing,
            "PENDING" => WriteResult::Full(LimitKind::Pending),
            "DEAD" => WriteResult::Full(LimitKind::Dead),
            "ASK" => WriteResult::NeedsGrant,
            "RATE" => WriteResult::RateExceeded(reply.number()?),
            other => return Err(damaged(format!("unknown reply to a change: {other}"))),
        })
    }

    /// Sweeps everything that the clock has ended, so that counts are exact afterwards.
    pub(crate) async fn sweep_all(&self, shard: ShardId) -> Result<()> {
        for _ in 0..SWEEPS {
            if self.sweep(shard).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Sweeps what the clock has ended, one step. Returns the number of timers it found.
    pub(crate) async fn sweep(&self, shard: ShardId) -> Result<usize> {
        let (_now, owed) = self.owed(shard, None).await?;
        let found = owed.len();
        let work = stream::iter(owed).map(|(name, id)| async move {
            let Some(row) = self.row(shard, ReadRequest::new(&name, &id)).await? else {
                return Ok(());
            };
            if let Some(draft) = row.case.due() {
                self.write(shard, &row, &draft, Script::Change, None).await?;
            }
            Ok::<(), Error>(())
        });
        work.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok(found)
    }

    /// Returns the member ids that hold leases in a shard, or quotas of lanes' limits.
    pub(crate) async fn holders(&self, shard: ShardId) -> Result<Vec<MemberId>> {
        let mut reply = self.call_script(shard, Script::Holders, Vec::new()).await?;
        reply.rest(|reply| parse_member_id(&reply.text()?))
    }

    /// Ends leases of a member id: with [`MemberFate::Ends`] all of them, and the member id in this
    /// shard; with [`MemberFate::Stays`] those that it holds now. Returns their number.
    pub(crate) async fn end_leases_of(
        &self,
        shard: ShardId,
        member_id: MemberId,
        then: MemberFate,
    ) -> Result<u64> {
        let mut released = 0;
        let mut idle = 0;
        let mut until = None;
        loop {
            let (now, owed) = self.owed(shard, Some((member_id, then))).await?;
            if owed.is_empty() {
                return Ok(released);
            }
            let until = *until.get_or_insert(now);
            let is_old = move |since| then == MemberFate::Ends || since <= until;
            let work = stream::iter(owed).map(|(name, id)| async move {
                let Some(row) = self.row(shard, ReadRequest::new(&name, &id)).await? else {
                    return Ok(false);
                };
                let is_held =
                    |lease: Lease| lease.holder == Holder::Node(member_id) && is_old(lease.since);
                let held = row.case.live.as_ref().filter(|live| live.lease.is_some_and(is_held));
                let lost = |live| row.case.lose_node(live);
                let Some(draft) = held.and_then(lost) else { return Ok(false) };
                let written = self.write(shard, &row, &draft, Script::Change, None).await?;
                Ok::<bool, Error>(written == WriteResult::Done)
            });
            let done: Vec<bool> = work.buffer_unordered(AT_ONCE).try_collect().await?;
            let done = done.into_iter().filter(|done| *done).count() as u64;
            released += done;
            idle = if done == 0 { idle + 1 } else { 0 };
            if idle > 0 && then == MemberFate::Stays {
                return Ok(released);
            }
            if idle >= TRIES {
                return Err(unavailable("the leases of the member id keep changing"));
            }
        }
    }

    /// Returns timers of which the clock has ended something, or which a member id holds.
    async fn owed(
        &self,
        shard: ShardId,
        member_id: Option<(MemberId, MemberFate)>,
    ) -> Result<(Timestamp, Vec<(NamespaceName, TimerId)>)> {
        let ends = member_id.is_some_and(|(_, then)| then == MemberFate::Ends);
        let member_id =
            member_id.map(|(member_id, _)| member_id_text(member_id)).unwrap_or_default();
        let arguments = vec![SWEEP.to_string().into_bytes(), member_id.into_bytes(), flag(ends)];
        let mut reply = self.call_script(shard, Script::Owed, arguments).await?;
        let now: Timestamp = reply.time()?;
        Ok((now, reply.rest(|reply| Ok((reply.name()?, reply.timer_id()?)))?))
    }

    /// Calls a script whose first argument asks it to reply `OWED` while something has ended and is not
    /// swept. Sweeps then, and calls it again.
    pub(crate) async fn call_swept(
        &self,
        shard: ShardId,
        script: Script,
        arguments: impl Fn(bool) -> Vec<Vec<u8>>,
    ) -> Result<(String, Timestamp, Reply)> {
        for round in 0.. {
            let strict = round < SWEEPS;
            let mut reply = self.call_script(shard, script, arguments(strict)).await?;
            let (word, now) = (reply.text()?, reply.time()?);
            if word != "OWED" {
                return Ok((word, now, reply));
            }
            self.sweep(shard).await?;
        }
        Err(unavailable("ended leases and firings cannot be swept"))
    }
}

/// Returns a flag in the scripts' form.
pub(crate) fn flag(on: bool) -> Vec<u8> {
    if on { b"1".to_vec() } else { b"0".to_vec() }
}

/// Returns a number in the scripts' form.
pub(crate) fn digits(number: impl ToString) -> Vec<u8> {
    number.to_string().into_bytes()
}
