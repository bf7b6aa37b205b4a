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
    Part, fresh_run,
    membership::{BEAT_EVERY, Changes, Membership, Rejoin},
    suspects::Suspects,
};
use crate::{phase::Phase, pull, state::Shared};

/// Time-out of a heartbeat.
const BEAT_WITHIN: Duration = Duration::from_secs(1);
/// Shortest time between two heartbeats at one shard.
const BEAT_PAUSE: Duration = Duration::from_millis(20);
/// Time between two polls of other nodes' shards while lease calls wait here.
const STRANGERS_EVERY: Duration = Duration::from_secs(1);
/// Time between two queries for the holders of leases in our shards.
const HOLDERS_EVERY: Duration = Duration::from_secs(30);
/// Shards that are queried at the same time.
pub(super) const AT_ONCE: usize = 16;

/// Runs the heartbeat loops until the node has left. Returns at once if the store is not shared.
pub(crate) async fn run(shared: Arc<Shared>) {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return;
    };
    let beats = Beats {
        shared: &shared,
        deployment,
        nodes,
        suspects: Suspects::default(),
        looked: Mutex::default(),
    };
    while shared.phases.now() != Phase::Left {
        let list = deployment.coordinators();
        beats.rejoined(nodes.lock().follow(list.clone(), fresh_run()));
        // A shard that hangs delays no other. All loops end when one sees that the list has changed.
        // `select_all` needs at least one shard, and there is one.
        let loops = list.shards.iter().map(|shard| Box::pin(beats.at(*shard, list.version)));
        select_all(loops).await;
    }
}

/// The state that the loops of one node share.
struct Beats<'a> {
    shared: &'a Arc<Shared>,
    deployment: &'a dyn Deployment,
    nodes: &'a Mutex<Membership>,
    suspects: Suspects,
    looked: Mutex<Looked>,
}

/// The times at which shards were last polled.
#[derive(Debug, Default)]
struct Looked {
    strangers_at: Duration,
    holders_at: Option<Duration>,
}

impl Beats<'_> {
    /// Sends heartbeats to one coordinator shard, until the node has left or the list has changed.
    async fn at(&self, shard: ShardId, list: u64) {
        let mut now = self.shared.nodes.now.subscribe();
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
        let waits = shared.pull.waited_for();
        let waits = shared.nodes.announced.lock().interest(waits, sent_at);
        let (sent, beat) =
            nodes.lock().heartbeat(shard, sent_at, &shared.nodes.name, waits.clone());
        let mut is_news = false;
        let mut is_heard = false;
        if let Some(heard) = heard(shared, self.deployment, shard, beat).await {
            is_heard = matches!(heard, HeartbeatReply::Members { .. });
            let now = shared.clock.boot();
            let (changes, list) = {
                let mut nodes = nodes.lock();
                (nodes.heard(sent, now, heard), nodes.list().clone())
            };
            if is_heard {
                is_news = shared.nodes.announced.lock().told(shard, &list, waits, now);
            }
            self.follow(changes, now);
        }
        self.rejoined(nodes.lock().rejoin_if_due(shared.clock.boot(), fresh_run()));
        self.look(sent_at, is_news);
        // Dead members are named at once.
        is_heard && nodes.lock().has_dead(shard)
    }

    /// Waits until the next heartbeat; shorter if it was requested at once.
    async fn pause(&self, sent_at: Duration, now: &mut watch::Receiver<()>) {
        let since = || self.shared.clock.boot().saturating_sub(sent_at);
        tokio::select! {
            () = tokio::time::sleep(BEAT_EVERY.saturating_sub(since())) => {}
            _ = now.changed() => tokio::time::sleep(BEAT_PAUSE.saturating_sub(since())).await,
        }
    }

    /// Starts the actions that follow from a reply.
    fn follow(&self, changes: Changes, now: Duration) {
        let Changes { gone, gained, lost, joined, acts_again } = changes;
        if !gone.is_empty() || !joined.is_empty() || !gained.is_empty() || lost > 0 {
            let (gained, lost) = (gained.len(), lost);
            let name = |run: &MemberId| format!("{:016x}", run.0);
            let joined: Vec<_> = joined.iter().map(name).collect();
            let left: Vec<_> = gone.iter().map(name).collect();
            tracing::info!(?joined, ?left, gained, lost, "members of the deployment have changed");
        }
        let ours = self.shared.shards().filter(|s| self.shared.nodes.part(*s, now) == Part::Ours);
        let ended: Vec<_> =
            ours.flat_map(|shard| gone.iter().map(move |run| (shard, *run))).collect();
        if !ended.is_empty() {
            tokio::spawn(released(Arc::clone(self.shared), ended));
        }
        if acts_again {
            self.shared.ring_all();
            // The other nodes give us shards when they receive it.
            self.shared.nodes.beat_now();
        }
        for shard in &gained {
            self.shared.bell(*shard).ring_due();
        }
        self.suspects.look_at(gained);
        self.suspects.look(self.shared);
    }

    /// Polls shards now and then: for calls that wait here, and for holders of leases.
    fn look(&self, now: Duration, is_news: bool) {
        let mut looked = self.looked.lock();
        let every = if is_news { BEAT_EVERY } else { STRANGERS_EVERY };
        if self.shared.pull.waiting() > 0 && now.saturating_sub(looked.strangers_at) >= every {
            looked.strangers_at = now;
            ring_strangers(self.shared, now);
        }
        if looked.holders_at.is_none_or(|at| now.saturating_sub(at) >= HOLDERS_EVERY) {
            looked.holders_at = Some(now);
            self.suspects.look_at(self.shared.shards());
        }
    }

    /// Logs that the node rejoins.
    fn rejoined(&self, why: Option<Rejoin>) {
        let Some(why) = why else { return };
        let why = match why {
            Rejoin::Evicted => "a majority of the coordination shards missed its heartbeats",
            Rejoin::EvictedByMinority => "a coordination shard missed its heartbeats",
            Rejoin::Idle => {
                "no majority of the coordination shards had a heartbeat of it for a minute"
            }
            Rejoin::NewList => "the list of coordination shards has changed",
        };
        tracing::warn!(why, "node rejoins with a new member id");
        self.shared.nodes.is_forgotten();
    }
}

/// Requests a poll of other nodes' shards for the calls that wait here.
fn ring_strangers(shared: &Shared, now: Duration) {
    for shard in shared.shards().filter(|shard| shared.nodes.part(*shard, now) == Part::Others) {
        shared.bell(shard).ring_due();
    }
}

/// Sends a heartbeat; returns `None` if the shard did not reply in time.
async fn heard(
    shared: &Shared,
    deployment: &dyn Deployment,
    shard: ShardId,
    beat: Heartbeat,
) -> Option<HeartbeatReply> {
    match timeout(BEAT_WITHIN, deployment.heartbeat(shard, beat)).await {
        Ok(Ok(heard)) => Some(heard),
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
    let goodbyes: Vec<_> = {
        let mut nodes = nodes.lock();
        let shards = nodes.list().shards.clone();
        let beat = |shard| {
            let (_sent, beat) =
                nodes.heartbeat(shard, now, &shared.nodes.name, NamespaceFilter::default());
            (shard, Heartbeat { presence: MembershipStage::Left, dead: Vec::new(), ..beat })
        };
        shards.into_iter().map(beat).collect()
    };
    // If a shard does not receive it, the others evict this node after its time-out.
    let said = goodbyes.into_iter().map(|(shard, left)| heard(shared, deployment, shard, left));
    join_all(said).await;
}

async fn released(shared: Arc<Shared>, ended: Vec<(ShardId, MemberId)>) {
    stream::iter(ended)
        .for_each_concurrent(AT_ONCE, async |(shard, run)| {
            match shared.store.release_owner(shard, run).await {
                Ok(0) => {}
                Ok(released) => {
                    tracing::info!(
                        shard = shard.0,
                        released,
                        "leases of an evicted node were ended; its firings are due again"
                    );
                }
                // The next query for the holders of leases finds them.
                Err(error) => shared.log_store_error("release owner", &error),
            }
            shared.bell(shard).ring_due();
        })
        .await;
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
                    shared.nodes.announced.lock().forgotten();
                }
                Err(broadcast::error::RecvError::Closed) => return,
            },
            () = shared.phases.reached(Phase::Draining) => return,
        }
    }
}
