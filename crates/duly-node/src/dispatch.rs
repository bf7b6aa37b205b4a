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
    lanes::{Granted, Planned},
    nodes::{Part, When},
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
const VISIT_PAUSE: Duration = Duration::from_millis(250);
/// Shortest sleep: firings that become due within it are claimed together.
const SLEEP_MIN: Duration = Duration::from_micros(100);
/// Claims for waiting lanes before the loop checks for due firings again. So fast receivers with a
/// backlog delay no other lane.
const RESUMES_PER_LOOK: usize = 4;

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>, shard: ShardId) {
    let mut times = Times::default();
    while shared.phases.now() == Phase::Running {
        shared.shard_turned(shard);
        if let Err(error) = turn(&shared, shard, &mut times).await {
            shared.log_store_error("ready or claim", &error);
            tokio::time::sleep(ERROR_PAUSE).await;
            shared.bell(shard).ring_due();
        }
        tokio::select! {
            () = shared.bell(shard).rung() => {}
            () = shared.phases.reached(Phase::Draining) => {}
        }
    }
}

/// State that one iteration of the loop leaves to the next; times are those of the boot-time clock.
#[derive(Debug, Default)]
struct Times {
    walk_at: Duration,
    /// Time at which the last walk began.
    walked_at: Duration,
    /// Position at which the next walk starts, if the backlog was full during the last one.
    walk_from: Option<ReadyCursor>,
    /// Number of claims so far.
    claims: u64,
}

impl Times {
    /// Returns the index of the lane, of `count`, with which the next claim begins. A claim ends when
    /// its bytes are used up, so each lane must come first at times. Steps of the golden ratio ensure
    /// this even if claims of different kinds alternate.
    fn begin_with(&mut self, count: usize) -> usize {
        self.claims = self.claims.wrapping_add(1);
        let spread = self.claims.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        usize::try_from(spread).unwrap_or(0) % count.max(1)
    }
}

/// The findings of one iteration.
#[derive(Debug, Default)]
struct Found {
    lanes: usize,
    next_due_in: Option<Duration>,
    look_again: bool,
}

impl Found {
    fn sooner(&mut self, next_due_in: Option<Duration>) {
        self.next_due_in = match (self.next_due_in, next_due_in) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

async fn turn(shared: &Arc<Shared>, shard: ShardId, times: &mut Times) -> Result<()> {
    let mut found = Found::default();
    match shared.nodes.part(shard, shared.clock.boot()) {
        Part::Ours => {}
        Part::Others => return visit(shared, shard, times).await,
        // The loop is notified when heartbeats are acknowledged again.
        Part::None => return Ok(()),
    }
    resume(shared, shard, &mut found, times).await?;
    let timed = shared.bell(shard).take_timed();
    let mut due = shared.bell(shard).take_due() || found.look_again;
    if timed && !due {
        let expected = pull::take_expected(shared, shard);
        let left = times.walked_at.saturating_add(SLEEP_MAX).saturating_sub(shared.clock.boot());
        let served = |namespace| shared.pull.is_waited_for(namespace);
        if expected.is_empty() || left.is_zero() || !expected.iter().all(served) {
            due = true;
        } else {
            // The claim reports whether the shard has anything else.
            for namespace in &expected {
                pull::ready_unwalked(shared, shard, namespace);
            }
            found.sooner(Some(left));
        }
    }
    let too_soon = times.walk_at.saturating_sub(shared.clock.boot());
    if due && too_soon.is_zero() {
        found.look_again = false;
        times.walked_at = shared.clock.boot();
        walk(shared, shard, &mut found, times).await?;
        resume(shared, shard, &mut found, times).await?;
        found.sooner(Some(SLEEP_MAX));
        if found.lanes > WALK_FREE_LANES {
            let lanes = u32::try_from(found.lanes).unwrap_or(u32::MAX);
            times.walk_at = shared.clock.boot() + WALK_PAUSE_PER_LANE.saturating_mul(lanes);
        }
        // A walk that stopped because the backlog was full continues as soon as it may.
        if found.look_again || times.walk_from.is_some() {
            shared.bell(shard).ring_due();
        }
    } else if due {
        found.sooner(Some(too_soon));
    }
    let boot = shared.clock.boot();
    let (next_at, asks) = {
        let lanes = shared.lanes.lock();
        (lanes.next_at(shard), lanes.asks_now())
    };
    if asks {
        shared.asks.notify_one();
    }
    found.sooner(next_at.map(|at| at.saturating_sub(boot)));
    if let Some(next_due_in) = found.next_due_in {
        let sleep = next_due_in.max(SLEEP_MIN);
        shared.waker.wake_by(shard, wall_after(&*shared.clock, sleep));
    }
    Ok(())
}

/// Polls a shard of another node for the lease calls that wait here. It serves the namespaces that
/// claimed there last when they expect a firing. Now and then it polls for all namespaces, in case an
/// announcement was lost.
async fn visit(shared: &Arc<Shared>, shard: ShardId, times: &mut Times) -> Result<()> {
    let timed = shared.bell(shard).take_timed();
    let mut due = shared.bell(shard).take_due();
    if timed {
        // The owner of the shard does not know the claims that were made here, nor the time of the next
        // firing. So the node that claimed announces that firing, even if no call waits here any more.
        let expected = pull::take_expected(shared, shard);
        for namespace in &expected {
            if !shared.pull.is_waited_for(namespace) {
                pass_on(shared, shard, namespace);
            }
            // The next lease call that arrives tries this shard first.
            pull::ready(shared, shard, namespace);
        }
        // Other events, such as the end of a lease that was granted here.
        let left = times.walked_at.saturating_add(VISIT_PAUSE).saturating_sub(shared.clock.boot());
        if expected.is_empty() && left.is_zero() {
            due = true;
        } else if expected.is_empty() {
            shared.waker.wake_by(shard, wall_after(&*shared.clock, left));
        }
    }
    if !due || shared.pull.waiting() == 0 {
        return Ok(());
    }
    times.walked_at = shared.clock.boot();
    let mut after = None;
    while shared.phases.now() == Phase::Running {
        let page = shared.store.ready(shard, after, PAGE).await?;
        shared.shard_turned(shard);
        for ready in page.lanes.iter().filter(|ready| ready.lane.key == LaneKey::Pull) {
            see(shared, shard, ready);
        }
        after = page.cursor;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

/// Announces a namespace with claimable firings to the waiting lease calls of other nodes.
fn announce(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName, found: &mut Found) {
    match shared.nodes.announces(shard, namespace, shared.clock.boot()) {
        When::Never => {}
        When::In(wait) => found.sooner(Some(wait)),
        When::Now => {
            let (shared, namespace) = (Arc::clone(shared), namespace.clone());
            tokio::spawn(async move {
                let Some(deployment) = shared.store.deployment() else { return };
                if let Err(error) = deployment.announce(shard, namespace).await {
                    shared.log_store_error("announce", &error);
                }
            });
        }
    }
}

/// Serves a pull lane that has claimable firings.
fn see(shared: &Arc<Shared>, shard: ShardId, ready: &ReadyLane) {
    if ready.retry > 0 {
        pull::saw_retries(shared, &ready.lane.namespace);
    }
    pull::ready(shared, shard, &ready.lane.namespace);
}

/// Announces to other nodes a firing that this node's last claim predicted.
fn pass_on(shared: &Arc<Shared>, shard: ShardId, namespace: &NamespaceName) {
    let mut found = Found::default();
    announce(shared, shard, namespace, &mut found);
    if let Some(wait) = found.next_due_in {
        pull::expect(shared, shard, namespace, wall_after(&*shared.clock, wait), false);
    }
}

/// Walks the store's list of ready lanes and serves them. If the backlog becomes full the walk stops,
/// and the next walk continues from there.
async fn walk(
    shared: &Arc<Shared>,
    shard: ShardId,
    found: &mut Found,
    times: &mut Times,
) -> Result<()> {
    let mut after = times.walk_from.take();
    while shared.phases.now() == Phase::Running {
        let page = shared.store.ready(shard, after, PAGE).await?;
        shared.shard_turned(shard);
        found.sooner(page.next_due_in);
        found.lanes += page.lanes.len();
        let mut push = Vec::new();
        for ready in page.lanes {
            match &ready.lane.key {
                LaneKey::Pull => {
                    see(shared, shard, &ready);
                    announce(shared, shard, &ready.lane.namespace, found);
                }
                LaneKey::Origin(_) | LaneKey::Overflow => push.push(ready),
            }
        }
        let boot = shared.clock.boot();
        let planned = shared.lanes.lock().plan(shard, push, boot);
        claim(shared, shard, planned, found, times).await?;
        after = page.cursor;
        if after.is_none() {
            return Ok(());
        }
        if shared.lanes.lock().is_full(shard) {
            times.walk_from = after;
            return Ok(());
        }
    }
    Ok(())
}

/// Claims for lanes that waited for a slot, as long as there is something to claim, but at most
/// [`RESUMES_PER_LOOK`] times.
async fn resume(
    shared: &Arc<Shared>,
    shard: ShardId,
    found: &mut Found,
    times: &mut Times,
) -> Result<()> {
    for _ in 0..RESUMES_PER_LOOK {
        if shared.phases.now() != Phase::Running {
            return Ok(());
        }
        let boot = shared.clock.boot();
        let planned = shared.lanes.lock().plan_waiting(shard, boot);
        if planned.is_empty() {
            return Ok(());
        }
        claim(shared, shard, planned, found, times).await?;
    }
    shared.bell(shard).ring_freed();
    Ok(())
}

/// Claims the planned firings, and starts their attempts.
async fn claim(
    shared: &Arc<Shared>,
    shard: ShardId,
    mut planned: Vec<Planned>,
    found: &mut Found,
    times: &mut Times,
) -> Result<()> {
    if planned.is_empty() {
        return Ok(());
    }
    // Sorted by name, so that the rotation does not depend on the order of planning.
    planned.sort_unstable_by(|a, b| a.claim.lane.cmp(&b.claim.lane));
    let first = times.begin_with(planned.len());
    planned.rotate_left(first);
    let lanes: Vec<LaneClaim> = planned.iter().map(|planned| planned.claim.clone()).collect();
    let mut held = Held { shared, planned };
    // A drain that started before the slots were reserved may not see them. A drain that starts later
    // waits for them. So this check must follow the reservation; otherwise a draining node could claim.
    if shared.phases.now() != Phase::Running {
        return Ok(());
    }
    let run = shared.nodes.run();
    let bytes_max = shared.lanes.lock().claim_bytes().min(shared.options.claim_bytes_max);
    let request = ClaimRequest {
        total_max: lanes.iter().map(|c| c.first_max + c.retry_max).sum(),
        lanes,
        bytes_max,
        owner: Owner::Node(run),
    };
    let sent_at = shared.clock.boot();
    if !shared.nodes.may_send(run, sent_at) {
        return Ok(());
    }
    let claimed = shared.nodes.heed(run, shared.store.claim(shard, request).await)?;
    shared.shard_turned(shard);
    found.sooner(claimed.next_due_in);
    let planned = std::mem::take(&mut held.planned);
    let boot = shared.clock.boot();
    let granted = shared.lanes.lock().granted(shard, &planned, claimed, boot);
    // A drain may wait for the slots that were released.
    shared.quieter.notify_waiters();
    let Granted { excess, firings, look_again } = granted;
    found.look_again |= look_again;
    for (firing, permit) in firings {
        deliver::start(shared, firing, permit, deliver::Claimed { run, sent_at });
    }
    for firing in excess {
        shared.release_later(firing.token, firing.namespace);
    }
    Ok(())
}

/// Slots that are reserved for a claim under way. They are released if the claim fails, and if the loop
/// is stopped during the claim.
struct Held<'a> {
    shared: &'a Shared,
    planned: Vec<Planned>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.planned.is_empty() {
            self.shared.lanes.lock().unplan(&self.planned, self.shared.clock.boot());
            self.shared.quieter.notify_waiters();
        }
    }
}

/// Forwards the store's wake-ups of a shard to its loop.
pub(crate) async fn listen(shared: Arc<Shared>, shard: ShardId) {
    let mut wakeups = shared.store.wakeups(shard);
    while shared.phases.now() == Phase::Running {
        tokio::select! {
            changed = wakeups.changed() => match changed {
                Ok(()) if shared.nodes.part(shard, shared.clock.boot()) == Part::Others => {}
                Ok(()) => shared.bell(shard).ring_due(),
                // The store is gone; the loop learns that from its own calls.
                Err(_) => return,
            },
            () = shared.phases.reached(Phase::Draining) => {}
        }
    }
}
