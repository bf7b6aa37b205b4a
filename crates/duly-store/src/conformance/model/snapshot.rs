//! Reads everything that a store shows.

use duly_core::{NamespaceName, State};

use super::{Disturbance, Known, normal};
use crate::{
    ForecastRequest, ListRequest, Stats, TimerView,
    conformance::{Harness, scene::SHARD},
    forecast::BUCKET_MIN,
    query::ListState,
};

/// Timers per page: few, so that pages end within namespaces.
const PAGE: usize = 5;

/// Returns everything, line by line.
pub(super) async fn snapshot(
    harness: &dyn Harness,
    known: &mut Known,
    disturb: Disturbance,
) -> Vec<String> {
    match read_all(harness, known, disturb).await {
        Ok(lines) => lines,
        Err(error) => vec![format!("a read failed: {error}")],
    }
}

async fn read_all(
    harness: &dyn Harness,
    known: &mut Known,
    disturb: Disturbance,
) -> crate::Result<Vec<String>> {
    let store = harness.store();
    let now = harness.now();
    let mut lines = Vec::new();
    for namespace in store.list_namespaces(None, 100).await? {
        lines.push(format!("{namespace:?}"));
        let stats = store.stats(SHARD, namespace.name.clone()).await?;
        lines.push(counts(stats.unwrap_or_default(), disturb));
        if disturb != Disturbance::ClockSteps {
            // Left out for the same reason as `next_due_at` below.
            let request = ForecastRequest {
                namespace: namespace.name.clone(),
                bucket: BUCKET_MIN,
                count: 30,
            };
            lines.push(format!("{:?}", store.forecast(SHARD, request).await?));
        }
        for state in State::ALL {
            for view in list(harness, &namespace.name, ListState::Only(state)).await? {
                lines.push(format!("listed {}", normal::view(&view, now, known)));
                let got =
                    store.get(SHARD, namespace.name.clone(), view.id().clone(), u64::MAX).await?;
                let got = got.map(|view| normal::view(&view, now, known));
                lines.push(format!("got {got:?}"));
            }
        }
        let pending = list(harness, &namespace.name, ListState::Pending).await?;
        lines.push(format!("pending {:?}", pending.iter().map(TimerView::id).collect::<Vec<_>>()));
    }
    let ready = store.ready(SHARD, None, 1_000).await?;
    let lanes = ready.lanes.iter().map(|ready| (&ready.lane, ready.first > 0, ready.retry > 0));
    lines.push(format!("ready {:?}", lanes.collect::<Vec<_>>()));
    let health = store.health();
    let sums = (health.pending, health.overdue, health.in_flight, health.dead);
    let stopped = (health.namespaces_paused, health.namespaces_dead_full);
    lines.push(format!("health {sums:?} {stopped:?}"));
    Ok(lines)
}

fn counts(mut stats: Stats, disturb: Disturbance) -> String {
    if disturb == Disturbance::ClockSteps {
        // A step back of the wall clock postpones retries. Until the next claim examines them, a store may
        // show them with their earlier time.
        stats.next_due_at = None;
    }
    let bytes = stats.pending_bytes > 0;
    stats.pending_bytes = 0;
    stats.lanes.sort_by(|a, b| a.key.cmp(&b.key));
    format!("{stats:?}, bytes {bytes}")
}

async fn list(
    harness: &dyn Harness,
    namespace: &NamespaceName,
    state: ListState,
) -> crate::Result<Vec<TimerView>> {
    let mut request = ListRequest { limit: PAGE, ..ListRequest::new(namespace.clone(), state) };
    let mut found = Vec::new();
    loop {
        let page = harness.store().list(SHARD, request.clone()).await?;
        found.extend(page.timers);
        match page.next {
            Some(next) if request.after.as_ref() != Some(&next) => request.after = Some(next),
            _ => break,
        }
    }
    if matches!(state, ListState::Only(State::Dead)) {
        // Dead letters with the same id and due time are in the order of their incarnations, which are
        // random. The order in which they were dead-lettered is the same in every store.
        let life = |view: &TimerView| {
            let timer = view.timer();
            timer.map(|t| (t.created_at, t.occurrence, t.revision, t.attempts))
        };
        found.sort_by_key(|view| (view.due_at(), view.id().clone(), life(view)));
    }
    Ok(found)
}
