//! Calls on many timers at once. Each goes on, call after call, until nothing is left to do.

use std::time::{Duration, SystemTime};

use duly_proto::v1::{self, cancel_many_request::Which as Fitting, operation::Operation as Kind};
use uuid::Uuid;

use super::{Client, namespace_out};
use crate::{
    batch::of_item,
    error::{Error, of_problem},
    many::{CancelMany, CancelledMany, DeadLetterResult, DeadLettered, Letters, Redrive},
    operation::{Done, Operation},
    retry::Safety,
    wire::{
        answer::done_in,
        many::{filter_out, purge_out, redrive_out},
        request::operation_out,
        required,
        time::{time_from, time_out},
    },
};

/// Most timers of one cancel by filter.
const CANCELS_MAX: u64 = 10_000;

impl Client {
    /// Carries out up to 10,000 operations in one message; one result for each, in order. One id's
    /// operations run in order, and one that is refused refuses only itself.
    ///
    /// Calls of their own go together by themselves ([`Batching`](crate::Batching)), and each decides
    /// for itself whether it is repeated; so this is for operations that are at hand together.
    pub async fn batch(
        &self,
        namespace: &str,
        operations: Vec<Operation>,
    ) -> Result<Vec<Result<Done, Error>>, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let mut results: Vec<Option<Result<Done, Error>>> = Vec::with_capacity(operations.len());
        let mut sent = Vec::with_capacity(operations.len());
        for operation in operations {
            match operation_out(operation, || Uuid::now_v7().to_string()) {
                Ok(operation) => {
                    sent.push(v1::Operation { operation: Some(operation) });
                    results.push(None);
                }
                Err(invalid) => results.push(Some(Err(invalid.into()))),
            }
        }
        let answered = if sent.is_empty() {
            Vec::new()
        } else {
            let safety = safety_of(&sent);
            let request = v1::BatchRequest { namespace, operations: sent.clone() };
            call!(self, timers.batch, request, safety, Duration::ZERO)?.results
        };
        if answered.len() != sent.len() {
            let (asked, answered) = (sent.len(), answered.len());
            return Err(Error::answer(format!("{answered} results for {asked} operations")));
        }
        let mut answered = sent
            .iter()
            .zip(answered)
            .enumerate()
            .map(|(place, (asked, result))| of_item(asked, place, result).and_then(done_in));
        let next = || Err(Error::answer("a result is missing"));
        Ok(results
            .into_iter()
            .map(|result| result.unwrap_or_else(|| answered.next().unwrap_or_else(next)))
            .collect())
    }

    /// Cancels the pending timers that fit, in as many calls as it takes. What is being delivered is
    /// left alone and counted.
    ///
    /// After an error, what was cancelled before is cancelled; made again, it goes on with those that
    /// are left.
    pub async fn cancel_many(
        &self,
        namespace: &str,
        which: CancelMany,
    ) -> Result<CancelledMany, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let CancelMany { filter, mut limit, dry_run } = which;
        let safety = if dry_run { Safety::Reading } else { Safety::Once };
        let which = match filter {
            Some(filter) => Fitting::Filter(filter_out(filter)?),
            None => Fitting::All(true),
        };
        let which = Some(which);
        let mut request =
            v1::CancelManyRequest { namespace, which, limit: None, cursor: None, dry_run };
        let mut total = CancelledMany::default();
        loop {
            // None at all is refused by the server.
            let share = limit.map(|limit| limit.min(CANCELS_MAX));
            request.limit = share.map(|share| u32::try_from(share).unwrap_or(u32::MAX));
            let step = call!(self, timers.cancel_many, request.clone(), safety, Duration::ZERO)?;
            total.cancelled += step.cancelled;
            total.maybe_delivered += step.maybe_delivered;
            total.skipped += step.skipped;
            limit = limit.map(|limit| limit.saturating_sub(step.cancelled));
            if step.cursor.is_none() || limit == Some(0) {
                return Ok(total);
            }
            request.cursor = step.cursor;
        }
    }

    /// Sends dead letters again, in as many calls as it takes.
    pub async fn redrive(
        &self,
        namespace: &str,
        redrive: Redrive,
    ) -> Result<DeadLetterResult, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let mut request = redrive_out(namespace, redrive);
        let mut total = DeadLetterResult::default();
        loop {
            let step = call!(self, timers.redrive, request.clone(), Safety::Once, Duration::ZERO)?;
            total.add(step.redriven, step.errors)?;
            match step.cursor {
                Some(cursor) => request.cursor = Some(cursor),
                None => return Ok(total),
            }
        }
    }

    /// Drops dead letters for good, in as many calls as it takes.
    pub async fn purge(
        &self,
        namespace: &str,
        letters: Letters,
    ) -> Result<DeadLetterResult, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let mut request = purge_out(namespace, letters);
        let mut total = DeadLetterResult::default();
        loop {
            let step = call!(self, timers.purge, request.clone(), Safety::Once, Duration::ZERO)?;
            total.add(step.purged, step.errors)?;
            match step.cursor {
                Some(cursor) => request.cursor = Some(cursor),
                None => return Ok(total),
            }
        }
    }

    /// Makes dead letters of what was due by a moment, now without one, in place of late deliveries:
    /// for a paused namespace, as after a restore. What is being delivered is left alone.
    pub async fn dead_letter_overdue(
        &self,
        namespace: &str,
        due_by: Option<SystemTime>,
    ) -> Result<DeadLettered, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let due_by = due_by.map(|time| time_out("due_by", time)).transpose()?;
        let mut request = v1::DeadLetterOverdueRequest { namespace, due_by, cursor: None };
        let mut dead_lettered = 0;
        loop {
            let step = call!(
                self,
                timers.dead_letter_overdue,
                request.clone(),
                Safety::Once,
                Duration::ZERO
            )?;
            dead_lettered += step.dead_lettered;
            request.due_by = step.due_by;
            match step.cursor {
                Some(cursor) => request.cursor = Some(cursor),
                None => {
                    let due_by = request.due_by.and_then(time_from);
                    return Ok(DeadLettered { dead_lettered, due_by });
                }
            }
        }
    }
}

impl DeadLetterResult {
    fn add(&mut self, done: u64, errors: Vec<v1::DeadLetterError>) -> Result<(), Error> {
        self.done += done;
        for v1::DeadLetterError { index, error } in errors {
            let why = of_problem(required("reason of a refusal", error)?);
            self.refused.push((usize::try_from(index).unwrap_or(usize::MAX), why));
        }
        Ok(())
    }
}

/// A batch may be repeated if all of it may, and if no operation undoes what another one did: where
/// each is about a timer of its own.
fn safety_of(operations: &[v1::Operation]) -> Safety {
    let mut ids = std::collections::HashSet::new();
    let is_repeatable = operations.iter().all(|operation| match &operation.operation {
        Some(Kind::Schedule(schedule)) => ids.insert(schedule.id()),
        Some(Kind::Cancel(cancel)) => ids.insert(cancel.id.as_str()),
        _ => false,
    });
    if is_repeatable { Safety::Repeatable } else { Safety::Once }
}
