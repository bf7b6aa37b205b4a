//! The claims for one lease call: chooses shards and kinds, and records the reported next firings.

use std::{sync::atomic::Ordering, time::Duration};

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{ClaimRequest, Claimed, Error, Firing, Lane, LaneClaim, Owner, Result};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::time::{Instant, timeout_at};

use super::{
    LeaseRequest,
    hints::Hint,
    record_expected,
    waiters::{ClaimOrder, HeadCall, WaitMode},
    walk_unless_empty,
};
use crate::state::Shared;

/// Shards from which one call claims at the same time.
const AT_ONCE: usize = 8;
/// Longest wait for the other shards once a shard has given firings. Claims that take longer end, and the store
/// hands back what they were granted.
const BESIDE: Duration = Duration::from_millis(500);

/// Claims for one call. It tries the hinted shards first. Then it tries all shards in turn until one has
/// firings, unless the hints are known to be complete. A shard that fails is left out: its loop reports what is
/// claimable there once the shard replies again.
///
/// # Errors
/// When every shard that was tried has failed.
pub(super) async fn claim(shared: &Shared, head: &HeadCall<LeaseRequest>) -> Result<Vec<Firing>> {
    let namespace = &head.request.namespace;
    let at_once = head.request.max.clamp(1, AT_ONCE);
    let mut tried = Tried::default();
    loop {
        let hinted = shared.pull.hints.lock().take(namespace, at_once);
        if hinted.is_empty() {
            break;
        }
        let firings = tried.claim_from(shared, &hinted, head).await;
        if !firings.is_empty() {
            return Ok(firings);
        }
    }
    let announced_since = shared.nodes.announced_since(namespace);
    let are_complete = shared.pull.hints.lock().are_complete(namespace, announced_since);
    if head.mode == WaitMode::Waits && are_complete && tried.failed.is_none() {
        return Ok(Vec::new());
    }
    let began_at = shared.clock.boot();
    let shards = shared.store.shards().max(1);
    let begin = shared.pull.next_shard.fetch_add(1, Ordering::Relaxed) % shards;
    let all: Vec<_> = (0..shards).map(|i| Hint::of(ShardId((begin + i) % shards))).collect();
    for some in all.chunks(at_once) {
        let firings = tried.claim_from(shared, some, head).await;
        if !firings.is_empty() {
            return Ok(firings);
        }
    }
    match tried {
        Tried { failed: Some(error), replied: false } => return Err(error),
        Tried { failed: Some(error), .. } => shared.log_store_error("claim (pull)", &error),
        Tried { failed: None, .. } if shared.nodes.is_shared() => {
            shared.pull.hints.lock().record_empty_poll(namespace, began_at);
        }
        Tried { .. } => {}
    }
    Ok(Vec::new())
}

/// The shards that one call has tried.
#[derive(Debug, Default)]
struct Tried {
    /// `true`: a shard has replied.
    replied: bool,
    /// Error of the last shard that failed.
    failed: Option<Error>,
}

impl Tried {
    /// Claims from several shards at once, from each its part of the request. What one shard withholds does not
    /// hold back the firings of the others.
    async fn claim_from(
        &mut self,
        shared: &Shared,
        shards: &[Hint],
        head: &HeadCall<LeaseRequest>,
    ) -> Vec<Firing> {
        let parts = parts(head.request.max, shards);
        let claims = shards.iter().zip(parts).enumerate().map(|(place, (hint, max))| {
            let mut part = head.clone();
            let bytes = u128::from(head.request.bytes_max) * max as u128;
            let bytes = bytes / head.request.max.max(1) as u128;
            part.request.max = max;
            part.request.bytes_max = u64::try_from(bytes).unwrap_or(u64::MAX);
            async move { (place, claim_in(shared, *hint, &part).await) }
        });
        let mut claims: FuturesUnordered<_> = claims.collect();
        let mut given: Vec<Option<Vec<Firing>>> = shards.iter().map(|_| None).collect();
        let mut deadline = None;
        loop {
            let next = match deadline {
                None => Ok(claims.next().await),
                Some(deadline) => timeout_at(deadline, claims.next()).await,
            };
            match next {
                Ok(Some((place, Ok(firings)))) => {
                    self.replied = true;
                    if !firings.is_empty() {
                        deadline.get_or_insert_with(|| Instant::now() + BESIDE);
                    }
                    given[place] = Some(firings);
                }
                Ok(Some((place, Err(error)))) => {
                    self.failed = Some(error);
                    given[place] = Some(Vec::new());
                }
                Ok(None) => break,
                Err(_elapsed) => {
                    let late = shards.iter().zip(&given).filter(|(_, given)| given.is_none());
                    if shared.nodes.is_shared() {
                        let mut hints = shared.pull.hints.lock();
                        late.for_each(|(hint, _)| hints.add_more(&head.request.namespace, *hint));
                    }
                    break;
                }
            }
        }
        given.into_iter().flatten().flatten().collect()
    }
}

/// Splits `max` firings over shards: each gets one, and a part of the rest by its weight.
fn parts(max: usize, shards: &[Hint]) -> Vec<usize> {
    let others = max.saturating_sub(shards.len());
    let weights: usize = shards.iter().map(|hint| hint.weight).sum();
    let part = |hint: &Hint| 1 + others * hint.weight / weights.max(1);
    let mut parts: Vec<usize> = shards.iter().map(part).collect();
    let left = max.saturating_sub(parts.iter().sum());
    parts.iter_mut().take(left).for_each(|part| *part += 1);
    parts
}

async fn claim_in(
    shared: &Shared,
    hint: Hint,
    head: &HeadCall<LeaseRequest>,
) -> Result<Vec<Firing>> {
    let max = head.request.max;
    if head.order == ClaimOrder::FirstAttempts
        || !are_retries_likely(shared, &head.request.namespace)
    {
        return Ok(claim_kinds(shared, hint, &head.request, max, max).await?.firings);
    }
    // The store returns first attempts before retries, so now and then a call claims retries only.
    let retries = claim_kinds(shared, hint, &head.request, 0, max).await?;
    if !retries.firings.is_empty() {
        return Ok(retries.firings);
    }
    Ok(claim_kinds(shared, hint, &head.request, max, max).await?.firings)
}

async fn claim_kinds(
    shared: &Shared,
    hint: Hint,
    request: &LeaseRequest,
    first_max: usize,
    retry_max: usize,
) -> Result<Claimed> {
    let shard = hint.shard;
    let lane = Lane { namespace: request.namespace.clone(), key: LaneKey::Pull };
    let claim = ClaimRequest {
        lanes: vec![LaneClaim { lane, first_max, retry_max }],
        total_max: request.max,
        bytes_max: request.bytes_max,
        owner: Owner::Consumer { lease: request.lease },
    };
    let claimed = shared.store.claim(shard, claim).await;
    walk_unless_empty(shared, shard, claimed.as_ref().is_ok_and(|claimed| claimed.nothing_else));
    let claimed = claimed?;
    if !claimed.more.is_empty() && shared.nodes.is_shared() {
        shared.pull.hints.lock().add_more(&request.namespace, hint);
    }
    let wall = shared.clock.wall();
    if let Some(next_here) = claimed.next_here
        && shared.nodes.is_shared()
    {
        let all = first_max > 0 && retry_max > 0;
        record_expected(shared, shard, &request.namespace, wall.saturating_add(next_here), all);
    }
    if let Some(next_due_in) = claimed.next_due_in {
        // The end of a lease granted here may be the next event.
        shared.waker.wake_by(shard, wall.saturating_add(next_due_in));
    }
    Ok(claimed)
}

/// Returns `true` if a call should try retries first. If the shards are on other machines, a try costs a
/// network call, so it is made only if retries were seen.
fn are_retries_likely(shared: &Shared, namespace: &NamespaceName) -> bool {
    !shared.nodes.is_shared()
        || shared.pull.hints.lock().has_retries(namespace, shared.clock.boot())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_requested_number() {
        let hint = |weight| Hint { shard: ShardId(0), weight };
        let check = |max: usize, weights: &[usize], expected: &[usize]| {
            let shards: Vec<Hint> = weights.iter().copied().map(hint).collect();
            assert_eq!(parts(max, &shards), expected, "{max} by {weights:?}");
            assert_eq!(expected.iter().sum::<usize>(), max);
        };
        check(1, &[64], &[1]);
        check(2, &[64, 1], &[1, 1]);
        check(8, &[1, 1, 1], &[3, 3, 2]);
        check(24, &[1, 1, 4], &[5, 4, 15]);
        check(1_000, &[64, 1], &[984, 16]);
    }
}
