//! The dispatch loop of one shard: claims due firings and starts their attempts.
//!
//! ```text
//!   notified ─► slots freed? ─► plan the lanes that waited for them ─► claim ─► deliver
//!      ├──────► time?        ─► pull lanes with expected firings ─► waiting lease calls
//!      └──────► due?         ─► ready, page by page ─┬─ push lanes ─► plan ─► claim ─► deliver
//!                                                    └─ pull lanes ─► waiting lease calls
//!      ◄── sleep until next_due_in, at most 1 s ─┘
//! ```
//!
//! A freed slot plans only lanes that waited for it. A walk reads the store's whole list of ready lanes.
//! The loop walks only when something became due; the longer the list, the longer the pause between two
//! walks.

use std::{sync::Arc, time::Duration};

use duly_core::{NamespaceName, destination::LaneKey, shard::ShardId};
use duly_store::{ClaimRequest, LaneClaim, Owner, ReadyCursor, ReadyLane, Result};

use crate::{
    deliver,
    lanes::{AppliedClaim, Planned},
    nodes::{AnnounceTime, ShardRole},
    phase::Phase,
    pull,
    state::{Shared, wall_after},
    waker::SLEEP_MAX,
};

/// Lanes of one page of the store's list.
const PAGE: usize = 256;
/// Pause after a store call that failed.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two walks, per lane of the last walk: it bounds the time spent on walks.
const WALK_PAUSE_PER_LANE: Duration = Duration::from_micros(2);
/// Walks of up to this many lanes need no pause.
const WALK_FREE_LANES: usize = 64;
/// Time between two polls of another node's shard for firings that were not expected.
const OTHER_SHARD_PAUSE: Duration = Duration::from_millis(250);
/// Shortest sleep: firings that become due within it are claimed together.
const SLEEP_MIN: Duration = Duration::from_micros(100);
/// Claims for waiting lanes before the loop checks for due firings again. So fast receivers with a
/// backlog delay no other lane.
const RESUMES_PER_ITERATION: usize = 4;

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>, shard: ShardId) {
    let mut state = LoopState::default();
    while shared.phases.now() == Phase::Running {
        shared.record_shard_iteration(shard);
        if let Err(error) = iterate(&shared, shard, &mut state).await {
            shared.log_store_error("ready or claim", &error);
            tokio::time::sleep(ERROR_PAUSE).await;
            shared.notifier(shard).notify_due();
        }
        tokio::select! {
            () = shared.notifier(shard).notified() => {}
            () = shared.phases.reached(Phase::Draining) => {}
        }
    }
}

/// State that one iteration of the loop leaves to the next; times are those of the boot-time clock.
#[derive(Debug, Default)]
struct LoopState {
    walk_at: Duration,
    /// Time at which the last walk began.
    walked_at: Duration,
    /// Position at which the next walk starts, if the backlog was full during the last one.
    walk_from: Option<ReadyCursor>,
    /// Number of claims so far.
    claims: u64,
}

impl LoopState {
    /// Returns the index of the lane, of `count`, with which the next claim begins. A claim ends when
    /// its bytes are used up, so each lane must come first at times. Steps of the golden ratio ensure
    /// this even if claims of different kinds alternate.
    fn first_index(&mut self, count: usize) -> usize {
        self.claims = self.claims.wrapping_add(1);
        let spread = self.claims.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        usize::try_from(spread).unwrap_or(0) % count.max(1)
    }
}

/// The findings of one iteration.
#[derive(Debug, Default)]
struct IterationResult {
    lanes: usize,
    next_due_in: Option<Duration>,
    poll_again: bool,
}

impl IterationResult {
    fn lower_next_due(&mut self, next_due_in: Option<Duration>) {
        self.next_due_in = self.next_due_in.into_iter().chain(next_due_in).min();
    }
}

async fn iterate(shared: &Arc<Shared>, shard: ShardId, state: &mut LoopState) -> Result<()> {
    let mut result = IterationResult::default();
    match shared.nodes.shard_role(shard, shared.clock.boot()) {
        ShardRole::Owner => {}
        ShardRole::OtherOwner => return poll_other_shard(shared, shard, state).await,
        // The loop is notified when heartbeats are acknowledged again.
        ShardRole::Inactive => return Ok(()),
    }
    resume(shared, shard, &mut result, state).await?;
    let timed = shared.notifier(shard).take_timed();
    let mut due = shared.notifier(shard).take_due() || result.poll_again;
    if timed && !due {
        let expected = pull::take_expected(shared, shard);
        let left = state.walked_at.saturating_add(SLEEP_MAX).saturating_sub(shared.clock.boot());
        let served = |namespace| shared.pull.waiters.lock().is_waited_for(namespace);
        if expected.is_empty() || left.is_zero() || !expected.iter().all(served) {
            due = true;
        } else {
            // The claim reports whether the shard has anything else.
            for namespace in &expected {
                pull::ready_unwalked(shared, shard, namespace);
            }
            result.lower_next_due(Some(left));
        }
    }
    let too_soon = state.walk_at.saturating_sub(shared.clock.boot());
    if due && too_soon.is_zero() {
        result.poll_again = false;
        state.walked_at = shared.clock.boot();
        walk(shared, shard, &mut result, state).await?;
        resume(shared, shard, &mut result, state).await?;
        result.lower_next_due(Some(SLEEP_MAX));
        if result.lanes > WALK_FREE_LANES {
            let lanes = u32::try_from(result.lanes).unwrap_or(u32::MAX);
            state.walk_at = shared.clock.boot() + WALK_PAUSE_PER_LANE.saturating_mul(lanes);
        }
        // A walk that stopped because the backlog was full continues as soon as it may.
        if result.poll_again || state.walk_from.is_some() {
            shared.notifier(shard).notify_due();
        }
    } else if due {
        result.lower_next_due(Some(too_soon));
    }
    let boot = shared.clock.boot();
    let (next_at, has_requests) = {
        let lanes = shared.pools.webhooks();
        (lanes.next_at(shard), lanes.has_urgent_requests())
    };
    if has_requests {
        shared.urgent_requests.notify_one();
    }
    result.lower_next_due(next_at.map(|at| at.saturating_sub(boot)));
    if let Some(next_due_in) = result.next_due_in {
        let sleep = next_due_in.max(SLEEP_MIN);
        shared.waker.wake_by(shard, wall_after(&*shared.clock, sleep));
    }
    Ok(())
}

/// Polls a shard of another node for the lease calls that wait here. It serves the namespaces that
/// claimed there last when they expect a firing. Now and then it polls for all namespaces, in case an
/// announcement was lost.
async fn poll_other_shard(
    shared: &Arc<Shared>,
    shard: ShardId,
    state: &mut LoopState,
) -> Result<()> {
    let timed = shared.notifier(shard).take_timed();
    let mut due = shared.notifier(shard).take_due();
    if timed {
        // The owner of the shard does not know the claims that were made here, nor the time of the next
        // firing. So the node that claimed announces that firing, even if no call waits here any more.
        let expected = pull::take_expected(shared, shard);
        for namespace in &expected {
            if !shared.pull.waiters.lock().is_waited_for(namespace)
                && let Some(wait) = announce(shared, shard, namespace)
            {
                let wall = wall_after(&*shared.clock, wait);
                pull::record_expected(shared, shard, namespace, wall, false);
            }
            // The next lease call that arrives tries this shard first.
            pull::ready(shared, shard, namespace);
        }
        // Other events, such as the end of a lease that was granted here.
        let left =
            state.walked_at.saturating_add(OTHER_SHARD_PAUSE).saturating_sub(shared.clock.boot());
        if expected.is_empty() && left.is_zero() {
            due = true;
        } else if expected.is_empty() {
            shared.waker.wake_by(shard, wall_after(&*shared.clock, left));
        }
    }
    if !due || shared.pull.waiting() == 0 {
        return Ok(());
    }
    state.walked_at = shared.clock.boot();
    let mut after = None;
    while shared.phases.now() == Phase::Running {
        let page = shared.store.ready(shard, after, PAGE).await?;
        shared.record_shard_iteration(shard);
        for ready in page.lanes.iter().filter(|ready| ready.lane.key == LaneKey::Pull) {
            serve_pull_lane(shared, shard, ready);
        }
        after = page.cursor;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

/// Announces a namespace with claimable firings to the waiting lease calls of other nodes. Returns the wait
/// until it may be announced, if it was announced just before.
fn announce(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName) -> Option<Duration> {
    match shared.nodes.announce_time(shard, namespace, shared.clock.boot()) {
        AnnounceTime::Never => None,
        AnnounceTime::In(wait) => Some(wait),
        AnnounceTime::Now => {
            let (shared, namespace) = (Arc::clone(shared), namespace.clone());
            tokio::spawn(async move {
                let Some(deployment) = shared.store.deployment() else { return };
                if let Err(error) = deployment.announce(shard, namespace).await {
                    shared.log_store_error("announce", &error);
                }
            });
            None
        }
    }
}

/// Serves a pull lane that has claimable firings.
fn serve_pull_lane(shared: &Arc<Shared>, shard: ShardId, ready: &ReadyLane) {
    if ready.retry > 0 {
        pull::record_retries(shared, &ready.lane.namespace);
    }
    pull::ready(shared, shard, &ready.lane.namespace);
}

/// Walks the store's list of ready lanes and serves them. If the backlog becomes full the walk stops,
/// and the next walk continues from there.
async fn walk(
    shared: &Arc<Shared>,
    shard: ShardId,
    result: &mut IterationResult,
    state: &mut LoopState,
) -> Result<()> {
    let mut after = state.walk_from.take();
    while shared.phases.now() == Phase::Running {
        let page = shared.store.ready(shard, after, PAGE).await?;
        shared.record_shard_iteration(shard);
        result.lower_next_due(page.next_due_in);
        result.lanes += page.lanes.len();
        let mut push = Vec::new();
        for ready in page.lanes {
            match &ready.lane.key {
                LaneKey::Pull => {
                    serve_pull_lane(shared, shard, &ready);
                    result.lower_next_due(announce(shared, shard, &ready.lane.namespace));
                }
                LaneKey::Receiver(_) | LaneKey::Overflow => push.push(ready),
            }
        }
        let boot = shared.clock.boot();
        let planned = shared.pools.webhooks().plan(shard, push, boot);
        claim(shared, shard, planned, result, state).await?;
        after = page.cursor;
        if after.is_none() {
            return Ok(());
        }
        if shared.pools.webhooks().is_full(shard) {
            state.walk_from = after;
            return Ok(());
        }
    }
    Ok(())
}

/// Claims for lanes that waited for a slot, as long as there is something to claim, but at most
/// [`RESUMES_PER_ITERATION`] times.
async fn resume(
    shared: &Arc<Shared>,
    shard: ShardId,
    result: &mut IterationResult,
    state: &mut LoopState,
) -> Result<()> {
    for _ in 0..RESUMES_PER_ITERATION {
        if shared.phases.now() != Phase::Running {
            return Ok(());
        }
        let boot = shared.clock.boot();
        let planned = shared.pools.webhooks().plan_waiting(shard, boot);
        if planned.is_empty() {
            return Ok(());
        }
        claim(shared, shard, planned, result, state).await?;
    }
    shared.notifier(shard).notify_slot_freed();
    Ok(())
}

/// Claims the planned firings, and starts their attempts.
async fn claim(
    shared: &Arc<Shared>,
    shard: ShardId,
    mut planned: Vec<Planned>,
    result: &mut IterationResult,
    state: &mut LoopState,
) -> Result<()> {
    if planned.is_empty() {
        return Ok(());
    }
    // Sorted by name, so that the rotation does not depend on the order of planning.
    planned.sort_unstable_by(|a, b| a.claim.lane.cmp(&b.claim.lane));
    let first = state.first_index(planned.len());
    planned.rotate_left(first);
    let lanes: Vec<LaneClaim> = planned.iter().map(|planned| planned.claim.clone()).collect();
    let mut reserved = ReservedSlots { shared, planned };
    // A drain that started before the slots were reserved may not see them. A drain that starts later
    // waits for them. So this check must follow the reservation; otherwise a draining node could claim.
    if shared.phases.now() != Phase::Running {
        return Ok(());
    }
    let member_id = shared.nodes.member_id();
    let bytes_max = shared.pools.webhooks().claim_bytes().min(shared.options.claim_bytes_max);
    let request = ClaimRequest {
        total_max: lanes.iter().map(|c| c.first_max + c.retry_max).sum(),
        lanes,
        bytes_max,
        owner: Owner::Node(member_id),
    };
    let sent_at = shared.clock.boot();
    if !shared.nodes.may_send(member_id, sent_at) {
        return Ok(());
    }
    let claimed =
        shared.nodes.rejoin_if_evicted(member_id, shared.store.claim(shard, request).await)?;
    shared.record_shard_iteration(shard);
    result.lower_next_due(claimed.next_due_in);
    let planned = std::mem::take(&mut reserved.planned);
    let boot = shared.clock.boot();
    let granted = shared.pools.webhooks().apply_claim(shard, &planned, claimed, boot);
    // A drain may wait for the slots that were released.
    shared.drain_progress.notify_waiters();
    let AppliedClaim { excess, firings, poll_again } = granted;
    result.poll_again |= poll_again;
    for (firing, permit) in firings {
        deliver::start(shared, firing, permit, deliver::ClaimContext { member_id, sent_at });
    }
    for firing in excess {
        shared.release_later(firing.token, firing.namespace);
    }
    Ok(())
}

/// Slots that are reserved for a claim under way. They are released if the claim fails, and if the loop
/// is stopped during the claim.
struct ReservedSlots<'a> {
    shared: &'a Shared,
    planned: Vec<Planned>,
}

impl Drop for ReservedSlots<'_> {
    fn drop(&mut self) {
        if !self.planned.is_empty() {
            self.shared.pools.webhooks().unplan(&self.planned, self.shared.clock.boot());
            self.shared.drain_progress.notify_waiters();
        }
    }
}

/// Forwards the store's wake-ups of a shard to its loop.
pub(crate) async fn forward_wakeups(shared: Arc<Shared>, shard: ShardId) {
    let mut wakeups = shared.store.wakeups(shard);
    while shared.phases.now() == Phase::Running {
        tokio::select! {
            changed = wakeups.changed() => match changed {
                Ok(()) if shared.nodes.shard_role(shard, shared.clock.boot()) == ShardRole::OtherOwner => {}
                Ok(()) => shared.notifier(shard).notify_due(),
                // The store is gone; the loop learns that from its own calls.
                Err(_) => return,
            },
            () = shared.phases.reached(Phase::Draining) => {}
        }
    }
}
