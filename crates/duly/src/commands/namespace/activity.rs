//! `duly namespace pause` and `resume`, at once or at a time.

use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Outcome,
    args::{named::Named, values},
    cli::Session,
    failure::Failure,
    http::Answer,
    output::when,
};

/// Hand out no firing until it is resumed; scheduling and cancelling go on
#[derive(clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    named: Named,
    /// Resume by itself at this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    resume_at: Option<Timestamp>,
}

/// Hand out firings again
///
/// With `--at` it stays paused until then and goes on by itself, also after a restart; another pause
/// forgets the time.
#[derive(clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    named: Named,
    /// Not before this time; one that has passed is now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    at: Option<Timestamp>,
}

/// What a namespace does now.
#[derive(Deserialize)]
struct Now {
    paused: bool,
    resumes_at: Option<String>,
}

/// Pauses, and with a time says when to go on: in this order, since a pause forgets such a time.
pub(super) async fn pause(args: PauseArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if let Some(at) = args.resume_at.filter(|at| *at <= when::now()) {
        return Err(Failure::usage(format_args!(
            "--resume-at {at} has passed: the namespace would resume at once; name a time ahead"
        )));
    }
    let call = session.http.namespace(Method::POST, namespace, &["pause"]);
    let paused = call.send().await?;
    let answer = match args.resume_at {
        Some(at) => resume_at(namespace, at, session).await?,
        None => paused,
    };
    said(namespace, &answer, session)
}

/// Resumes.
pub(super) async fn resume(args: ResumeArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    let answer = match args.at {
        Some(at) => resume_at(namespace, at, session).await?,
        None => session.http.namespace(Method::POST, namespace, &["resume"]).send().await?,
    };
    said(namespace, &answer, session)
}

async fn resume_at(
    namespace: &NamespaceName,
    at: Timestamp,
    session: &Session,
) -> Result<Answer, Failure> {
    let call = session.http.namespace(Method::POST, namespace, &["resume"]);
    call.body(&json!({ "at": at.to_string() })).send().await
}

fn said(namespace: &NamespaceName, answer: &Answer, session: &Session) -> Outcome {
    session.printer.answer(answer, || {
        let now: Now = answer.parse()?;
        Ok(match (now.paused, now.resumes_at) {
            (true, Some(at)) => {
                format!("{namespace}  paused, resumes {}", when::with_distance(&at, when::now()))
            }
            (true, None) => format!("{namespace}  paused"),
            (false, _) => format!("{namespace}  resumed"),
        })
    })
}
