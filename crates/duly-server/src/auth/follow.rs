//! Polls the keys of a store that several nodes share.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use duly_store::Store;
use tokio::time::{sleep, timeout};

use super::Auth;

/// Time between two polls: a revoked key is refused on every node within a second.
const POLL_EVERY: Duration = Duration::from_millis(400);
/// The same while no keys are required.
const POLL_FIRST_EVERY: Duration = Duration::from_secs(1);
/// Time-out of a poll.
const POLL_TIMEOUT: Duration = Duration::from_secs(2);

/// Polls until it is aborted. `cache` is the time for which keys are used while polls fail.
pub(crate) async fn follow(auth: Auth, store: Arc<dyn Store>, cache: Duration) {
    let mut is_stale = false;
    *auth.0.stale_at.write() = Some(Instant::now() + cache);
    loop {
        sleep(if auth.is_required() { POLL_EVERY } else { POLL_FIRST_EVERY }).await;
        let began = Instant::now();
        let read = timeout(POLL_TIMEOUT, store.read_access(auth.records().version)).await;
        if let Ok(Ok(newer)) = read {
            if let Some(records) = newer {
                auth.use_records(records);
            }
            *auth.0.stale_at.write() = Some(began + cache);
        }
        let was_stale = std::mem::replace(&mut is_stale, auth.expect_current().is_err());
        if was_stale != is_stale && auth.is_required() {
            match is_stale {
                true => tracing::warn!(
                    "keys not read for longer than auth.cache; calls with a key get 503 until a majority \
                     of the shards replies"
                ),
                false => tracing::info!("keys read again; calls with a key are admitted"),
            }
        }
    }
}
