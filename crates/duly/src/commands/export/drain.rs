//! Drains a namespace before a move: pauses it, and waits until nothing is in flight.

use std::time::{Duration, Instant};

use duly_core::{Millis, NamespaceName};
use reqwest::Method;

use crate::{
    Outcome,
    cli::Session,
    commands::namespace::counts,
    failure::Failure,
    output::{progress::Progress, text},
};

/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(200);

/// Pauses a namespace and waits until nothing of it is in flight.
pub(super) async fn drain(
    namespace: &NamespaceName,
    drain_timeout: Millis,
    session: &Session,
    progress: &mut Progress,
) -> Outcome {
    session.http.namespace(Method::POST, namespace, &["pause"]).send().await?;
    let until = Instant::now() + drain_timeout.to_std();
    let mut most = 0;
    loop {
        let in_flight = counts(session, namespace).await?.in_flight;
        if in_flight == 0 {
            return Ok(());
        }
        let firings = text::count(in_flight, "firing");
        if Instant::now() >= until {
            return Err(Failure::coded(
                "still_in_flight",
                format_args!(
                    "{firings} of {namespace} still in flight after {drain_timeout}: nothing was \
                     exported, and {namespace} stays paused. Repeat the command with a longer \
                     --drain-timeout (a consumer's lease ends by itself), or resume it with `duly \
                     namespace resume {namespace}`"
                ),
            ));
        }
        most = in_flight.max(most);
        progress.show(most - in_flight, Some(most), &format!("{namespace}: {firings} in flight"));
        tokio::time::sleep(PAUSE).await;
    }
}
