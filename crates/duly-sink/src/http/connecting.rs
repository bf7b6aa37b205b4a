//! Ends the making of a connection together with the attempt that needs it.
//!
//! Time that runs out before there is a connection must be told from time that runs out while the
//! receiver works: in the first case nothing was sent (P4). The client's own connect time-out is
//! the same for all attempts, so the end of the attempt is brought to the connector beside it.

use std::{error::Error, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use tokio::time::{Instant, timeout_at};

/// How much earlier than the attempt the connection is given up, so that it is this end that is
/// seen.
const EARLIER: Duration = Duration::from_millis(5);

tokio::task_local! {
    static ENDS_AT: Instant;
}

/// Runs `sending` so that connections which it makes are given up just before `ends_at`.
pub(super) fn ending_at<F: Future>(
    ends_at: Instant,
    sending: F,
) -> impl Future<Output = F::Output> {
    ENDS_AT.scope(ends_at.checked_sub(EARLIER).unwrap_or(ends_at), sending)
}

type Connected<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// `connecting`, given up in time. Called by the client where it begins to connect, which is
/// inside of [`ending_at`].
pub(super) fn in_time<T, F>(connecting: F) -> BoxFuture<'static, Connected<T>>
where
    F: Future<Output = Connected<T>> + Send + 'static,
{
    match ENDS_AT.try_with(|ends_at| *ends_at) {
        Ok(ends_at) => async move {
            match timeout_at(ends_at, connecting).await {
                Ok(connected) => connected,
                Err(_elapsed) => Err("the time of the attempt was over first".into()),
            }
        }
        .boxed(),
        Err(_) => connecting.boxed(),
    }
}
