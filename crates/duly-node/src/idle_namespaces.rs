//! A background pass: has the store remove implicit namespaces that have been idle for a day.
//!
//! The store decides which to remove. The node tells it on which namespaces lease calls have waited.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use duly_core::NamespaceName;
use duly_store::Result;

use crate::{phase::Phase, state::Shared};

/// Time from one pass to the next.
const EVERY: Duration = Duration::from_secs(3_600);
/// Pause between two pages, so that a pass puts little load on the store.
const PAGE_PAUSE: Duration = Duration::from_millis(20);

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    while shared.phases.sleep(EVERY).await {
        let waited = Arc::new(shared.pull.waiters.lock().take_waited());
        if let Err(error) = run_pass(&shared, waited).await {
            shared.log_store_error("remove idle namespaces", &error);
        }
    }
}

async fn run_pass(shared: &Shared, waited: Arc<BTreeSet<NamespaceName>>) -> Result<()> {
    let mut from = None;
    loop {
        let page = shared.store.remove_idle(from, Arc::clone(&waited)).await?;
        for namespace in &page.removed {
            tracing::info!(
                %namespace,
                "idle namespace removed: a schedule call had created it, and it has been idle for a day"
            );
        }
        from = page.next;
        if from.is_none() || shared.phases.now() != Phase::Running {
            return Ok(());
        }
        tokio::time::sleep(PAGE_PAUSE).await;
    }
}
