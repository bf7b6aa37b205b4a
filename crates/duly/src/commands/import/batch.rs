//! Timers that go to the server together, with the lines that they stand on.

use duly_api::Problem;
use duly_core::NamespaceName;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::counts::{Counts, Fault};
use crate::{cli::Session, failure::Failure, http};

/// Timers of one call.
const TIMERS_MAX: usize = 1_000;
/// Bytes of timers after which a call is made though it could hold more: a server takes what is this
/// large, unless it was set to take very little.
const BYTES_MAX: usize = 1 << 20;

/// Timers of one namespace that were read and not yet sent.
#[derive(Default, Serialize)]
pub(super) struct Batch {
    timers: Vec<Box<RawValue>>,
    #[serde(skip)]
    numbers: Vec<u64>,
    #[serde(skip)]
    bytes: usize,
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Done>,
}

/// What became of one timer.
#[derive(Deserialize)]
struct Done {
    #[serde(default)]
    existing: bool,
    state: Option<String>,
    error: Option<Box<RawValue>>,
}

impl Batch {
    /// Another timer.
    pub(super) fn push(&mut self, number: u64, timer: Box<RawValue>) {
        self.bytes += timer.get().len();
        self.numbers.push(number);
        self.timers.push(timer);
    }

    /// Whether it is time to send them.
    pub(super) fn is_full(&self) -> bool {
        self.timers.len() >= TIMERS_MAX || self.bytes >= BYTES_MAX
    }

    /// The line of its first timer.
    pub(super) fn first(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Sends them; answers what is wrong with which line.
    pub(super) async fn send(
        &mut self,
        namespace: &NamespaceName,
        counts: &mut Counts,
        session: &Session,
    ) -> Result<Vec<Fault>, Failure> {
        if self.timers.is_empty() {
            return Ok(Vec::new());
        }
        let call = session.http.namespace(Method::POST, namespace, &["import"]);
        let answer: Answer = call.body(self).send().await?.parse()?;
        let sent = std::mem::take(self);
        if answer.results.len() != sent.numbers.len() {
            return Err(Failure::coded(
                "not_duly",
                "the server answered another number of timers than were sent: is it of the same \
                 version as this command?",
            ));
        }
        let mut faults = Vec::new();
        for (place, (number, done)) in (0..).zip(sent.numbers.into_iter().zip(answer.results)) {
            match (done.error, done.existing, done.state.as_deref()) {
                (Some(error), ..) => {
                    let problem = serde_json::from_str::<Problem>(error.get());
                    let sentence = problem.map_or_else(
                        |_| error.get().to_owned(),
                        |problem| of_the_line(&http::sentence(&problem, &[]), place),
                    );
                    faults.push(Fault::refused(number, sentence, error));
                }
                (None, true, Some("cancelled")) => counts.cancelled += 1,
                (None, true, _) => counts.existing += 1,
                (None, false, _) => counts.imported += 1,
            }
        }
        Ok(faults)
    }
}

/// What the server says of a place in the call, as of the line that was sent there.
fn of_the_line(sentence: &str, place: u64) -> String {
    let path = format!("timers[{place}]");
    let sentence = sentence.replacen(&format!("{path}."), "", 1);
    sentence.replacen(&path, "the timer", 1)
}
