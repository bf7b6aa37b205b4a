//! Calls of the recording client over gRPC.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Result, ensure};
use duly_api::{IfExists, Operation, Reschedule, v1};
use duly_checker::history::{Action, Answer, Due};
use futures::future::{BoxFuture, FutureExt as _};

use super::{
    super::recording::{Ask, Last, RecordingTransport, Taken, marked},
    Grpc, said, schedule,
};

impl Grpc {
    fn asked(&self, Ask { number, action, replaces }: &Ask) -> Result<Operation> {
        let payload = |mark| marked(mark, &self.payload);
        Ok(match *action {
            Action::Schedule { mark, due: Due::At(due_ms) } => {
                let if_exists = if *replaces { IfExists::Replace } else { IfExists::Fail };
                schedule(*number, due_ms, if_exists, payload(mark)).into()
            }
            Action::Reschedule { mark, due } => {
                let mut change = match due {
                    Some(Due::At(due_ms)) => {
                        Reschedule::at(UNIX_EPOCH + Duration::from_millis(due_ms))
                    }
                    _ => Reschedule::default(),
                };
                if let Some(mark) = mark {
                    change = change.with_text(payload(mark));
                }
                Operation::reschedule(number.to_string(), change)
            }
            Action::Cancel => Operation::cancel(number.to_string()),
            Action::Schedule { .. } | Action::Fire | Action::Redrive => {
                anyhow::bail!("{} is not asked for in a batch here", action.name())
            }
        })
    }
}

impl RecordingTransport for Grpc {
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
            Ok(asks.iter().zip(results).map(|(ask, result)| ask.answer(result)).collect())
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
            firings.into_iter().map(|firing| Taken::new(firing, &self.payload)).collect()
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
            match self.timers(line).get(request).await {
                Ok(timer) => Last::new(timer.get_ref(), &self.payload),
                Err(status) if status.code() == tonic::Code::NotFound => Ok(Last::NOT_FOUND),
                Err(status) => Err(said(status)),
            }
        }
        .boxed()
    }
}
