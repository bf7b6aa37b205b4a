//! End of a run: waits until no timer is pending soon, compares counters with lists, and reads
//! every id back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::caller::Caller;
use super::plan::HORIZON_MS;
use super::world::{NAMESPACES, World};
use crate::api;
use crate::clock::{now_ms, now_us};
use crate::history::{End, EndState};

/// Most polls in a row without fewer pending timers: a breaker waits a minute at most. Polls are
/// counted, not time, because the run itself may be stopped meanwhile.
const IDLE_POLLS_MAX: u32 = 1_000;

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Concurrent readers.
const READERS: u64 = 8;

/// Counters of `stats` that a full list must confirm.
const COUNTERS: [&str; 5] = ["scheduled", "due", "in_flight", "retrying", "dead"];

/// Results of the end of the run, apart from the history.
#[derive(Debug, Default)]
pub(super) struct Finished {
    /// `true`: the wait for the end of all due timers is over, with or without success.
    pub(super) drained: bool,
    /// Broken expectations that no history contains.
    pub(super) complaints: Vec<String>,
    /// Faults that this machine cannot do, with the reasons.
    pub(super) skipped: Vec<String>,
    /// Duration of the load.
    pub(super) loaded: Duration,
    /// Duration with drain and reads.
    pub(super) took: Duration,
}

/// Drains, compares counters and reads back.
pub(super) async fn finish(world: &Arc<World>) -> Result<Finished> {
    let mut finished = Finished { drained: true, ..Finished::default() };
    let mut caller = world.caller(400);
    if let Err(left) = drain(&mut caller).await? {
        finished.complaints.push(left);
    }
    for namespace in &NAMESPACES {
        let complaint = compare_counters(&mut caller, namespace.name).await?;
        finished.complaints.extend(complaint);
    }
    read_back(world).await?;
    Ok(finished)
}

async fn get(caller: &mut Caller, path: &str) -> Result<Value> {
    let response = caller.call("GET", path, b"").await?;
    ensure!(response.is_success(), "GET {path}: {}", response.status);
    Ok(response.json())
}

/// Waits until no timer is due, in flight, retrying, or due soon.
async fn drain(caller: &mut Caller) -> Result<Result<(), String>> {
    let mut fewest = u64::MAX;
    let mut idle_polls = 0;
    loop {
        let mut left = String::new();
        let mut left_count = 0;
        for namespace in &NAMESPACES {
            let stats = get(caller, &api::path(namespace.name, "/stats")).await?;
            let busy = ["due", "in_flight", "retrying"].map(|name| stats[name].as_u64());
            let busy: u64 = busy.into_iter().flatten().sum();
            let soon = api::time_ms(&stats["next_due_at"])
                .is_some_and(|due_ms| due_ms < now_ms() + HORIZON_MS);
            if busy > 0 || soon {
                left_count += busy + u64::from(soon);
                left = format!("pending in {}: {stats}", namespace.name);
            }
        }
        if left_count == 0 {
            return Ok(Ok(()));
        }
        idle_polls += 1;
        if left_count < fewest {
            fewest = left_count;
            idle_polls = 0;
        }
        if idle_polls > IDLE_POLLS_MAX {
            return Ok(Err(format!("not drained: no progress in {idle_polls} polls; {left}")));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Compares the counters with a full list.
async fn compare_counters(caller: &mut Caller, namespace: &str) -> Result<Option<String>> {
    let stats = get(caller, &api::path(namespace, "/stats")).await?;
    let mut listed = [0_u64; COUNTERS.len()];
    for filter in ["limit=1000", "limit=1000&state=dead"] {
        let mut cursor: Option<String> = None;
        loop {
            let after = cursor
                .map(|cursor| format!("&cursor={}", api::encode_segment(&cursor)))
                .unwrap_or_default();
            let path = api::path(namespace, &format!("/timers?{filter}{after}"));
            let page = get(caller, &path).await?;
            for timer in page["timers"].as_array().into_iter().flatten() {
                let state = timer["state"].as_str();
                if let Some(i) = COUNTERS.iter().position(|name| Some(*name) == state) {
                    listed[i] += 1;
                }
            }
            cursor = page["cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
    }
    let counted = COUNTERS.map(|name| stats[name].as_u64());
    let pending: u64 = listed[..4].iter().sum();
    let equal = counted == listed.map(Some) && stats["pending"] == pending;
    Ok((!equal).then(|| {
        format!("counters of {namespace} differ: {COUNTERS:?} listed {listed:?}, stats {stats}")
    }))
}

/// Reads every id in the history.
async fn read_back(world: &Arc<World>) -> Result<()> {
    let keys = Arc::new(world.recorder.keys());
    let next = Arc::new(AtomicUsize::new(0));
    let mut readers = Vec::new();
    for number in 0..READERS {
        let (world, keys, next) = (Arc::clone(world), Arc::clone(&keys), Arc::clone(&next));
        readers.push(tokio::spawn(async move {
            let mut caller = world.caller(401 + number);
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(key) = keys.get(i) else {
                    return anyhow::Ok(());
                };
                let path =
                    api::path(&key.namespace, &format!("/timers/{}", api::encode_segment(&key.id)));
                let response = caller.call("GET", &path, b"").await?;
                let timer = response.json();
                let state = if response.status == 404 {
                    EndState::NotFound
                } else {
                    timer["state"]
                        .as_str()
                        .or_else(|| timer["outcome"].as_str())
                        .and_then(EndState::parse)
                        .with_context(|| format!("GET {path}: {} {timer}", response.status))?
                };
                world.recorder.end(End {
                    key: u32::try_from(i)?,
                    read_us: now_us(),
                    state,
                    due_ms: api::time_ms(&timer["due_at"]),
                    mark: api::mark_of(&timer["payload"]),
                });
            }
        }));
    }
    for reader in readers {
        reader.await??;
    }
    Ok(())
}
