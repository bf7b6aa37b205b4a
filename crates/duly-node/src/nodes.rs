//! The nodes of one deployment: this one's beats, and what follows from who else is there.
//!
//! A store that belongs to one process has no other nodes: then this node may always act, and
//! every shard is its own. In a store that is shared a loop beats ([`membership`] says when and what
//! follows), and:
//!
//! * the leases of a member that is no more are ended in our shards at once;
//! * in shards that are newly ours, and now and then in all of ours, it is asked who holds leases. Who
//!   is no member then, nor at a beat that was sent afterwards, is dead for good, as nobody claims
//!   before it is a member: so the leases of nodes come back that died while nobody saw it;
//! * waiting lease calls hear from the owner of a shard when something is there for them.
//!
//! What takes calls to shards goes on beside the beats: a shard that does not answer must not silence a
//! node. Safety does not hang on any of this: see `docs/adr/0004-nodes-of-one-deployment.md`.

mod announce;
pub(crate) mod membership;
mod suspects;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::Arc,
    time::Duration,
};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    Deployment, Error, NodeRun, Result, Store,
    deployment::{Beat, Heard, Interest, Presence},
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

pub(crate) use self::announce::When;
use self::{
    announce::Announced,
    membership::{BEAT_EVERY, Changes, Membership},
    suspects::Suspects,
};
use crate::{phase::Phase, pull, state::Shared};

/// A beat that takes longer is given up.
const BEAT_WITHIN: Duration = Duration::from_secs(1);
/// Shortest time between two beats.
const BEAT_PAUSE: Duration = Duration::from_millis(20);
/// Time between two looks of a waiting node at the shards of others.
const STRANGERS_EVERY: Duration = Duration::from_secs(1);
/// Beats between two looks at who holds leases in our shards.
const HOLDERS_EVERY: u32 = 120;
/// Shards that are asked at once.
const AT_ONCE: usize = 16;

/// What this node knows of the others.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// For people.
    pub(crate) name: String,
    /// `None` where the store belongs to this process.
    shared: Option<Mutex<Membership>>,
    /// The run where it does.
    alone: NodeRun,
    announced: Mutex<Announced>,
    /// Rung when the next beat is to be sent now.
    now: Notify,
}

/// Whose shard it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Ours: everything in it is our work.
    Ours,
    /// Another node's; only calls that wait here are.
    Others,
    /// We may not act at all now.
    None,
}

/// A member of the deployment, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberView {
    /// Which run of which node.
    pub run: NodeRun,
    /// As it calls itself.
    pub name: String,
    /// Whether it is the node that answers.
    pub is_this: bool,
    /// Whether it takes on nothing any more.
    pub is_leaving: bool,
    /// Oldest and newest version of what nodes agree on that it understands.
    pub protocols: (u16, u16),
    /// Shards that it looks after.
    pub shards: usize,
    /// How long it has not been heard.
    pub silent_for: Duration,
}

impl Nodes {
    pub(crate) fn new(store: &dyn Store, name: String) -> Self {
        let membership = || Mutex::new(Membership::new(store.shards()));
        Self {
            name,
            shared: store.deployment().map(|_| membership()),
            alone: NodeRun(random()),
            announced: Mutex::default(),
            now: Notify::new(),
        }
    }

    /// Whether several nodes share the store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The run by which this node claims now.
    pub(crate) fn run(&self) -> NodeRun {
        self.shared.as_ref().map_or(self.alone, |nodes| nodes.lock().run())
    }

    /// Whose a shard is.
    pub(crate) fn part(&self, shard: ShardId, now: Duration) -> Part {
        let Some(nodes) = &self.shared else {
            return Part::Ours;
        };
        let nodes = nodes.lock();
        if !nodes.may_act(now) {
            Part::None
        } else if nodes.owns(shard) {
            Part::Ours
        } else {
            Part::Others
        }
    }

    /// Whether what was claimed by this run may be sent.
    pub(crate) fn may_send(&self, run: NodeRun, now: Duration) -> bool {
        self.shared.as_ref().is_none_or(|nodes| {
            let nodes = nodes.lock();
            nodes.run() == run && nodes.may_act(now)
        })
    }

    /// How long no beat has been answered, when that is too long to act.
    pub(crate) fn cut_off_for(&self, now: Duration) -> Option<Duration> {
        let nodes = self.shared.as_ref()?.lock();
        let silent = nodes.silent_for(now).unwrap_or(Duration::ZERO);
        (!nodes.may_act(now)).then_some(silent)
    }

    /// The leases of our run were ended: it goes on as another one.
    pub(crate) fn begin_again(&self) {
        if let Some(nodes) = &self.shared {
            nodes.lock().over();
            // Others forget what a run waits for with the run.
            self.announced.lock().forgotten();
            self.now.notify_one();
        }
    }

    /// Takes note where an answer to this run says that its leases were ended. Another node may do that
    /// while we are a member as ever: what it had sent before it was cut off may arrive much later.
    pub(crate) fn heed<T>(&self, run: NodeRun, answer: Result<T>) -> Result<T> {
        if answer.as_ref().err() == Some(&Error::RunOver) && self.run() == run {
            tracing::warn!("the leases of this run of the node were ended; it begins anew");
            self.begin_again();
        }
        answer
    }

    /// The others are to hear at once how this node is.
    pub(crate) fn beat_now(&self) {
        self.now.notify_one();
    }

    /// Since when the others know that calls wait here for a namespace.
    pub(crate) fn told_since(&self, namespace: &NamespaceName) -> Option<Duration> {
        self.announced.lock().told_since(namespace)
    }

    /// A call has begun to wait: others are to know soon.
    pub(crate) fn waits(&self, namespace: &NamespaceName) {
        if self.shared.is_some() && self.announced.lock().waits(namespace) {
            self.now.notify_one();
        }
    }

    /// Whether calls wait for a namespace at another node that can be told now; else, when at last.
    pub(crate) fn announces(
        &self,
        shard: ShardId,
        namespace: &NamespaceName,
        now: Duration,
    ) -> When {
        let Some(nodes) = &self.shared else {
            return When::Never;
        };
        if !nodes.lock().others().any(|other| other.member.waits.contains(namespace)) {
            return When::Never;
        }
        self.announced.lock().admit(shard, namespace, now)
    }

    /// Everybody there is.
    pub(crate) fn members(&self, now: Duration, shards: u16) -> Vec<MemberView> {
        let Some(nodes) = &self.shared else {
            return vec![MemberView {
                run: self.alone,
                name: self.name.clone(),
                is_this: true,
                is_leaving: false,
                protocols: membership::PROTOCOLS,
                shards: usize::from(shards),
                silent_for: Duration::ZERO,
            }];
        };
        let nodes = nodes.lock();
        let mut members: Vec<_> = nodes
            .others()
            .map(|other| MemberView {
                run: other.member.run,
                name: other.member.name.clone(),
                is_this: false,
                is_leaving: other.member.is_leaving,
                protocols: other.member.protocols,
                shards: nodes.shards_of(other.member.run),
                silent_for: other.still_for,
            })
            .collect();
        if let Some(silent_for) = nodes.silent_for(now) {
            members.push(MemberView {
                run: nodes.run(),
                name: self.name.clone(),
                is_this: true,
                is_leaving: nodes.is_leaving(),
                protocols: membership::PROTOCOLS,
                shards: nodes.shards_of(nodes.run()),
                silent_for,
            });
        }
        members.sort_by(|a, b| (&a.name, a.run).cmp(&(&b.name, b.run)));
        members
    }
}

/// A random number from the standard library's seed: tells a run from all others.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The loop of beats; ends when the node has left. Nothing to do where the store is not shared.
pub(crate) async fn run(shared: Arc<Shared>) {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return;
    };
    let mut suspects = Suspects::default();
    let mut strangers_at = Duration::ZERO;
    for turn in 0_u32.. {
        if shared.phases.now() == Phase::Left {
            return;
        }
        if shared.phases.now() != Phase::Running {
            nodes.lock().leave();
        }
        let sent_at = shared.clock.boot();
        let waits = shared.pull.waited_for();
        let waits = shared.nodes.announced.lock().interest(waits, sent_at);
        let beat = nodes.lock().beat(NodeRun(random()), &shared.nodes.name, waits.clone());
        let (mut is_news, mut is_heard) = (false, false);
        if let Some(heard) = heard(&shared, deployment, beat).await {
            is_heard = true;
            is_news = shared.nodes.announced.lock().told(waits, shared.clock.boot());
            let changes = nodes.lock().heard(sent_at, shared.clock.boot(), heard);
            follow(&shared, changes, sent_at, &mut suspects);
        }
        if turn.is_multiple_of(HOLDERS_EVERY) {
            suspects.look_at(shared.shards());
        }
        let every = if is_news { BEAT_EVERY } else { STRANGERS_EVERY };
        if shared.pull.waiting() > 0 && sent_at.saturating_sub(strangers_at) >= every {
            strangers_at = sent_at;
            ring_strangers(&shared, sent_at);
        }
        if is_heard && nodes.lock().has_dead() {
            // They are said to be dead at once.
            continue;
        }
        pause(&shared, sent_at).await;
    }
}

/// The time between two beats, shorter when there is something to say.
async fn pause(shared: &Shared, sent_at: Duration) {
    let since = || shared.clock.boot().saturating_sub(sent_at);
    tokio::select! {
        () = tokio::time::sleep(BEAT_EVERY.saturating_sub(since())) => {}
        () = shared.nodes.now.notified() => tokio::time::sleep(BEAT_PAUSE.saturating_sub(since())).await,
    }
}

/// Has the shards of other nodes looked at for calls that wait here.
fn ring_strangers(shared: &Shared, now: Duration) {
    for shard in shared.shards().filter(|shard| shared.nodes.part(*shard, now) == Part::Others) {
        shared.bell(shard).ring_due();
    }
}

/// Sends a beat; `None` when nobody answered in time.
async fn heard(shared: &Shared, deployment: &dyn Deployment, beat: Beat) -> Option<Heard> {
    match timeout(BEAT_WITHIN, deployment.beat(beat)).await {
        Ok(Ok(heard)) => Some(heard),
        Ok(Err(error)) => {
            shared.log_store_error("beat", &error);
            None
        }
        Err(_elapsed) => None,
    }
}

/// Says goodbye: this node holds nothing any more.
pub(crate) async fn leave(shared: &Shared) {
    let (Some(deployment), Some(nodes)) = (shared.store.deployment(), &shared.nodes.shared) else {
        return;
    };
    let beat = nodes.lock().beat(NodeRun(random()), &shared.nodes.name, Interest::default());
    if beat.presence != Presence::Joining {
        let left = Beat { presence: Presence::Left, dead: Vec::new(), ..beat };
        // Without it the others wait for its silence.
        let _unheard = heard(shared, deployment, left).await;
    }
}

/// Carries out what follows from an answer, or begins to.
fn follow(shared: &Arc<Shared>, changes: Changes, sent_at: Duration, suspects: &mut Suspects) {
    let Changes { is_over, gone, gained, lost, joined, acts_again } = changes;
    if is_over {
        tracing::warn!(
            "this run of the node is over: it was not heard for too long; it begins anew"
        );
        return;
    }
    if !gone.is_empty() || !joined.is_empty() || !gained.is_empty() || lost > 0 {
        let (gained, lost) = (gained.len(), lost);
        let name = |run: &NodeRun| format!("{:016x}", run.0);
        let joined: Vec<_> = joined.iter().map(name).collect();
        let left: Vec<_> = gone.iter().map(name).collect();
        tracing::info!(?joined, ?left, gained, lost, "the members of the deployment have changed");
    }
    let ours: Vec<ShardId> =
        shared.shards().filter(|s| shared.nodes.part(*s, sent_at) == Part::Ours).collect();
    let ended: Vec<_> =
        ours.iter().flat_map(|shard| gone.iter().map(|run| (*shard, *run))).collect();
    release(shared, ended);
    if acts_again {
        shared.ring_all();
    }
    for shard in &gained {
        shared.bell(*shard).ring_due();
    }
    suspects.look_at(gained);
    let dead = suspects.still_suspect(shared, sent_at);
    release(shared, dead);
    suspects.look(shared);
}

/// Begins to end the leases of runs that are over.
fn release(shared: &Arc<Shared>, ended: Vec<(ShardId, NodeRun)>) {
    if !ended.is_empty() {
        tokio::spawn(released(Arc::clone(shared), ended));
    }
}

async fn released(shared: Arc<Shared>, ended: Vec<(ShardId, NodeRun)>) {
    stream::iter(ended)
        .for_each_concurrent(AT_ONCE, async |(shard, run)| {
            match shared.store.release_owner(shard, run).await {
                Ok(0) => {}
                Ok(released) => {
                    tracing::info!(
                        shard = shard.0,
                        released,
                        "firings of a node that is gone are due again"
                    );
                }
                // The next look at who holds leases finds them.
                Err(error) => shared.log_store_error("release of a node that is gone", &error),
            }
            shared.bell(shard).ring_due();
        })
        .await;
}

/// Passes on what other nodes announce to the calls that wait here.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let Some(deployment) = shared.store.deployment() else {
        return;
    };
    let mut announcements = deployment.announcements();
    loop {
        tokio::select! {
            announced = announcements.recv() => match announced {
                Ok((shard, namespace)) => pull::ready(&shared, shard, &namespace),
                Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    // Nobody knows what was told.
                    shared.nodes.announced.lock().forgotten();
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            },
            () = shared.phases.reached(Phase::Draining) => return,
        }
    }
}
