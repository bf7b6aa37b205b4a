//! Filling of the server: numbered timers in batches, over a few connections.
//!
//! The number of a timer is its id, so each timer is recognised when it arrives. Every result of
//! every batch is checked. Responses are parsed without a JSON tree.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;

use super::progress::Progress;
use super::{PATIENCE, PAYLOAD};
use crate::api;
use crate::clock::now_ms;
use crate::wire::Connection;

/// Callers that fill at once, with batches.
const FILLERS: usize = 4;

/// Timers per batch.
pub(super) const BATCH: usize = 1_000;

/// Shortest time before the due time at which scheduling begins, in milliseconds. No timer may be
/// due during scheduling.
const LEAST_LEAD_MS: u64 = 5_000;
/// Assumed timers scheduled per second, at least.
const LEAST_PER_SECOND: u64 = 70_000;

/// Returns the time before the due time at which scheduling begins, in milliseconds; `given_s`
/// seconds if given.
pub(super) fn lead_ms(timers: usize, given_s: Option<u32>) -> u64 {
    given_s.map_or_else(
        || LEAST_LEAD_MS + u64::try_from(timers).unwrap_or(u64::MAX) * 1_000 / LEAST_PER_SECOND,
        |seconds| u64::from(seconds) * 1_000,
    )
}

/// Returns an error if a due time came before all timers were scheduled.
pub(super) fn ensure_still_ahead(due_ms: u64, lead_ms: u64) -> Result<()> {
    ensure!(
        now_ms() < due_ms,
        "scheduling took longer than the {lead_ms} ms until the first is due; give it longer with \
         --lead SECONDS"
    );
    Ok(())
}

/// The used fields of a batch response.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) results: Vec<Outcome>,
}

/// One result of a batch.
#[derive(Deserialize)]
pub(super) struct Outcome {
    timer: Option<Made>,
    error: Option<Value>,
}

/// A new or existing timer.
#[derive(Deserialize)]
struct Made {
    #[serde(default)]
    existing: bool,
    #[serde(default)]
    replaced: bool,
}

impl Outcome {
    /// Returns `true` if a new timer was created.
    fn is_new(&self) -> bool {
        self.timer.as_ref().is_some_and(|made| !made.existing && !made.replaced)
    }

    /// Returns `true` if the timer replaced another one.
    pub(super) fn is_replaced(&self) -> bool {
        self.timer.as_ref().is_some_and(|made| made.replaced)
    }
}

/// Schedules timers with these numbers in a namespace, with these due times.
pub(super) async fn batch(
    connection: &mut Connection,
    namespace: &str,
    numbers: Range<usize>,
    dues_ms: &[u64],
) -> Result<()> {
    let body = body(numbers.clone().zip(dues_ms.iter().copied()));
    let path = api::path(namespace, "/batch");
    let response = connection.call("POST", &path, body.as_bytes(), PATIENCE).await?;
    ensure!(response.is_success(), "a batch was answered {}", response.status);
    let answer: Answer =
        serde_json::from_slice(&response.body).context("a batch was answered with other JSON")?;
    let made = answer.results.iter().filter(|result| result.is_new()).count();
    ensure!(
        made == numbers.len(),
        "only {made} of {} were made; first refusal: {:?}",
        numbers.len(),
        answer.results.iter().find_map(|result| result.error.as_ref())
    );
    Ok(())
}

/// Returns the body of a batch of schedule calls.
pub(super) fn body(timers: impl Iterator<Item = (usize, u64)>) -> String {
    let mut body = String::with_capacity(BATCH * 210);
    body.push_str(r#"{"operations":["#);
    for (place, (number, due_ms)) in timers.enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(
            body,
            r#"{comma}{{"schedule":{{"id":"{number}","due_at":{due_ms},"payload_text":"{PAYLOAD}"}}}}"#
        )
        .expect("a string takes all");
    }
    body.push_str("]}");
    body
}

/// Schedules as many timers as there are due times, all in one namespace.
pub(super) async fn fill(
    address: SocketAddr,
    namespace: &'static str,
    dues_ms: Arc<[u64]>,
) -> Result<()> {
    let total = dues_ms.len();
    spread(
        address,
        FILLERS,
        total.div_ceil(BATCH),
        total,
        "scheduled",
        move |mut connection, place| {
            let dues_ms = Arc::clone(&dues_ms);
            async move {
                let numbers = place * BATCH..total.min((place + 1) * BATCH);
                let done = numbers.len();
                let dues_ms = &dues_ms[numbers.clone()];
                batch(&mut connection, namespace, numbers, dues_ms).await?;
                Ok((connection, done))
            }
        },
    )
    .await
}

/// Does `pieces` pieces of work over `callers` connections, each piece on the next free one. A
/// piece returns its share of `total`.
pub(super) async fn spread<F>(
    address: SocketAddr,
    callers: usize,
    pieces: usize,
    total: usize,
    what: &'static str,
    piece: impl Fn(Connection, usize) -> F + Send + Sync + 'static,
) -> Result<()>
where
    F: Future<Output = Result<(Connection, usize)>> + Send + 'static,
{
    let piece = Arc::new(piece);
    let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let progress = Arc::new(Progress::new(what, total));
    let mut calling = JoinSet::new();
    for _ in 0..callers {
        let (piece, next, done) = (Arc::clone(&piece), Arc::clone(&next), Arc::clone(&done));
        let progress = Arc::clone(&progress);
        calling.spawn(async move {
            let mut connection = Connection::new(address);
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                if place >= pieces {
                    return Ok::<_, anyhow::Error>(());
                }
                let count;
                (connection, count) = piece(connection, place).await?;
                progress.at(done.fetch_add(count, Ordering::Relaxed) + count);
            }
        });
    }
    while let Some(caller) = calling.join_next().await {
        caller??;
    }
    let done = done.load(Ordering::Relaxed);
    ensure!(done == total, "{what}: {done} of {total}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_what_the_contract_says() {
        let json: Value = serde_json::from_str(&body([(7, 70), (8, 80)].into_iter())).unwrap();
        let operations = json["operations"].as_array().unwrap();
        assert_eq!(operations.len(), 2);
        assert_eq!(operations[1]["schedule"]["id"], "8");
        assert_eq!(operations[1]["schedule"]["due_at"], 80);
        assert_eq!(operations[0]["schedule"]["payload_text"], PAYLOAD);
    }

    #[test]
    fn an_answer_tells_new_ones_from_others() {
        for (result, new) in [
            (r#"{"timer":{"id":"1"}}"#, true),
            (r#"{"timer":{"replaced":true}}"#, false),
            (r#"{"timer":{"existing":true}}"#, false),
            (r#"{"error":{"code":"dead"}}"#, false),
        ] {
            let text = format!(r#"{{"results":[{result}]}}"#);
            let answer: Answer = serde_json::from_str(&text).unwrap();
            assert_eq!(answer.results[0].is_new(), new, "{result}");
            assert_eq!(answer.results[0].error.is_some(), result.contains("error"), "{result}");
        }
    }

    #[test]
    fn the_lead_grows_with_the_load() {
        assert_eq!(lead_ms(0, None), 5_000);
        assert_eq!(lead_ms(700_000, None), 15_000);
        assert_eq!(lead_ms(700_000, Some(2)), 2_000);
    }
}
