//! `duly.v1.Timers`: every call on timers.
//!
//! The stream that leases firings is in [`super::consume`].

use std::future::ready;

use duly_api::{
    MessageFormat, Time, View, Words as _,
    lease::LeaseCall,
    timer::CallEffect,
    v1::{self, timers_server::Timers},
};
use duly_core::{Invalid, NamespaceName, TimerId};
use duly_store::{Outcome, query::ListState};
use prost::Message;
use tonic::Request;

use super::{
    GrpcResult, Problem,
    consume::{ConsumeResponses, Consumers},
    outbound::{change_response, change_response_within, page, read_response_within, with_guards},
    read_in, required,
};
use crate::{
    memory::budget::Reservation,
    messages,
    problem::refusal_texts::SentOperation,
    service::{
        Admitted,
        blocking::run_blocking,
        items::{Items, OPERATION_BYTES},
        lists::{ListCall, ListFields},
        pull::{Claims, SETTLEMENT_BYTES, settle_result},
        reading::ReadResult,
    },
};

/// The service.
#[derive(Debug, Default)]
pub(super) struct TimersService {
    consumers: Consumers,
}

impl TimersService {
    /// Carries out a single operation.
    async fn apply_single(
        &self,
        admitted: &Admitted,
        namespace: NamespaceName,
        operation: v1::Operation,
    ) -> Result<(SentOperation, Outcome, Reservation), Problem> {
        let mut reservation = admitted.budget().reserve(operation.encoded_len())?;
        let (command, sent) =
            admitted.check_message(&namespace, operation, MessageFormat::Protobuf)?;
        let outcome = admitted.apply_within(command, &mut reservation).await?;
        Ok((sent, outcome, reservation))
    }

    async fn timer(
        &self,
        admitted: &Admitted,
        namespace: NamespaceName,
        operation: v1::Operation,
    ) -> GrpcResult<v1::Timer> {
        let (sent, outcome, reservation) =
            self.apply_single(admitted, namespace, operation).await?;
        let path = sent.kind.name();
        let (view, effect) = messages::view(sent, &outcome, path)?;
        admitted.note_unchanged(effect, view);
        let timer = messages::shown(admitted.caller(), view, effect);
        Ok(change_response_within(reservation, timer).await)
    }
}

/// Returns the fields of a list.
fn fields(request: &v1::ListRequest) -> ListFields<'_> {
    let time =
        |field: &str, time: &Option<Time>| time.as_ref().map(|time| time.check(field)).transpose();
    let state = v1::State::known("state", request.state)
        .map(|state| state.and_then(v1::State::to_core))
        .map(|state| state.map_or(ListState::Pending, ListState::Only));
    let view = View::known("view", request.view);
    ListFields {
        state,
        due_from: time("due_from", &request.due_from),
        due_to: time("due_to", &request.due_to),
        id_prefix: request.id_prefix.as_deref(),
        tag: request.tag.as_deref(),
        limit: Ok(request.limit),
        view: view.map(|view| view.filter(|view| *view != View::Unspecified)),
        cursor: request.cursor.as_deref(),
    }
}

/// Returns the checked lease of a settle call, which must name no namespace: it is that of the
/// settlements.
fn within_settle(lease: v1::LeaseRequest) -> Result<LeaseCall, Invalid> {
    if !lease.namespace.is_empty() {
        let allowed = "left out: the firings are of the namespace of the settlements";
        return Err(Invalid::new("namespace", lease.namespace, allowed));
    }
    lease.check()
}

#[tonic::async_trait]
impl Timers for TimersService {
    async fn schedule(&self, request: Request<v1::ScheduleRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let operation = required("schedule", request.schedule)?.into();
        self.timer(&admitted, namespace, operation).await
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let id = TimerId::new(&request.id).map_err(Problem::from)?;
        let ReadResult { value, mut reservation, rest } =
            admitted.read_timer(namespace, id).await?;
        reservation.join(rest);
        Ok(read_response_within(
            reservation,
            messages::shown(admitted.caller(), &value, CallEffect::Plain),
        )?)
    }

    async fn reschedule(&self, request: Request<v1::RescheduleRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let reschedule = Some(Box::new(required("reschedule", request.reschedule)?));
        let operation = v1::Operation { reschedule, ..v1::Operation::default() };
        self.timer(&admitted, namespace, operation).await
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> GrpcResult<v1::CancelResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let operation = required("cancel", request.cancel)?.into();
        let (sent, outcome, reservation) =
            self.apply_single(&admitted, namespace, operation).await?;
        let cancelled = messages::cancelled(&outcome, sent.kind.name())?;
        admitted.note_cancel(&cancelled);
        Ok(change_response_within(reservation, cancelled).await)
    }

    async fn fire(&self, request: Request<v1::FireRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let fire = Some(required("fire", request.fire)?);
        let operation = v1::Operation { fire, ..v1::Operation::default() };
        self.timer(&admitted, namespace, operation).await
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> GrpcResult<v1::ListResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let ListCall { request, filter, view } = admitted.list_call(namespace, fields(&request))?;
        let is_searched = request.is_searched();
        let read = admitted.read_partial_page(request).await?;
        let bytes = read.reservation.bytes();
        Ok(run_blocking(bytes, move || page(read, filter, is_searched, view)).await?)
    }

    async fn batch(&self, request: Request<v1::BatchRequest>) -> GrpcResult<v1::BatchResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let count = request.operations.len();
        let (call, reservation) =
            admitted.begin_items(Items::Operations, count, request.encoded_len())?;
        let (reader, within) = (admitted.clone(), namespace.clone());
        let sorted = run_blocking(count * OPERATION_BYTES, move || {
            let read = request.operations.into_iter().enumerate().map(|(i, operation)| {
                reader
                    .check_message(&within, operation, MessageFormat::Protobuf)
                    .map_err(|invalid| invalid.within(&format!("operations[{i}]")).into())
            });
            Ok(call.sort(read))
        })
        .await?;
        let applied = admitted.apply_items(&namespace, sorted).await.unless_failed()?;
        let reader = admitted.clone();
        let response = run_blocking(count * OPERATION_BYTES, move || {
            let outcomes = applied.outcomes().enumerate();
            let results = outcomes
                .map(|(i, item)| messages::result(reader.caller(), item, |kind| kind.path_at(i)));
            Ok(v1::BatchResponse { results: results.collect() })
        })
        .await?;
        let response = change_response(&admitted, response).await;
        // Until here the reservation stood for the bytes that are now counted exactly.
        drop(reservation);
        Ok(response)
    }

    async fn lease(&self, request: Request<v1::LeaseRequest>) -> GrpcResult<v1::LeaseResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let call = request.check().map_err(Problem::from)?;
        let claims = Claims::take(&admitted, namespace, call).await?;
        let message = claims.shown();
        // If this is refused, the claims are released and do not count as attempts.
        let reservation = claims.memory.for_response(&admitted.budget(), message.encoded_len())?;
        Ok(with_guards(message, reservation, Some(claims.leased)))
    }

    async fn settle(&self, request: Request<v1::SettleRequest>) -> GrpcResult<v1::SettleResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let count = request.settlements.len();
        let (call, reservation) = admitted.begin_settle(&namespace, count)?;
        let lease = request.lease.map(|it| within_settle(it).map_err(|it| it.within("lease")));
        let lease = lease.transpose().map_err(Problem::from)?;
        let checked = run_blocking(count * SETTLEMENT_BYTES, move || {
            Ok(call.check(request.settlements.into_iter().map(Ok)))
        });
        let settled = admitted.settle_many(checked.await?).await?;
        let results = settled.into_iter().map(settle_result).collect();
        let mut message = v1::SettleResponse { results, leased: None };
        if let Some(call) = lease {
            let respond = |claims: Claims| {
                message.leased = Some(claims.shown());
                let bytes = message.encoded_len();
                let reserved = claims.memory.for_response(&admitted.budget(), bytes);
                ready(reserved.map(|reservation| (reservation, claims.leased)))
            };
            let leased = Claims::take_after_settlements(&admitted, namespace, call, respond).await;
            if let Some((reservation, leased)) = leased {
                return Ok(with_guards(message, reservation, Some(leased)));
            }
            message.leased = Some(v1::LeaseResponse::default());
        }
        let response = change_response(&admitted, message).await;
        drop(reservation);
        Ok(response)
    }

    type ConsumeStream = ConsumeResponses;

    async fn consume(
        &self,
        request: Request<tonic::Streaming<v1::ConsumeRequest>>,
    ) -> GrpcResult<ConsumeResponses> {
        Ok(self.consumers.begin(request)?)
    }

    async fn cancel_many(
        &self,
        request: Request<v1::CancelManyRequest>,
    ) -> GrpcResult<v1::CancelManyResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let call = request.check().map_err(Problem::from)?;
        Ok(change_response(&admitted, admitted.cancel_many(namespace, call).await?).await)
    }

    async fn redrive(
        &self,
        request: Request<v1::RedriveRequest>,
    ) -> GrpcResult<v1::RedriveResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let (selection, spacing) = request.check().map_err(Problem::from)?;
        let redriven = admitted.redrive(namespace, selection, spacing).await?;
        Ok(change_response(&admitted, redriven).await)
    }

    async fn purge(&self, request: Request<v1::PurgeRequest>) -> GrpcResult<v1::PurgeResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let selection = request.check().map_err(Problem::from)?;
        Ok(change_response(&admitted, admitted.purge(namespace, selection).await?).await)
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> GrpcResult<v1::ForgetResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let id = TimerId::new(&request.id).map_err(Problem::from)?;
        Ok(change_response(&admitted, admitted.forget(namespace, id).await?).await)
    }

    async fn dead_letter_overdue(
        &self,
        request: Request<v1::DeadLetterOverdueRequest>,
    ) -> GrpcResult<v1::DeadLetterOverdueResponse> {
        let (admitted, namespace, request) = read_in(request, |it| &it.namespace)?;
        let dead_lettered = admitted.dead_letter_overdue(namespace, request).await?;
        Ok(change_response(&admitted, dead_lettered).await)
    }
}

#[cfg(test)]
mod tests;
