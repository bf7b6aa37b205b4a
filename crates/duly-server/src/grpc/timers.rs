//! `duly.v1.Timers`: every call on timers; those that hand firings out are in [`super::pull`] and
//! [`super::consume`], those on many timers in [`super::many`].

use duly_core::TimerId;
use duly_proto::v1::{
    self, operation::Operation, operation_result::Result as Kind, timers_server::Timers,
};
use duly_store::{Answer, Command};
use prost::Message;
use tonic::{Request, Response, Status, metadata::MetadataMap};

use super::{
    consume::{Answers, Consumers},
    many, namespace,
    outbound::{made, made_within, page, read_within},
    pull, required,
};
use crate::{
    http::{
        App, Problem,
        batch::{OPERATION_BYTES, too_many},
        body::aside,
        budget::Share,
        reading::Read,
        refused::Asked,
        timers::list::go_on,
        trace,
    },
    wire::{
        batch::OPERATIONS_MAX,
        proto::{
            list::list_in,
            operation::command,
            result::{answered, path_of, result_out},
            timer::timer_out,
        },
    },
};

/// The service.
#[derive(Debug)]
pub(super) struct Service {
    app: App,
    consumers: Consumers,
}

impl Service {
    /// The service of a server.
    pub(super) fn new(app: App) -> Self {
        Self { consumers: Consumers::new(app.clone()), app }
    }

    /// Carries out a lone operation.
    async fn alone(
        &self,
        name: &str,
        operation: Operation,
        metadata: &MetadataMap,
    ) -> Result<(Kind, Share), Problem> {
        let (app, namespace) = (&self.app, namespace(name)?);
        let bytes = v1::Operation { operation: Some(operation.clone()) }.encoded_len();
        let mut share = app.budget().take(bytes)?;
        let mut command = command(&namespace, Some(operation), Answer::Whole, || app.make_id())?;
        app.check_operation(&command.operation)?;
        trace(&mut command, trace::parent(metadata.as_ref()).as_deref());
        let (asked, path) = (Asked::by(&command.operation), path_of(&command.operation));
        let outcome = app.apply_within(command, &mut share).await?;
        Ok((answered(asked, outcome, path)?, share))
    }

    async fn timer(
        &self,
        name: &str,
        operation: Operation,
        metadata: &MetadataMap,
    ) -> Result<Response<v1::Timer>, Status> {
        match self.alone(name, operation, metadata).await? {
            (Kind::Timer(timer), share) => Ok(made_within(share, timer).await),
            _ => Err(another_kind()),
        }
    }

    async fn run(&self, request: v1::BatchRequest, trace_parent: Option<String>) -> Ran {
        let namespace = namespace(&request.namespace)?;
        let count = request.operations.len();
        if count > OPERATIONS_MAX {
            return Err(too_many("operations", count, OPERATIONS_MAX));
        }
        let share = self.app.budget().take(count * OPERATION_BYTES + request.encoded_len())?;
        let (app, within) = (self.app.clone(), namespace.clone());
        let (places, commands) = aside(count * OPERATION_BYTES, move || {
            Ok(prepare(&app, &within, request.operations, trace_parent.as_deref()))
        })
        .await?;
        let outcomes = if commands.is_empty() {
            Vec::new()
        } else {
            self.app.apply_many(&namespace, commands).await?
        };
        let response = aside(count * OPERATION_BYTES, move || {
            let mut outcomes = outcomes.into_iter();
            let results = places.into_iter().enumerate().map(|(i, place)| {
                let asked = place?;
                let outcome = outcomes.next();
                let outcome =
                    outcome.ok_or_else(|| Problem::fault("an operation has no outcome"))?;
                answered(asked, outcome, &asked.path_at(i))
            });
            Ok(v1::BatchResponse { results: results.map(result_out).collect() })
        })
        .await?;
        let answer = made(&self.app, response).await;
        // Until here it stood for what is counted exactly now.
        drop(share);
        Ok(answer)
    }
}

type Ran = Result<Response<v1::BatchResponse>, Problem>;

/// For each operation what it asks for, or why it is refused; and the commands of the others.
type Prepared = (Vec<Result<Asked, Problem>>, Vec<Command>);

fn prepare(
    app: &App,
    namespace: &duly_core::NamespaceName,
    operations: Vec<v1::Operation>,
    trace_parent: Option<&str>,
) -> Prepared {
    let mut places = Vec::with_capacity(operations.len());
    let mut commands = Vec::with_capacity(operations.len());
    let make_id = || -> TimerId { app.make_id() };
    for (i, operation) in operations.into_iter().enumerate() {
        let command = command(namespace, operation.operation, Answer::Brief, make_id);
        let checked = command.and_then(|command| {
            app.check_operation(&command.operation)?;
            Ok(command)
        });
        match checked {
            Ok(mut command) => {
                trace(&mut command, trace_parent);
                places.push(Ok(Asked::by(&command.operation)));
                commands.push(command);
            }
            Err(invalid) => {
                places.push(Err(invalid.within(&format!("operations[{i}]")).into()));
            }
        }
    }
    (places, commands)
}

/// Has a schedule carry the trace context of its call.
fn trace(command: &mut Command, parent: Option<&str>) {
    if let duly_store::Operation::Schedule { schedule, .. } = &mut command.operation {
        schedule.trace_parent = parent.map(str::to_owned);
    }
}

fn another_kind() -> Status {
    Problem::fault("an outcome of another kind").into()
}

#[tonic::async_trait]
impl Timers for Service {
    async fn schedule(
        &self,
        request: Request<v1::ScheduleRequest>,
    ) -> Result<Response<v1::ScheduleResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let operation = Operation::Schedule(required("schedule", request.schedule)?);
        match self.alone(&request.namespace, operation, &metadata).await? {
            (Kind::Scheduled(scheduled), share) => Ok(made_within(share, scheduled).await),
            _ => Err(another_kind()),
        }
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::Timer>, Status> {
        let request = request.into_inner();
        let id = TimerId::new(&request.id).map_err(Problem::from)?;
        let namespace = namespace(&request.namespace)?;
        let Read { value, mut share, rest } = self.app.read_timer(namespace, id).await?;
        share.join(rest);
        Ok(read_within(share, timer_out(&value))?)
    }

    async fn reschedule(
        &self,
        request: Request<v1::RescheduleRequest>,
    ) -> Result<Response<v1::Timer>, Status> {
        let (metadata, _, request) = request.into_parts();
        let operation = Operation::Reschedule(required("reschedule", request.reschedule)?);
        self.timer(&request.namespace, operation, &metadata).await
    }

    async fn cancel(
        &self,
        request: Request<v1::CancelRequest>,
    ) -> Result<Response<v1::CancelResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let operation = Operation::Cancel(required("cancel", request.cancel)?);
        match self.alone(&request.namespace, operation, &metadata).await? {
            (Kind::Cancelled(cancelled), share) => Ok(made_within(share, cancelled).await),
            _ => Err(another_kind()),
        }
    }

    async fn fire(&self, request: Request<v1::FireRequest>) -> Result<Response<v1::Timer>, Status> {
        let (metadata, _, request) = request.into_parts();
        let operation = Operation::Fire(required("fire", request.fire)?);
        self.timer(&request.namespace, operation, &metadata).await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let request = request.into_inner();
        let (name, cursor) = (namespace(&request.namespace)?, request.cursor.clone());
        let mut request = list_in(name, request).map_err(Problem::from)?;
        let filter = go_on(&mut request, cursor.as_deref()).map_err(Problem::from)?;
        let is_searched = request.is_searched();
        let read = self.app.read_page(request).await?;
        let bytes = read.share.bytes();
        Ok(aside(bytes, move || page(read, filter, is_searched)).await?)
    }

    async fn batch(
        &self,
        request: Request<v1::BatchRequest>,
    ) -> Result<Response<v1::BatchResponse>, Status> {
        let trace_parent = trace::parent(request.metadata().as_ref());
        Ok(self.run(request.into_inner(), trace_parent).await?)
    }

    async fn lease(
        &self,
        request: Request<v1::LeaseRequest>,
    ) -> Result<Response<v1::LeaseResponse>, Status> {
        Ok(pull::lease(&self.app, request.into_inner()).await?)
    }

    async fn settle(
        &self,
        request: Request<v1::SettleRequest>,
    ) -> Result<Response<v1::SettleResponse>, Status> {
        Ok(pull::settle(&self.app, request.into_inner()).await?)
    }

    type ConsumeStream = Answers;

    async fn consume(
        &self,
        request: Request<tonic::Streaming<v1::ConsumeRequest>>,
    ) -> Result<Response<Answers>, Status> {
        Ok(self.consumers.begin(request)?)
    }

    async fn cancel_many(
        &self,
        request: Request<v1::CancelManyRequest>,
    ) -> Result<Response<v1::CancelManyResponse>, Status> {
        Ok(many::cancel(&self.app, request).await?)
    }

    async fn redrive(
        &self,
        request: Request<v1::RedriveRequest>,
    ) -> Result<Response<v1::RedriveResponse>, Status> {
        Ok(many::redrive(&self.app, request.into_inner()).await?)
    }

    async fn purge(
        &self,
        request: Request<v1::PurgeRequest>,
    ) -> Result<Response<v1::PurgeResponse>, Status> {
        Ok(many::purge(&self.app, request.into_inner()).await?)
    }

    async fn dead_letter_overdue(
        &self,
        request: Request<v1::DeadLetterOverdueRequest>,
    ) -> Result<Response<v1::DeadLetterOverdueResponse>, Status> {
        Ok(many::dead_letter_overdue(&self.app, request.into_inner()).await?)
    }
}
