//! Debouncing: the same ids are replaced repeatedly, each time with a different due time.
//!
//! 1. Requests are built before the measured time: two for each batch of ids, with different due
//!    times. They are sent in turn, so each one replaces and none repeats the previous request.
//! 2. Every result must say that it replaced a timer.
//! 3. At the end, the revision of one id of each batch must match the number of requests.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, value_parser};
use tokio::task::JoinSet;

use super::plain::{self, Exchange};
use super::progress::part;
use super::{PAYLOAD, Table, floor, load, must, start, usage};
use crate::api;
use crate::checker::Percentiles;
use crate::clock::now_ms;
use crate::process::Options as ServerOptions;
use crate::wire::{Connection, request};

/// Options of `debounce`.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Number of ids that are replaced.
    #[arg(long, default_value_t = 10_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub ids: u32,
    /// Operations per batch.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Number of connections, each with its own ids.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=1_000))]
    pub connections: u32,
    /// Seconds of each round.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
}

/// Delays of the two requests: a month, so that nothing fires.
const DUE_IN_MS: [u64; 2] = [30 * 86_400_000, 31 * 86_400_000];

/// Requests for one batch of ids.
struct Batch {
    first_id: usize,
    ids: usize,
    /// Sent in turn.
    requests: [Vec<u8>; 2],
    sent: usize,
}

/// Result of one connection.
#[derive(Default)]
struct Done {
    replaced: u64,
    calls: usize,
    took_us: Vec<u64>,
    request_bytes: usize,
    answer_bytes: usize,
}

/// Runs one round on a fresh server.
pub(super) async fn round(
    server: &ServerOptions,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let mut server = start(server).await?;
    let (address, pid) = (server.address(), server.pid());
    let (ids, batch) = (usize::try_from(options.ids)?, usize::try_from(options.batch)?);
    let now_ms = now_ms();
    part("scheduling");
    let first_ms = now_ms + DUE_IN_MS[1] + 86_400_000;
    load::fill(address, "measured", vec![first_ms; ids].into()).await?;
    let mut shares: Vec<Vec<Batch>> = (0..options.connections).map(|_| Vec::new()).collect();
    for (place, first_id) in (0..ids).step_by(batch).enumerate() {
        let own = first_id..ids.min(first_id + batch);
        let connection = place % shares.len();
        shares[connection].push(Batch {
            first_id,
            ids: own.len(),
            requests: DUE_IN_MS.map(|in_ms| replace(address, own.clone(), now_ms + in_ms)),
            sent: 0,
        });
    }
    shares.retain(|share| !share.is_empty());
    let connections = shares.len();

    part("replacing");
    let cpu = usage::cpu(pid)?;
    let began = Instant::now();
    let end = began + Duration::from_secs(u64::from(options.seconds));
    let mut callers = JoinSet::new();
    for share in shares {
        callers.spawn(replace_until(address, share, end));
    }
    let mut all = Done::default();
    let mut sent = Vec::new();
    while let Some(caller) = callers.join_next().await {
        let (share, done) = caller??;
        sent.extend(share.iter().map(|batch| (batch.first_id, batch.sent)));
        all.replaced += done.replaced;
        all.calls += done.calls;
        all.took_us.extend(done.took_us);
        all.request_bytes = all.request_bytes.max(done.request_bytes);
        all.answer_bytes = all.answer_bytes.max(done.answer_bytes);
    }
    let lasted_s = began.elapsed().as_secs_f64();
    let cpu = usage::cpu(pid)?.saturating_sub(cpu);
    verify(address, options, &sent).await?;
    server.kill()?;

    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    let replaced = all.replaced as f64;
    table.add("replaced", "/s", replaced / lasted_s);
    table.add("CPU of the server, each", "µs", cpu.as_secs_f64() * 1e6 / replaced);
    let took = Percentiles::of(all.took_us);
    table.add("answer time of a batch, p50", "ms", floor::ms(took.p50_us));
    table.add("answer time of a batch, p99", "ms", floor::ms(took.p99_us));
    table.add("answer time of a batch, max", "ms", floor::ms(took.max_us));
    let exchange = Exchange { request: all.request_bytes, answer: all.answer_bytes };
    let floor_s = plain::seconds(vec![exchange], all.calls, connections).await?;
    table.add("floor: the same bytes over plain sockets", "/s", replaced / floor_s);
    Ok(())
}

/// Returns the request that replaces these ids.
fn replace(address: SocketAddr, ids: std::ops::Range<usize>, due_ms: u64) -> Vec<u8> {
    let operations: Vec<String> = ids
        .map(|id| {
            format!(
                r#"{{"schedule":{{"id":"{id}","due_at":{due_ms},"if_exists":"replace","payload_text":"{PAYLOAD}"}}}}"#
            )
        })
        .collect();
    let body = format!(r#"{{"operations":[{}]}}"#, operations.join(","));
    request(address, "POST", &api::path("measured", "/batch"), body.as_bytes())
}

/// Sends the batches one after another, over one connection, until the time is over.
async fn replace_until(
    address: SocketAddr,
    mut share: Vec<Batch>,
    end: Instant,
) -> Result<(Vec<Batch>, Done)> {
    let mut connection = Connection::new(address);
    let mut done = Done::default();
    loop {
        for batch in &mut share {
            if Instant::now() >= end {
                return Ok((share, done));
            }
            let request = &batch.requests[batch.sent % 2];
            let began = Instant::now();
            let response = connection.exchange(request).await?;
            done.took_us.push(u64::try_from(began.elapsed().as_micros())?);
            ensure!(response.is_success(), "a batch was answered {}", response.status);
            let answer: load::Answer = serde_json::from_slice(&response.body)
                .context("a batch was answered with other JSON")?;
            let replaced = answer.results.iter().filter(|result| result.is_replaced()).count();
            ensure!(replaced == batch.ids, "{replaced} of {} were replaced", batch.ids);
            batch.sent += 1;
            done.calls += 1;
            done.replaced += u64::try_from(replaced)?;
            done.request_bytes = done.request_bytes.max(request.len());
            done.answer_bytes = done.answer_bytes.max(response.body.len());
        }
    }
}

/// Returns an error unless the state of the server matches its responses.
async fn verify(address: SocketAddr, options: &Options, sent: &[(usize, usize)]) -> Result<()> {
    let mut connection = Connection::new(address);
    let stats = must(&mut connection, "GET", "/stats", &().into()).await?;
    ensure!(stats["pending"] == options.ids, "{} ids, but stats say {stats}", options.ids);
    for (id, times) in sent {
        let timer = must(&mut connection, "GET", &format!("/timers/{id}"), &().into()).await?;
        ensure!(
            timer["revision"] == times + 1,
            "id {id} was replaced {times} times and has revision {}",
            timer["revision"]
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_batch_differ_only_in_due_time() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let [one, other] = [1_111, 2_222].map(|due_ms| replace(address, 5..7, due_ms));
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(text(one).replace("1111", "2222"), text(other.clone()));
        let body = text(other);
        let (_, body) = body.split_once("\r\n\r\n").unwrap();
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(json["operations"][1]["schedule"]["id"], "6");
        assert_eq!(json["operations"][1]["schedule"]["if_exists"], "replace");
    }
}
