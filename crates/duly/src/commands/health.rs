//! `duly health`: reports if a server is ready, and the reasons if it is not.

use std::time::{Duration, Instant};

use duly_api::cluster::{Readiness, Recovery};
use duly_core::Millis;
use reqwest::StatusCode;

use crate::{
    Outcome,
    args::values,
    failure::Failure,
    http::HttpResponse,
    output::{Tone, text},
    session::Session,
};

/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(200);
/// Largest response in bytes.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// Check that the server is ready, and show why not; exit code 1 if it is not
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Wait up to this long until the server is ready
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    wait: Option<Millis>,
    /// Check only that the process is alive, like an orchestrator that would restart it
    #[arg(long)]
    alive: bool,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let until = Instant::now() + args.wait.unwrap_or_default().to_std();
    let checked = loop {
        let checked =
            request_readiness(session, if args.alive { "healthz" } else { "readyz" }).await;
        let is_ready = checked.as_ref().is_ok_and(|(_, readiness)| is_ready(readiness));
        if is_ready || Instant::now() >= until {
            break checked;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let (response, readiness) = checked?;
    let printer = session.printer;
    printer.document(&response.text, || {
        let tone = if is_ready(&readiness) { Tone::Good } else { Tone::Bad };
        let status = text::line(&readiness.status.replace('_', " "));
        let warnings = readiness.warnings.iter().map(|warning| format!("\nwarning: {warning}"));
        Ok(printer.screen.paint(tone, &status) + &warnings.collect::<String>())
    })?;
    if is_ready(&readiness) { Ok(()) } else { Err(failure(readiness)) }
}

/// Requests one of the two paths.
pub(super) async fn request_readiness(
    session: &Session,
    path: &str,
) -> Result<(HttpResponse, Readiness), Failure> {
    let call = session.http.root(&[path]).at_most(RESPONSE_BYTES_MAX);
    let response = call.accepting(StatusCode::SERVICE_UNAVAILABLE).send().await?;
    let readiness = response.parse()?;
    Ok((response, readiness))
}

/// Returns `true` if the server is ready, or alive.
pub(super) fn is_ready(readiness: &Readiness) -> bool {
    matches!(readiness.status.as_str(), "ready" | "alive")
}

/// Returns the reasons why the server is not ready, as sentences.
pub(super) fn reasons_in_words(readiness: &Readiness) -> Vec<String> {
    let progress = readiness.progress.as_ref().map(|progress| {
        let Recovery { what, bytes_done, bytes_total } = progress;
        format!("{what}: {bytes_done} of {bytes_total} bytes")
    });
    readiness.reasons.iter().cloned().chain(progress).collect()
}

fn failure(readiness: Readiness) -> Failure {
    let reasons = reasons_in_words(&readiness);
    let reasons = if reasons.is_empty() { readiness.status } else { reasons.join("; ") };
    Failure::coded("not_ready", format_args!("the server is not ready: {reasons}"))
}
