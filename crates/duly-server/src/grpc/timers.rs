//! `duly.v1.Timers`: every call on timers.
//!
//! The calls that lease firings are in [`super::pull`] and [`super::consume`].

use duly_api::{
    MessageFormat, Time, View, Words as _,
    batch::OPERATIONS_MAX,
    timer::ScheduleMark,
    v1::{self, timers_server::Timers},
};
use duly_core::{NamespaceName, TimerId};
use duly_store::{
    Outcome,
    query::{ListRequest, ListState},
};
use prost::Message;
use tonic::Request;

use super::{
    GrpcResult, Problem,
    consume::{ConsumeResponses, Consumers},
    namespace,
    outbound::{change_response, change_response_within, page, read_response_within},
    pull, read, required,
};
use crate::{
    memory::budget::Reservation,
    messages,
    problem::refusal_texts::SentOperation,
    service::{
        Admitted,
        blocking::run_blocking,
        items::{OPERATION_BYTES, command, sort_items, too_many},
        lists::{apply_cursor, list_view, page_limit},
        reading::ReadResult,
    },
};

/// The service.
#[derive(Debug)]
pub(super) struct TimersService {
    consumers: Consumers,
}

impl TimersService {
    /// Creates the service.
    pub(super) fn new() -> Self {
        Self { consumers: Consumers::new() }
    }

    /// Carries out a single operation.
    async fn apply_single(
        &self,
        admitted: &Admitted,
        namespace: NamespaceName,
        operation: v1::Operation,
    ) -> Result<(SentOperation, Outcome, Reservation), Problem> {
        let mut reservation = admitted.budget().reserve(operation.encoded_len())?;
        let (command, sent) = command(admitted, &namespace, operation, MessageFormat::Protobuf)?;
        let outcome = admitted.apply_within(namespace, command.operation, &mut reservation).await?;
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
        let timer = messages::timer(admitted.caller(), sent, &outcome, path)?;
        Ok(change_response_within(reservation, timer).await)
    }
}

/// Returns the list of a request, from its beginning.
fn list(admitted: &Admitted, request: &v1::ListRequest) -> Result<ListRequest, Problem> {
    let time =
        |field: &str, time: &Option<Time>| time.as_ref().map(|time| time.check(field)).transpose();
    let state = v1::State::known("state", request.state)?.and_then(v1::State::to_core);
    let state = state.map_or(ListState::Pending, ListState::Only);
    let list = ListRequest::new(namespace(admitted, &request.namespace)?, state);
    Ok(ListRequest {
        due_from: time("due_from", &request.due_from)?,
        due_to: time("due_to", &request.due_to)?,
        id_prefix: request.id_prefix.clone(),
        tag: request.tag.clone(),
        limit: page_limit(request.limit)?,
        ..list
    })
}

#[tonic::async_trait]
impl Timers for TimersService {
    async fn schedule(&self, request: Request<v1::ScheduleRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let operation = required("schedule", request.schedule)?.into();
        self.timer(&admitted, namespace, operation).await
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let id = TimerId::new(&request.id).map_err(Problem::from)?;
        let ReadResult { value, mut reservation, rest } =
            admitted.read_timer(namespace, id).await?;
        reservation.join(rest);
        Ok(read_response_within(
            reservation,
            messages::shown(admitted.caller(), &value, ScheduleMark::None),
        )?)
    }

    async fn reschedule(&self, request: Request<v1::RescheduleRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let reschedule = Some(Box::new(required("reschedule", request.reschedule)?));
        let operation = v1::Operation { reschedule, ..v1::Operation::default() };
        self.timer(&admitted, namespace, operation).await
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> GrpcResult<v1::CancelResponse> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let operation = required("cancel", request.cancel)?.into();
        let (sent, outcome, reservation) =
            self.apply_single(&admitted, namespace, operation).await?;
        let cancelled = messages::cancelled(&outcome, sent.kind.name())?;
        Ok(change_response_within(reservation, cancelled).await)
    }

    async fn fire(&self, request: Request<v1::FireRequest>) -> GrpcResult<v1::Timer> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let fire = Some(required("fire", request.fire)?);
        let operation = v1::Operation { fire, ..v1::Operation::default() };
        self.timer(&admitted, namespace, operation).await
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> GrpcResult<v1::ListResponse> {
        let (admitted, request) = read(request)?;
        let cursor = request.cursor.clone();
        let view = View::known("view", request.view).map_err(Problem::from)?;
        let view = list_view(&admitted, view.filter(|view| *view != View::Unspecified))?;
        let mut request = list(&admitted, &request)?;
        let filter = apply_cursor(&mut request, cursor.as_deref()).map_err(Problem::from)?;
        let is_searched = request.is_searched();
        let read = admitted.read_partial_page(request).await?;
        let bytes = read.reservation.bytes();
        Ok(run_blocking(bytes, move || page(read, filter, is_searched, view)).await?)
    }

    async fn batch(&self, request: Request<v1::BatchRequest>) -> GrpcResult<v1::BatchResponse> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let count = request.operations.len();
        if count > OPERATIONS_MAX {
            return Err(too_many("operations", count, OPERATIONS_MAX).into());
        }
        let reservation =
            admitted.budget().reserve(count * OPERATION_BYTES + request.encoded_len())?;
        let (reader, within) = (admitted.clone(), namespace.clone());
        let (slots, commands) = run_blocking(count * OPERATION_BYTES, move || {
            let read = request.operations.into_iter().enumerate().map(|(i, operation)| {
                command(&reader, &within, operation, MessageFormat::Protobuf)
                    .map_err(|invalid| invalid.within(&format!("operations[{i}]")).into())
            });
            Ok(sort_items(&reader, read))
        })
        .await?;
        let outcomes = admitted.apply_many(&namespace, commands).await?;
        let reader = admitted.clone();
        let response = run_blocking(count * OPERATION_BYTES, move || {
            let mut outcomes = outcomes.into_iter();
            let results = slots.into_iter().enumerate().map(|(i, slot)| match slot {
                Err(problem) => messages::refusal(problem),
                Ok(sent) => match outcomes.next() {
                    Some(outcome) => {
                        messages::result(reader.caller(), sent, &outcome, |kind| kind.path_at(i))
                    }
                    None => messages::refusal(Problem::fault("an operation has no outcome")),
                },
            });
            Ok(v1::BatchResponse { results: results.collect() })
        })
        .await?;
        let response = change_response(&admitted, response).await;
        // Until here the reservation stood for the bytes that are now counted exactly.
        drop(reservation);
        Ok(response)
    }

    async fn lease(&self, request: Request<v1::LeaseRequest>) -> GrpcResult<v1::LeaseResponse> {
        Ok(pull::lease(request).await?)
    }

    async fn settle(&self, request: Request<v1::SettleRequest>) -> GrpcResult<v1::SettleResponse> {
        Ok(pull::settle(request).await?)
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
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let call = request.check().map_err(Problem::from)?;
        Ok(change_response(&admitted, admitted.cancel_many(namespace, call).await?).await)
    }

    async fn redrive(
        &self,
        request: Request<v1::RedriveRequest>,
    ) -> GrpcResult<v1::RedriveResponse> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let (selection, spacing) = request.check().map_err(Problem::from)?;
        let redriven = admitted.redrive(namespace, selection, spacing).await?;
        Ok(change_response(&admitted, redriven).await)
    }

    async fn purge(&self, request: Request<v1::PurgeRequest>) -> GrpcResult<v1::PurgeResponse> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let selection = request.check().map_err(Problem::from)?;
        Ok(change_response(&admitted, admitted.purge(namespace, selection).await?).await)
    }

    async fn forget(&self, request: Request<v1::ForgetRequest>) -> GrpcResult<v1::ForgetResponse> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let id = TimerId::new(&request.id).map_err(Problem::from)?;
        Ok(change_response(&admitted, admitted.forget(namespace, id).await?).await)
    }

    async fn dead_letter_overdue(
        &self,
        request: Request<v1::DeadLetterOverdueRequest>,
    ) -> GrpcResult<v1::DeadLetterOverdueResponse> {
        let (admitted, request) = read(request)?;
        let namespace = namespace(&admitted, &request.namespace)?;
        let dead_lettered = admitted.dead_letter_overdue(namespace, request).await?;
        Ok(change_response(&admitted, dead_lettered).await)
    }
}
