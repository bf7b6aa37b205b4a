//! The judge's calls over gRPC.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use duly_checker::history::{Action, Answer, Due, EndState};
use duly_proto::v1::{self, operation, operation_result::Result as Of, reschedule};
use futures::future::{BoxFuture, FutureExt as _};

use super::{
    super::witness::{Ask, Last, Taken, Witness, is_in_doubt, mark_of, marked},
    Grpc, said, timestamp, unix_ms,
};

impl Grpc {
    fn asked(&self, Ask { number, action, replaces }: &Ask) -> Result<v1::Operation> {
        let payload = |mark| marked(mark, &self.payload);
        let operation = match *action {
            Action::Schedule { mark, due: Due::At(due_ms) } => {
                let replace = v1::IfExists::Replace;
                let if_exists = if *replaces { replace } else { v1::IfExists::Fail };
                let schedule = self.schedule_with(*number, due_ms, if_exists, payload(mark));
                operation::Operation::Schedule(schedule)
            }
            Action::Reschedule { mark, due } => {
                let when = match due {
                    Some(Due::At(due_ms)) => Some(reschedule::When::DueAt(timestamp(due_ms))),
                    _ => None,
                };
                operation::Operation::Reschedule(v1::Reschedule {
                    id: number.to_string(),
                    when,
                    payload: mark.map(|mark| payload(mark).into()),
                    payload_form: v1::PayloadForm::Text.into(),
                    ..v1::Reschedule::default()
                })
            }
            Action::Cancel => operation::Operation::Cancel(v1::Cancel {
                id: number.to_string(),
                if_revision: None,
            }),
            Action::Schedule { .. } | Action::Fire | Action::Redrive => {
                anyhow::bail!("{} is not asked for in a batch here", action.name())
            }
        };
        Ok(v1::Operation { operation: Some(operation) })
    }
}

impl Witness for Grpc {
    fn ask<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        asks: &'a [Ask],
    ) -> BoxFuture<'a, Result<Vec<Answer>>> {
        async move {
            let operations = asks.iter().map(|ask| self.asked(ask)).collect::<Result<_>>()?;
            let request = v1::BatchRequest { namespace: namespace.to_owned(), operations };
            let response = self.timers(line).batch(request).await.map_err(said)?;
            let results = response.into_inner().results;
            ensure!(
                results.len() == asks.len(),
                "{} operations came to {} results",
                asks.len(),
                results.len()
            );
            Ok(results.into_iter().map(answer).collect())
        }
        .boxed()
    }

    fn take<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Taken>>> {
        async move {
            let wait = Duration::from_millis(wait_ms.into());
            let firings = self.leased(line, namespace, max, wait).await?;
            firings.into_iter().map(|firing| taken(firing, &self.payload)).collect()
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Last>> {
        async move {
            let request = v1::GetRequest { namespace: namespace.to_owned(), id: id.to_owned() };
            let timer = match self.timers(line).get(request).await {
                Ok(timer) => timer.into_inner(),
                Err(status) if status.code() == tonic::Code::NotFound => {
                    return Ok(Last { state: EndState::NotFound, due_ms: None, mark: None });
                }
                Err(status) => return Err(said(status)),
            };
            let state = state(timer.state()).context("the server answered a state that is none")?;
            let payload = timer.payload.as_deref();
            let mark = payload.and_then(|payload| mark_of(payload, &self.payload));
            Ok(Last { state, due_ms: timer.due_at.and_then(unix_ms), mark })
        }
        .boxed()
    }
}

fn answer(result: v1::OperationResult) -> Answer {
    let due = |timer: Option<v1::Timer>| timer?.due_at.and_then(unix_ms);
    match result.result {
        Some(Of::Error(problem)) if is_in_doubt(&problem.code) => Answer::InDoubt,
        Some(Of::Error(_)) => Answer::Refused,
        Some(Of::Cancelled(v1::CancelResponse { attempts, maybe_delivered, .. })) => {
            Answer::Cancelled { attempts, maybe_delivered }
        }
        Some(Of::Timer(timer)) => {
            due(Some(timer)).map_or(Answer::InDoubt, |due_ms| Answer::Changed { due_ms })
        }
        Some(Of::Scheduled(made)) => {
            let outcome = made.outcome();
            match (outcome, due(made.timer)) {
                (v1::ScheduleOutcome::Existing, _) => Answer::Unchanged,
                (v1::ScheduleOutcome::Replaced, Some(due_ms)) => Answer::Replaced { due_ms },
                (v1::ScheduleOutcome::Created, Some(due_ms)) => Answer::Created { due_ms },
                _ => Answer::InDoubt,
            }
        }
        None => Answer::InDoubt,
    }
}

fn taken(firing: v1::Firing, filler: &str) -> Result<Taken> {
    let time = |time: Option<prost_types::Timestamp>| {
        time.and_then(unix_ms).context("the server answered a firing without its times")
    };
    Ok(Taken {
        due_ms: time(firing.due_at)?,
        leased_until_ms: time(firing.leased_until)?,
        mark: firing.payload.as_deref().and_then(|payload| mark_of(payload, filler)),
        id: firing.id,
        token: firing.token,
        delivery_id: firing.delivery_id,
        occurrence: firing.occurrence,
        attempt: firing.attempt,
    })
}

fn state(state: v1::State) -> Option<EndState> {
    Some(match state {
        v1::State::Unspecified => return None,
        v1::State::Scheduled => EndState::Scheduled,
        v1::State::Due => EndState::Due,
        v1::State::InFlight => EndState::InFlight,
        v1::State::Retrying => EndState::Retrying,
        v1::State::Finished => EndState::Finished,
        v1::State::Dead => EndState::Dead,
        v1::State::Cancelled => EndState::Cancelled,
    })
}
