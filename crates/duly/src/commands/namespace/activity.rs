//! `duly namespace pause` and `resume`, at once or at a time.

use duly_api::{Namespace, ResumeRequest, Time};
use duly_core::{NamespaceName, Timestamp};
use reqwest::Method;

use crate::{
    Outcome,
    args::{identity::NamespaceArg, values},
    cli::Session,
    failure::Failure,
    http::HttpResponse,
    output::when,
};

/// Deliver no firing until the namespace is resumed; timers can still be scheduled and cancelled
#[derive(clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Resume by itself at this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    resume_at: Option<Timestamp>,
}

/// Deliver firings again
///
/// With `--at` the namespace stays paused until then and resumes by itself, also after a restart.
/// Another pause removes the time.
#[derive(clap::Args)]
pub(super) struct ResumeArgs {
    #[command(flatten)]
    named: NamespaceArg,
    /// Not before this time; a time in the past means now
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    at: Option<Timestamp>,
}

/// Pauses the namespace, and then sets the time to resume, if there is one. A pause removes such a time,
/// so the order matters.
pub(super) async fn pause(args: PauseArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    if let Some(at) = args.resume_at.filter(|at| *at <= when::now()) {
        return Err(Failure::usage(format_args!(
            "--resume-at {at} has passed: the namespace would resume at once; name a time ahead"
        )));
    }
    let call = session.http.namespace(Method::POST, namespace, &["pause"]);
    let paused = call.send().await?;
    let response = match args.resume_at {
        Some(_) => resume_at(namespace, args.resume_at, session).await?,
        None => paused,
    };
    print_result(namespace, &response, session)
}

/// Resumes the namespace.
pub(super) async fn resume(args: ResumeArgs, session: &Session) -> Outcome {
    let namespace = &args.named.namespace;
    print_result(namespace, &resume_at(namespace, args.at, session).await?, session)
}

async fn resume_at(
    namespace: &NamespaceName,
    at: Option<Timestamp>,
    session: &Session,
) -> Result<HttpResponse, Failure> {
    let request = ResumeRequest { namespace: String::new(), at: at.map(Time::from) };
    let call = session.http.namespace(Method::POST, namespace, &["resume"]);
    call.body(&request).send().await
}

fn print_result(namespace: &NamespaceName, response: &HttpResponse, session: &Session) -> Outcome {
    session.printer.document(&response.text, || {
        let now: Namespace = response.parse()?;
        Ok(match (now.paused, now.resumes_at) {
            (true, Some(at)) => {
                format!("{namespace}  paused, resumes {}", when::with_distance(&at, when::now()))
            }
            (true, None) => format!("{namespace}  paused"),
            (false, _) => format!("{namespace}  resumed"),
        })
    })
}
