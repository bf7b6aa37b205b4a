//! A time-out that does not count the time in which this process did not run.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use tokio::time;

/// Parts of a time-out.
const PARTS: u32 = 4;
/// Silence time-outs that a connect of the probe may take: name look-up, TCP, TLS and login.
pub(crate) const CONNECT: u32 = 2;

/// Waits for `work` for this time. A part of it whose end this process noticed late does not count: the reply may have
/// arrived meanwhile.
pub(crate) async fn punctually<T>(work: impl Future<Output = T>, timeout: Duration) -> Option<T> {
    let mut work = pin!(work);
    let part = timeout / PARTS;
    let mut missed = 0;
    while missed < PARTS {
        let began = Instant::now();
        if let Ok(done) = time::timeout(part, &mut work).await {
            return Some(done);
        }
        missed += u32::from(began.elapsed() < part * 2);
    }
    None
}
