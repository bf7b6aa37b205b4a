//! `duly get`, `duly fire` and `duly forget`: show a timer, make it due now, remove what is left of it.

use reqwest::Method;

use crate::{
    Outcome,
    args::TimerArg,
    failure::Failure,
    http::{Call, HttpResponse},
    output::{Fields, table, when},
    session::Session,
};

/// Shows the timer.
pub(crate) async fn run(timer: TimerArg, session: &Session) -> Outcome {
    show(session, timer.call(Method::GET, &session.http)).await
}

/// Makes the timer due now.
pub(crate) async fn fire(timer: TimerArg, session: &Session) -> Outcome {
    let below = ["timers", timer.id.as_str(), "fire"];
    show(session, session.http.post(&timer.named.namespace, &below)).await
}

/// Removes all that is left of the ended timer.
pub(crate) async fn forget(timer: TimerArg, session: &Session) -> Outcome {
    let below = ["timers", timer.id.as_str(), "forget"];
    show(session, session.http.post(&timer.named.namespace, &below)).await
}

/// Makes a call whose response is one object with any fields, and prints it.
pub(crate) async fn show(session: &Session, call: Call<'_>) -> Outcome {
    show_response(session, call).await?.check_change()
}

/// Does the same as [`show`], and returns the response.
pub(crate) async fn show_response(
    session: &Session,
    call: Call<'_>,
) -> Result<HttpResponse, Failure> {
    let screen = session.printer.screen;
    let response = call.send().await?;
    session.printer.document(&response.text, || {
        let fields: Fields = response.parse()?;
        Ok(table::of_pairs(screen, fields.pairs(when::now(), screen)))
    })?;
    Ok(response)
}
