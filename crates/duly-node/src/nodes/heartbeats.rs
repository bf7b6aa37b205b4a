//! The heartbeat loops, one for each coordinator shard, and the actions that follow from the replies.

use std::{sync::Arc, time::Duration};

use duly_core::shard::ShardId;
use duly_store::{
    Deployment, MemberId,
    deployment::{Heartbeat, HeartbeatReply, MembershipStage, NamespaceFilter},
};
use futures::{
    StreamExt,
    future::{join_all, select_all},
    stream,
};
use parking_lot::Mutex;
use tokio::{
    sync::{broadcast, watch},
    time::timeout,
};

use super::{
    ShardRole,
    membership::{ACTS_FOR, HEARTBEAT_INTERVAL, Membership, MembershipChanges, RejoinReason},
    new_member_id,
};
use crate::{phase::Phase, pull, state::Shared};

/// Time-out of a heartbeat.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(1);
/// Shortest time between two heartbeats at one shard.
const HEARTBEAT_INTERVAL_MIN: Duration = Duration::from_millis(20);
/// Time between two polls of other nodes' shards while lease calls wait here.
const POLL_OTHERS_EVERY: Duration = Duration::from_secs(1);
/// Time between two queries for the holders of leases in our shards.
const HOLDERS_EVERY: Duration = Duration::from_secs(30);
/// Time between two updates of progress counters. A rollback is reported only if it is longer.
const PROGRESS_EVERY: Duration = Duration::from_secs(2);
/// Shards that are queried at the same time.
const AT_ONCE: usize = 16;

/// Runs the heartbeat loops until the node has left. Returns at once if the store is not shared.
pub(crate) async fn run(shared: Arc<Shared>) {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return;
    };
    let heartbeats = HeartbeatLoops {
        shared: &shared,
        deployment,
        nodes,
        suspects: Suspects::default(),
        polled: Mutex::default(),
    };
    while shared.phases.now() != Phase::Left {
        let list = deployment.coordinators();
        heartbeats.log_rejoin(nodes.lock().switch_list(list.clone(), new_member_id()));
        // A shard that hangs delays no other. All loops end when one sees that the list has changed.
        // `select_all` needs at least one shard, and there is one.
        let loops =
            list.shards.iter().map(|shard| Box::pin(heartbeats.run_for(*shard, list.version)));
        select_all(loops).await;
    }
}

/// The state that the loops of one node share.
struct HeartbeatLoops<'a> {
    shared: &'a Arc<Shared>,
    deployment: &'a dyn Deployment,
    nodes: &'a Mutex<Membership>,
    suspects: Suspects,
    polled: Mutex<PollTimes>,
}

/// The times at which shards were last polled.
#[derive(Debug, Default)]
struct PollTimes {
    others_at: Duration,
    holders_at: Option<Duration>,
}

impl HeartbeatLoops<'_> {
    /// Sends heartbeats to one coordinator shard, until the node has left or the list has changed.
    async fn run_for(&self, shard: ShardId, list: u64) {
        let mut now = self.shared.nodes.send_now.subscribe();
        while self.shared.phases.now() != Phase::Left
            && self.deployment.coordinators().version == list
        {
            let sent_at = self.shared.clock.boot();
            now.mark_unchanged();
            if !self.heartbeat(shard, sent_at).await {
                self.pause(sent_at, &mut now).await;
            }
        }
    }

    /// Sends a heartbeat and applies the reply; returns `true` if the next must be sent at once.
    async fn heartbeat(&self, shard: ShardId, sent_at: Duration) -> bool {
        let Self { shared, nodes, .. } = self;
        if shared.phases.now() != Phase::Running {
            nodes.lock().leave();
        }
        let waits = shared.pull.waiters.lock().waited_for();
        let waits = shared.nodes.announced.lock().interest(waits, sent_at);
        let (sent, heartbeat) =
            nodes.lock().heartbeat(shard, sent_at, &shared.nodes.name, waits.clone());
        let mut is_new_wait = false;
        let mut is_acknowledged = false;
        if let Some(reply) = send_heartbeat(shared, self.deployment, shard, heartbeat).await {
            is_acknowledged = matches!(reply, HeartbeatReply::Members { .. });
            let now = shared.clock.boot();
            let (changes, list) = {
                let mut nodes = nodes.lock();
                (nodes.on_reply(sent, now, reply), nodes.list().clone())
            };
            if is_acknowledged {
                is_new_wait =
                    shared.nodes.announced.lock().on_acknowledged(shard, &list, waits, now);
            }
            self.apply_changes(changes, now);
        }
        self.log_rejoin(nodes.lock().rejoin_if_due(shared.clock.boot(), new_member_id()));
        self.poll_shards(sent_at, is_new_wait);
        // Dead members are named at once.
        is_acknowledged && nodes.lock().has_dead(shard)
    }

    /// Waits until the next heartbeat; shorter if it was requested at once.
    async fn pause(&self, sent_at: Duration, now: &mut watch::Receiver<()>) {
        let since = || self.shared.clock.boot().saturating_sub(sent_at);
        tokio::select! {
            () = tokio::time::sleep(HEARTBEAT_INTERVAL.saturating_sub(since())) => {}
            _ = now.changed() => tokio::time::sleep(HEARTBEAT_INTERVAL_MIN.saturating_sub(since())).await,
        }
    }

    /// Starts the actions that follow from a reply.
    fn apply_changes(&self, changes: MembershipChanges, now: Duration) {
        let MembershipChanges { gone, gained, lost, joined, acts_again } = changes;
        if !gone.is_empty() || !joined.is_empty() || !gained.is_empty() || lost > 0 {
            let (gained, lost) = (gained.len(), lost);
            let name = |member: &MemberId| format!("{:016x}", member.0);
            let joined: Vec<_> = joined.iter().map(name).collect();
            let left: Vec<_> = gone.iter().map(name).collect();
            tracing::info!(?joined, ?left, gained, lost, "members of the deployment have changed");
        }
        let ours = self.shared.shards_as(ShardRole::Owner, now);
        let ended: Vec<_> =
            ours.flat_map(|shard| gone.iter().map(move |member| (shard, *member))).collect();
        if !ended.is_empty() {
            tokio::spawn(release_leases(Arc::clone(self.shared), ended));
        }
        if acts_again {
            self.shared.notify_all_shards();
            // The other nodes give us shards when they receive it.
            self.shared.nodes.send_heartbeats_now();
        }
        for shard in &gained {
            self.shared.notifier(*shard).notify_due();
        }
        self.suspects.request(gained);
        self.suspects.query_holders(self.shared);
    }

    /// Polls shards now and then: for calls that wait here, and for holders of leases.
    fn poll_shards(&self, now: Duration, is_new_wait: bool) {
        let mut polled = self.polled.lock();
        let every = if is_new_wait { HEARTBEAT_INTERVAL } else { POLL_OTHERS_EVERY };
        if self.shared.pull.waiting() > 0 && now.saturating_sub(polled.others_at) >= every {
            polled.others_at = now;
            for shard in self.shared.shards_as(ShardRole::OtherOwner, now) {
                self.shared.notifier(shard).notify_due();
            }
        }
        if polled.holders_at.is_none_or(|at| now.saturating_sub(at) >= HOLDERS_EVERY) {
            polled.holders_at = Some(now);
            self.suspects.request(self.shared.shards());
        }
    }

    /// Logs that the node rejoins.
    fn log_rejoin(&self, reason: Option<RejoinReason>) {
        let Some(reason) = reason else { return };
        let reason = match reason {
            RejoinReason::Evicted => {
                "a majority of the coordinator shards evicted it (heartbeat timeout)"
            }
            RejoinReason::EvictedByMinority => {
                "a minority of the coordinator shards evicted it (heartbeat timeout)"
            }
            RejoinReason::Idle => {
                "no majority of the coordinator shards acknowledged its heartbeats for a minute"
            }
            RejoinReason::NewList => "the list of coordinator shards has changed",
        };
        tracing::warn!(why = reason, "node rejoins with a new member id");
        self.shared.nodes.announce_waits_again();
    }
}

/// Sends a heartbeat; returns `None` if the shard did not reply in time.
async fn send_heartbeat(
    shared: &Shared,
    deployment: &dyn Deployment,
    shard: ShardId,
    heartbeat: Heartbeat,
) -> Option<HeartbeatReply> {
    match timeout(HEARTBEAT_TIMEOUT, deployment.heartbeat(shard, heartbeat)).await {
        Ok(Ok(reply)) => Some(reply),
        Ok(Err(error)) => {
            shared.log_store_error("heartbeat", &error);
            None
        }
        Err(_elapsed) => None,
    }
}

/// Announces that this node has left and holds nothing any more.
pub(crate) async fn leave(shared: &Shared) {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return;
    };
    let now = shared.clock.boot();
    let farewells: Vec<_> = {
        let mut nodes = nodes.lock();
        let shards = nodes.list().shards.clone();
        let heartbeat = |shard| {
            let (_sent, heartbeat) =
                nodes.heartbeat(shard, now, &shared.nodes.name, NamespaceFilter::default());
            (shard, Heartbeat { presence: MembershipStage::Left, dead: Vec::new(), ..heartbeat })
        };
        shards.into_iter().map(heartbeat).collect()
    };
    // If a shard does not receive it, the others evict this node after its time-out.
    let sent =
        farewells.into_iter().map(|(shard, left)| send_heartbeat(shared, deployment, shard, left));
    join_all(sent).await;
}

async fn release_leases(shared: Arc<Shared>, ended: Vec<(ShardId, MemberId)>) {
    stream::iter(ended)
        .for_each_concurrent(AT_ONCE, async |(shard, member)| {
            match shared.store.release_owner(shard, member).await {
                Ok(0) => {}
                Ok(released) => {
                    tracing::info!(
                        shard = shard.0,
                        released,
                        "leases of an evicted node were ended; its firings are due again"
                    );
                }
                // The next query for the holders of leases finds them.
                Err(error) => shared.log_store_error("release leases of an evicted node", &error),
            }
            shared.notifier(shard).notify_due();
        })
        .await;
}

/// Advances the progress counters of this node's shards, until the node drains. With them a store detects that
/// a shard was rolled back. Returns at once if the store is not shared.
pub(crate) async fn advance_progress(shared: Arc<Shared>) {
    let Some(deployment) = shared.store.deployment() else {
        return;
    };
    while shared.phases.sleep(PROGRESS_EVERY).await {
        let ours = shared.shards_as(ShardRole::Owner, shared.clock.boot()).collect();
        if let Err(error) = deployment.note_progress(ours).await {
            shared.log_store_error("progress of shards", &error);
        }
    }
}

/// Forwards the announcements of other nodes to the calls that wait here.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let Some(deployment) = shared.store.deployment() else {
        return;
    };
    let mut announcements = deployment.announcements();
    loop {
        tokio::select! {
            announced = announcements.recv() => match announced {
                Ok((shard, namespace)) => pull::ready(&shared, shard, &namespace),
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    // Announcements were lost.
                    shared.nodes.announced.lock().drop_announced();
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = shared.phases.reached(Phase::Draining) => return,
        }
    }
}

/// Shards to query for holders of leases that are no members, so that their leases can be ended.
///
/// Shards are queried concurrently to the heartbeats, so one that does not reply stops no heartbeat. A
/// holder that is no member is watched like a member that stalls: it is gone when a majority of the
/// coordinator shards has evicted it.
#[derive(Debug, Default)]
struct Suspects(Arc<Mutex<QueryState>>);

#[derive(Debug, Default)]
struct QueryState {
    wanted: Vec<ShardId>,
    is_querying: bool,
}

impl Suspects {
    fn request(&self, shards: impl IntoIterator<Item = ShardId>) {
        self.0.lock().wanted.extend(shards);
    }

    /// Starts to query the holders of leases in those of the wanted shards that this node owns.
    fn query_holders(&self, shared: &Arc<Shared>) {
        let mut wanted = {
            let mut state = self.0.lock();
            if state.wanted.is_empty() || state.is_querying {
                return;
            }
            state.is_querying = true;
            std::mem::take(&mut state.wanted)
        };
        wanted.sort_unstable();
        wanted.dedup();
        let now = shared.clock.boot();
        wanted.retain(|shard| shared.nodes.shard_role(*shard, now) == ShardRole::Owner);
        let (shared, state) = (Arc::clone(shared), Arc::clone(&self.0));
        tokio::spawn(async move {
            let unanswered = suspect_holders(wanted, &shared).await;
            let mut state = state.lock();
            state.is_querying = false;
            state.wanted.extend(unanswered);
        });
    }
}

/// Watches the holders of leases in these shards; returns the shards that did not reply.
async fn suspect_holders(wanted: Vec<ShardId>, shared: &Shared) -> Vec<ShardId> {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return Vec::new();
    };
    let queries = stream::iter(wanted).map(async |shard| {
        let Ok(Ok(holders)) = timeout(ACTS_FOR, deployment.holders(shard)).await else {
            return Some(shard);
        };
        let mut nodes = nodes.lock();
        for holder in holders {
            nodes.suspect(holder);
        }
        None
    });
    queries.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}
