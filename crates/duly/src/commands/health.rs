//! `duly health`: whether a server can work, and why not.

use std::time::{Duration, Instant};

use duly_core::Millis;
use reqwest::{Method, StatusCode};
use serde::Deserialize;

use crate::{
    Outcome,
    args::values,
    cli::Session,
    failure::Failure,
    http::Answer,
    output::{terminal::Tone, text},
};

/// Time between two questions.
const PAUSE: Duration = Duration::from_millis(200);
/// Most bytes of an answer.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Say whether the server can work, and why not; exit code 1 if it cannot
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Wait up to this long until it can
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    wait: Option<Millis>,
    /// Ask only whether the process lives, as an orchestrator does that would restart it
    #[arg(long)]
    alive: bool,
}

/// What a server says of whether it can work.
#[derive(Deserialize)]
pub(super) struct Readiness {
    status: String,
    #[serde(default)]
    reasons: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
    progress: Option<Progress>,
}

#[derive(Deserialize)]
struct Progress {
    what: String,
    bytes_done: u64,
    bytes_total: u64,
}

/// Runs it.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let until = Instant::now() + args.wait.unwrap_or_default().to_std();
    let asked = loop {
        let asked = ask(session, if args.alive { "healthz" } else { "readyz" }).await;
        let is_ready = asked.as_ref().is_ok_and(|(_, readiness)| readiness.is_ready());
        if is_ready || Instant::now() >= until {
            break asked;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let (answer, readiness) = asked?;
    let printer = session.printer;
    printer.document(&answer.text, || {
        let tone = if readiness.is_ready() { Tone::Good } else { Tone::Bad };
        let status = text::preview(&readiness.status.replace('_', " "), usize::MAX);
        let warnings = readiness.warnings.iter().map(|warning| format!("\nwarning: {warning}"));
        Ok(printer.screen().paint(tone, &status) + &warnings.collect::<String>())
    })?;
    if readiness.is_ready() { Ok(()) } else { Err(readiness.failure()) }
}

/// Asks one of the two paths.
pub(super) async fn ask(session: &Session, path: &str) -> Result<(Answer, Readiness), Failure> {
    let call = session.http.root(Method::GET, &[path]).at_most(RESPONSE_BYTES_MAX);
    let answer = call.accepting(StatusCode::SERVICE_UNAVAILABLE).send().await?;
    let readiness = answer.parse()?;
    Ok((answer, readiness))
}

impl Readiness {
    /// Whether the answer is yes.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.status.as_str(), "ready" | "alive")
    }

    /// Why not, in sentences.
    pub(super) fn why(&self) -> Vec<String> {
        let progress = self.progress.as_ref().map(|progress| {
            let Progress { what, bytes_done, bytes_total } = progress;
            format!("{what}: {bytes_done} of {bytes_total} bytes")
        });
        self.reasons.iter().cloned().chain(progress).collect()
    }

    fn failure(self) -> Failure {
        let reasons = self.why();
        let reasons = if reasons.is_empty() { self.status } else { reasons.join("; ") };
        Failure::coded("not_ready", format_args!("the server cannot work now: {reasons}"))
    }
}
