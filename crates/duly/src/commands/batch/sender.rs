//! Carries out steps: sends their lines, and sends those again that a limit of the server refused.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use duly_api::{Problem, batch::LastLine};
use duly_core::NamespaceName;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;

use super::input::{InputLine, LINES_MAX};
use crate::{
    failure::Failure,
    http::{self, Patience, passing},
    session::Session,
};

/// Longest wait for more than one line when the server asks for less: a full call follows it even at a high rate.
const GATHER_MAX: Duration = Duration::from_millis(200);

/// The result of a line.
pub(super) struct LineResult {
    /// The line of the response; none for an accepted line if only refused ones are returned.
    pub(super) text: Option<String>,
    /// The reason for which the line was refused, if it was.
    pub(super) error: Option<Box<Problem>>,
    /// `true`: the line was accepted and changed nothing.
    pub(super) is_unchanged: bool,
}

/// The results of a step by the number of the line.
pub(super) type StepResults = BTreeMap<u64, LineResult>;

/// The part of a step that was carried out before the end of a batch, and the reason of the end.
pub(super) type Stopped = (StepResults, Failure);

/// Sends the lines of a batch.
pub(super) struct Sender<'a> {
    session: &'a Session,
    namespace: &'a NamespaceName,
    /// `true`: only refused lines are returned.
    errors_only: bool,
    /// Most lines of the next call: a limit lowers it to the number that it let through.
    width: usize,
    patience: Patience,
}

/// A line of the response: the result of a line, or the last line.
#[derive(Deserialize)]
struct ResponseLine {
    line: Option<u64>,
    error: Option<Box<Problem>>,
    timer: Option<CalledTimer>,
    /// Of a cancel.
    #[serde(default)]
    already: bool,
    #[serde(flatten)]
    last: Option<LastLine>,
}

/// The part of a timer that says whether its line changed something.
#[derive(Deserialize)]
struct CalledTimer {
    unchanged: Option<IgnoredAny>,
}

/// The results of a call: of a prefix of its lines, and the reason for which the others were not carried out.
#[derive(Default)]
struct Called {
    results: Vec<LineResult>,
    rest: Option<Box<Problem>>,
    /// `true`: the call itself was refused, so a limit of calls has to pass, not one of lines.
    is_refused: bool,
}

impl<'a> Sender<'a> {
    /// Returns a sender of lines for a namespace.
    pub(super) fn new(
        session: &'a Session,
        namespace: &'a NamespaceName,
        errors_only: bool,
    ) -> Self {
        let patience = Patience::default();
        Self { session, namespace, errors_only, width: LINES_MAX, patience }
    }

    /// Carries out a step, and waits for limits that pass. Returns the result of each line.
    pub(super) async fn carry_out(&mut self, step: Vec<InputLine>) -> Result<StepResults, Stopped> {
        let mut results = StepResults::new();
        let mut pending = VecDeque::from(step);
        while let Some(first) = pending.front().map(|line| line.number) {
            let count = self.width.clamp(1, pending.len());
            let part: Vec<_> = pending.drain(..count).collect();
            let Called { results: called, rest, is_refused } = match self.call(&part).await {
                Ok(called) => called,
                Err(failure) => return Err((results, doubtful(failure, first))),
            };
            let (mut again, mut limit, mut done) = (Vec::new(), None, 0);
            let mut called = called.into_iter();
            for line in part {
                let result = called.next();
                let problem = match &result {
                    Some(result) => result.error.as_deref(),
                    None => rest.as_deref(),
                };
                let waits = problem.and_then(|it| Some((it.clone(), Patience::wait_of(it)?)));
                match result.filter(|_| waits.is_none()) {
                    Some(result) => {
                        done += 1;
                        results.insert(line.number, result);
                    }
                    None => again.push(line),
                }
                limit = limit.into_iter().chain(waits).max_by_key(|(_, wait)| *wait);
            }
            for line in again.into_iter().rev() {
                pending.push_front(line);
            }
            if done > 0 {
                self.patience.progress();
            }
            let is_quiet = self.session.printer.is_quiet;
            match (limit, rest) {
                (Some((problem, wait)), _) => {
                    let wait = if is_refused {
                        wait
                    } else {
                        self.width = done.max(1);
                        gathering(wait, pending.len())
                    };
                    if !self.patience.wait(&problem, wait, is_quiet).await {
                        return Err(stopped(results, pending, &problem));
                    }
                }
                (None, Some(problem)) => return Err(stopped(results, pending, &problem)),
                (None, None) => self.width = (2 * self.width).min(LINES_MAX),
            }
        }
        Ok(results)
    }

    /// Sends lines once.
    async fn call(&self, part: &[InputLine]) -> Result<Called, Failure> {
        let mut body = Vec::with_capacity(part.iter().map(|line| line.text.len() + 1).sum());
        for line in part {
            body.extend_from_slice(&line.text);
            body.push(b'\n');
        }
        // All results: those of accepted lines say whether they changed something.
        let call = self.session.http.post(self.namespace, &["batch"]);
        let call = call.query(&[("results", "all".to_owned())]);
        let mut response = match call.lines(body).await {
            Ok(response) => response,
            Err(failure) => {
                // The whole call was refused: none of its lines was carried out.
                let (problem, _) = passing(&failure).ok_or(failure)?;
                let rest = Some(Box::new(problem));
                return Ok(Called { rest, is_refused: true, ..Called::default() });
            }
        };
        let accepted = || LineResult { text: None, error: None, is_unchanged: false };
        let mut called = Called::default();
        while let Some(text) = response.next().await? {
            let ResponseLine { line, error, timer, already, last } = response.parse(&text)?;
            if let Some(line) = line {
                let place = usize::try_from(line).unwrap_or(usize::MAX);
                let number = part.get(place.wrapping_sub(1)).map(|line| line.number);
                let is_next = place > called.results.len();
                let number = number.filter(|_| is_next).ok_or_else(unlike_a_batch)?;
                let rest = text.strip_prefix(&format!("{{\"line\":{line}"));
                let text = rest.ok_or_else(unlike_a_batch)?;
                called.results.resize_with(place - 1, accepted);
                let is_shown = error.is_some() || !self.errors_only;
                let text = is_shown.then(|| format!("{{\"line\":{number}{text}"));
                let is_unchanged = already || timer.is_some_and(|it| it.unchanged.is_some());
                called.results.push(LineResult { text, error, is_unchanged });
            }
            match last {
                None | Some(LastLine::Summary { .. }) => {}
                Some(LastLine::Stopped { after_line, error }) => {
                    let done = usize::try_from(after_line).unwrap_or(usize::MAX).min(part.len());
                    called.results.resize_with(done, accepted);
                    return Ok(Called { rest: Some(error), ..called });
                }
            }
        }
        if called.results.len() == part.len() {
            return Ok(called);
        }
        Err(Failure::coded("outcome_unknown", "the response ended before its last line"))
    }
}

/// Returns the wait after which a rate lets these lines through together: it asks for the wait of one. So a limit of
/// calls is not used up by a call for each line.
fn gathering(wait: Duration, lines: usize) -> Duration {
    let all = wait.saturating_mul(u32::try_from(lines).unwrap_or(u32::MAX));
    all.min(GATHER_MAX).max(wait)
}

/// Returns the failure for a response that is not one of a batch.
fn unlike_a_batch() -> Failure {
    Failure::coded(
        "not_duly",
        "the response is not that of a batch: check that the server has the same version as this command",
    )
}

/// Returns the failure for lines whose outcome is not known.
fn doubtful(failure: Failure, first: u64) -> Failure {
    failure.with_note(&format!(
        "the outcome of the lines from {first} on is unknown. Lines with an id can be sent again: accepted ones are \
         returned as existing"
    ))
}

/// Returns the end of a batch before these lines, which were not carried out for this reason.
fn stopped(mut results: StepResults, pending: VecDeque<InputLine>, problem: &Problem) -> Stopped {
    let last = pending.back().map_or(0, |line| line.number);
    for InputLine { number, .. } in pending {
        let text = json!({ "line": number, "error": problem }).to_string();
        let error = Some(Box::new(problem.clone()));
        results.insert(number, LineResult { text: Some(text), error, is_unchanged: false });
    }
    let why = http::sentence(problem, &[]);
    let failure = Failure::coded(
        "stopped",
        format_args!(
            "the server carries out no more lines: {why}. Send the refused lines again, and those after line {last}, \
             which were not sent"
        ),
    );
    (results, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_are_left_are_waited_for_together() {
        let ms = Duration::from_millis;
        for (wait, lines, expected) in
            [(20, 1, 20), (20, 5, 100), (20, 1_000, 200), (1_500, 9, 1_500), (0, 9, 0)]
        {
            assert_eq!(gathering(ms(wait), lines), ms(expected), "{wait} {lines}");
        }
    }
}
