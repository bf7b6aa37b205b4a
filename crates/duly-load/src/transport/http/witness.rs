//! The judge's calls over HTTP.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use duly_checker::history::{Action, Answer, Due, EndState};
use futures::future::{BoxFuture, FutureExt as _};
use serde::Deserialize;

use super::{
    super::witness::{Ask, Last, Taken, Witness, is_in_doubt, mark_of, marked},
    Http, Problem, path, read,
};
use crate::wire::time_ms;

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

impl Witness for Http {
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
            let results = read::<Asked<'_>>(&response)?.results;
            ensure!(
                results.len() == asks.len(),
                "{} operations came to {} results",
                asks.len(),
                results.len()
            );
            Ok(asks.iter().zip(results).map(|(ask, item)| item.answer(&ask.action)).collect())
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
            let firings = read::<Lease<'_>>(&response)?.firings;
            firings.into_iter().map(|firing| firing.taken(&self.payload)).collect()
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
                return Ok(Last { state: EndState::NotFound, due_ms: None, mark: None });
            }
            ensure!(response.is_success(), "GET {path} was answered {}", response.status);
            let timer: Timer<'_> = read(&response)?;
            let state = EndState::parse(timer.state)
                .with_context(|| format!("the server answered a state {}", timer.state))?;
            let mark = timer.payload_text.and_then(|text| mark_of(text.as_bytes(), &self.payload));
            Ok(Last { state, due_ms: timer.due_at.and_then(time_ms), mark })
        }
        .boxed()
    }
}

#[derive(Deserialize)]
struct Asked<'a> {
    #[serde(borrow)]
    results: Vec<Item<'a>>,
}

#[derive(Deserialize)]
struct Item<'a> {
    #[serde(borrow)]
    timer: Option<Made<'a>>,
    outcome: Option<&'a str>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    maybe_delivered: bool,
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Made<'a> {
    due_at: Option<&'a str>,
    existing: Option<bool>,
    replaced: Option<bool>,
}

impl Item<'_> {
    fn answer(&self, action: &Action) -> Answer {
        if let Some(problem) = &self.error {
            return if is_in_doubt(&problem.code) { Answer::InDoubt } else { Answer::Refused };
        }
        if self.outcome == Some("cancelled") {
            let Self { attempts, maybe_delivered, .. } = *self;
            return Answer::Cancelled { attempts, maybe_delivered };
        }
        let Some(timer) = &self.timer else { return Answer::InDoubt };
        let Some(due_ms) = timer.due_at.and_then(time_ms) else { return Answer::InDoubt };
        match timer {
            Made { existing: Some(true), .. } => Answer::Unchanged,
            Made { replaced: Some(true), .. } => Answer::Replaced { due_ms },
            Made { .. } if matches!(action, Action::Schedule { .. }) => Answer::Created { due_ms },
            Made { .. } => Answer::Changed { due_ms },
        }
    }
}

#[derive(Deserialize)]
struct Lease<'a> {
    #[serde(borrow)]
    firings: Vec<Leased<'a>>,
}

#[derive(Deserialize)]
struct Leased<'a> {
    id: String,
    token: String,
    delivery_id: String,
    occurrence: u32,
    attempt: u32,
    due_at: &'a str,
    leased_until: &'a str,
    payload_text: Option<&'a str>,
}

impl Leased<'_> {
    fn taken(self, filler: &str) -> Result<Taken> {
        let time = |text| time_ms(text).with_context(|| format!("the server answered {text:?}"));
        Ok(Taken {
            due_ms: time(self.due_at)?,
            leased_until_ms: time(self.leased_until)?,
            mark: self.payload_text.and_then(|text| mark_of(text.as_bytes(), filler)),
            id: self.id,
            token: self.token,
            delivery_id: self.delivery_id,
            occurrence: self.occurrence,
            attempt: self.attempt,
        })
    }
}

#[derive(Deserialize)]
struct Timer<'a> {
    state: &'a str,
    due_at: Option<&'a str>,
    payload_text: Option<&'a str>,
}
