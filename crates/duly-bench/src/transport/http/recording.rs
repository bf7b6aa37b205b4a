//! Calls of the recording client over HTTP.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use duly_api::{BatchResponse, LeaseResponse, Timer};
use duly_checker::history::{Action, Answer, Due};
use futures::future::{BoxFuture, FutureExt as _};

use super::{
    super::recording::{Ask, Last, RecordingTransport, Taken, marked},
    Http, path, read,
};

impl Http {
    fn asked(&self, asks: &[Ask]) -> Result<String> {
        let mut body = String::with_capacity(32 + asks.len() * (self.payload.len() + 90));
        body.push_str(r#"{"operations":["#);
        for (place, Ask { number, action, replaces }) in asks.iter().enumerate() {
            body.push_str(if place == 0 { "" } else { "," });
            let payload = |mark| marked(mark, &self.payload);
            match *action {
                Action::Schedule { mark, due: Due::At(due_ms) } => {
                    let payload = payload(mark);
                    let if_exists = if *replaces { "replace" } else { "fail" };
                    write!(
                        body,
                        r#"{{"schedule":{{"id":"{number}","due_at":{due_ms},"payload_text":"{payload}","if_exists":"{if_exists}"}}}}"#
                    )?;
                }
                Action::Reschedule { mark, due } => {
                    write!(body, r#"{{"reschedule":{{"id":"{number}""#)?;
                    if let Some(Due::At(due_ms)) = due {
                        write!(body, r#","due_at":{due_ms}"#)?;
                    }
                    if let Some(mark) = mark {
                        write!(body, r#","payload_text":"{}""#, payload(mark))?;
                    }
                    body.push_str("}}");
                }
                Action::Cancel => write!(body, r#"{{"cancel":{{"id":"{number}"}}}}"#)?,
                Action::Schedule { .. } | Action::Fire | Action::Redrive => {
                    anyhow::bail!("{} is not asked for in a batch here", action.name())
                }
            }
        }
        body.push_str("]}");
        Ok(body)
    }
}

impl RecordingTransport for Http {
    fn ask<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        asks: &'a [Ask],
    ) -> BoxFuture<'a, Result<Vec<Answer>>> {
        async move {
            let body = self.asked(asks)?;
            let path = path(namespace, "/batch");
            let response = self.call(self.line(line), "POST", &path, &body).await?;
            let results = read::<BatchResponse>(&response)?.results;
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
            let body = format!(r#"{{"max":{max},"max_bytes":33554432,"wait":"{wait_ms}ms"}}"#);
            let path = path(namespace, "/lease");
            let response = self.call(self.line(line), "POST", &path, &body).await?;
            let firings = read::<LeaseResponse>(&response)?.firings;
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
            let path = path(namespace, &format!("/timers/{id}"));
            let response = self.called(self.line(line), "GET", &path, "").await?;
            if response.status == 404 {
                return Ok(Last::NOT_FOUND);
            }
            ensure!(response.is_success(), "GET {path} was answered {}", response.status);
            Last::new(&read::<Timer>(&response)?, &self.payload)
        }
        .boxed()
    }
}
