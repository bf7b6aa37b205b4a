//! Calls on many timers at once. Each repeats its request, page after page, until nothing is left to do.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use duly_api::{
    CancelManyRequest, CancelManyResponse, DeadLetterOverdueRequest, DeadLetterOverdueResponse,
    ForgetResponse, Operation, OperationResult, PurgeRequest, PurgeResponse, RedriveRequest,
    RedriveResponse, Time, filter::CANCELS_MAX, v1,
};

use super::{Client, namespace_of, writing::set_id};
use crate::{
    batch::of_item,
    error::{Result, check_count},
    retry::Safety,
};

impl Client {
    /// Carries out up to 10,000 operations in one message. Returns one result for each, in order.
    /// Operations on one id run in order, and a refused operation refuses only itself. Timers in the
    /// results have no payload and no headers.
    ///
    /// Single calls are batched too ([`Batching`](crate::Batching)), and each of them is repeated or not
    /// by its own rules. Use this method for operations that you already have together.
    pub async fn batch(
        &self,
        namespace: &str,
        mut operations: Vec<Operation>,
    ) -> Result<Vec<Result<OperationResult>>> {
        let namespace = namespace_of(namespace, "")?;
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        operations.iter_mut().filter_map(|it| it.schedule.as_deref_mut()).for_each(set_id);
        let safety = safety_of(&operations);
        let request = v1::BatchRequest { namespace, operations: operations.clone() };
        let results = call!(self, timers.batch, request, safety)?.results;
        check_count(results.len(), operations.len(), "operations")?;
        let results = operations.iter().zip(results).enumerate();
        Ok(results.map(|(place, (operation, result))| of_item(operation, place, result)).collect())
    }

    /// Cancels the pending timers that are selected, in as many calls as needed. The `limit` bounds all
    /// calls together, and may be above 10,000. Timers that are being delivered are skipped and counted.
    ///
    /// Returns the last response, with the counts of all calls. After an error, the timers that were
    /// already cancelled stay cancelled; the same call again continues with the rest.
    pub async fn cancel_many(
        &self,
        namespace: &str,
        mut request: CancelManyRequest,
    ) -> Result<CancelManyResponse> {
        request.namespace = namespace_of(namespace, &request.namespace)?;
        let safety = if request.dry_run() { Safety::Reading } else { Safety::Once };
        let mut left = request.limit;
        let mut total = CancelManyResponse::default();
        loop {
            // The server refuses a limit of 0.
            request.limit = left.map(|left| left.min(CANCELS_MAX));
            let step = call!(self, timers.cancel_many, request.clone(), safety)?;
            let done = u32::try_from(step.cancelled + step.stopped).unwrap_or(u32::MAX);
            left = left.map(|left| left.saturating_sub(done));
            total = CancelManyResponse {
                cancelled: total.cancelled + step.cancelled,
                maybe_delivered: total.maybe_delivered + step.maybe_delivered,
                skipped: total.skipped + step.skipped,
                stopped: total.stopped + step.stopped,
                examined: step.examined.map(|count| count + total.examined.unwrap_or(0)),
                ..step
            };
            if total.cursor.is_none() || left == Some(0) {
                return Ok(total);
            }
            request.cursor.clone_from(&total.cursor);
        }
    }

    /// Redrives dead letters, in as many calls as needed. Their delivery ids stay. The count of attempts
    /// goes on, with a fresh number of attempts allowed.
    pub async fn redrive(
        &self,
        namespace: &str,
        mut request: RedriveRequest,
    ) -> Result<RedriveResponse> {
        request.namespace = namespace_of(namespace, &request.namespace)?;
        let mut total = RedriveResponse::default();
        loop {
            let step = call!(self, timers.redrive, request.clone(), Safety::Once)?;
            total.redriven += step.redriven;
            total.errors.extend(step.errors);
            if step.cursor.is_none() {
                return Ok(total);
            }
            request.cursor = step.cursor;
        }
    }

    /// Purges dead letters, in as many calls as needed.
    pub async fn purge(&self, namespace: &str, mut request: PurgeRequest) -> Result<PurgeResponse> {
        request.namespace = namespace_of(namespace, &request.namespace)?;
        let mut total = PurgeResponse::default();
        loop {
            let step = call!(self, timers.purge, request.clone(), Safety::Once)?;
            total.purged += step.purged;
            total.errors.extend(step.errors);
            if step.cursor.is_none() {
                return Ok(total);
            }
            request.cursor = step.cursor;
        }
    }

    /// Removes all that is left of an ended timer: its tombstone and its dead letters. A pending timer is
    /// refused. After that a repetition of an earlier request makes a new timer.
    pub async fn forget(&self, namespace: &str, id: &str) -> Result<ForgetResponse> {
        let namespace = namespace_of(namespace, "")?;
        let request = v1::ForgetRequest { namespace, id: id.to_owned() };
        call!(self, timers.forget, request, Safety::Once)
    }

    /// Dead-letters the timers that were due by `due_by` (by now if absent), instead of delivering them
    /// late: for a paused namespace, as after a restore. Timers that are being delivered are skipped.
    pub async fn dead_letter_overdue(
        &self,
        namespace: &str,
        due_by: Option<SystemTime>,
    ) -> Result<DeadLetterOverdueResponse> {
        let namespace = namespace_of(namespace, "")?;
        let due_by = due_by.map(Time::from);
        let mut request = DeadLetterOverdueRequest { namespace, due_by, cursor: None };
        let mut dead_lettered = 0;
        loop {
            let (asked, safety) = (request.clone(), Safety::Once);
            let step = call!(self, timers.dead_letter_overdue, asked, safety)?;
            dead_lettered += step.dead_lettered;
            if step.cursor.is_none() {
                return Ok(DeadLetterOverdueResponse { dead_lettered, ..step });
            }
            (request.due_by, request.cursor) = (step.due_by, step.cursor);
        }
    }
}

/// Returns the safety of a batch. It is repeatable if each operation is, and if each has an id of its
/// own: then no operation undoes the work of another.
fn safety_of(operations: &[Operation]) -> Safety {
    let mut ids = HashSet::new();
    let is_repeatable = operations.iter().all(|operation| {
        matches!(operation.name(), "schedule" | "cancel") && ids.insert(operation.timer_id())
    });
    if is_repeatable { Safety::Repeatable } else { Safety::Once }
}
