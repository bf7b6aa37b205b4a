//! Runs long work of a call on another thread.

use std::{num::NonZero, sync::OnceLock};

use duly_core::Code;
use tokio::sync::Semaphore;

use crate::problem::Problem;

/// Bodies from this size on are read on a blocking thread.
const INLINE_BYTES_MAX: usize = 64 * 1024;

/// Runs work on this number of bytes: here, or on another thread where it would delay other requests.
pub(crate) async fn run_blocking<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    if bytes < INLINE_BYTES_MAX {
        return work();
    }
    // One permit for each core: more would only take turns, and hold their memory meanwhile.
    static SLOTS: OnceLock<Semaphore> = OnceLock::new();
    let slots = SLOTS.get_or_init(|| {
        Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get))
    });
    let _slot = slots.acquire().await.expect("it is never closed");
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(stopping()),
        },
    }
}

/// Returns the problem of a runtime that ends and accepts no more work.
fn stopping() -> Problem {
    let detail = "the server is stopping: nothing was done, repeat the call";
    Problem::temporary(Code::Unavailable, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_during_a_stop_get_a_retry_time() {
        assert_eq!(stopping().into_body().retry_after_ms, Some(1_000));
    }
}
