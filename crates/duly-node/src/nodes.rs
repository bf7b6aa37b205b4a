//! The nodes of one deployment: this one's beats, and what follows from who else is there.
//!
//! A store that belongs to one process has no other nodes: then this node may always act, and
//! every shard is its own. In a store that is shared a loop beats at every coordination shard
//! ([`beats`]; [`membership`] says what follows), and:
//!
//! * the leases of a run that is gone are ended in our shards at once;
//! * in shards that are newly ours, and now and then in all of ours, it is asked who holds leases. A
//!   holder that no coordination shard knows is named dead like one that stands still: so the leases
//!   of nodes come back that died while nobody saw it ([`suspects`]);
//! * waiting lease calls hear from the owner of a shard when something is there for them.
//!
//! What takes calls to shards goes on beside the beats: a shard that does not answer must not silence a
//! node. Safety does not hang on any of this: see `docs/adr/0004-nodes-of-one-deployment.md` and
//! `docs/adr/0005-membership-by-majority.md`.

mod announce;
mod beats;
pub(crate) mod membership;
pub(crate) mod progress;
mod suspects;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{Error, MemberId, Result, Store, deployment::Presence};
use parking_lot::Mutex;
use tokio::sync::watch;

use self::{announce::Announced, membership::Membership};
pub(crate) use self::{
    announce::When,
    beats::{leave, listen, run},
};

/// What this node knows of the others.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// For people.
    pub(crate) name: String,
    /// `None` where the store belongs to this process.
    shared: Option<Mutex<Membership>>,
    /// The run where it does.
    alone: MemberId,
    announced: Mutex<Announced>,
    /// Changes when the next beats are to be sent now.
    now: watch::Sender<()>,
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
    /// Its member id.
    pub member_id: MemberId,
    /// As it calls itself.
    pub name: String,
    /// Whether it is the node that answers.
    pub is_this: bool,
    /// Stage of its membership.
    pub presence: Presence,
    /// Oldest and newest version of what nodes agree on that it understands.
    pub protocols: (u16, u16),
    /// Shards that it looks after.
    pub shards: usize,
    /// How long it has not been heard.
    pub heartbeat_age: Duration,
}

impl Nodes {
    pub(crate) fn new(store: &dyn Store, name: String) -> Self {
        let shared = store.deployment().map(|deployment| {
            let list = deployment.coordinators();
            Mutex::new(Membership::new(store.shards(), list, fresh_run()))
        });
        Self {
            name,
            shared,
            alone: fresh_run(),
            announced: Mutex::default(),
            now: watch::Sender::default(),
        }
    }

    /// Whether several nodes share the store.
    pub(crate) const fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// The run by which this node claims now.
    pub(crate) fn run(&self) -> MemberId {
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
    pub(crate) fn may_send(&self, run: MemberId, now: Duration) -> bool {
        self.shared.as_ref().is_none_or(|nodes| {
            let nodes = nodes.lock();
            nodes.run() == run && nodes.may_act(now)
        })
    }

    /// How long ago a majority of the coordination shards was last heard, when that is too long to act.
    pub(crate) fn cut_off_for(&self, now: Duration) -> Option<Duration> {
        let nodes = self.shared.as_ref()?.lock();
        let silent = nodes.silent_for(now).unwrap_or(Duration::ZERO);
        (!nodes.may_act(now) && !nodes.is_waiting()).then_some(silent)
    }

    /// Names of the nodes of an older version that have to leave before this one acts.
    pub(crate) fn waits_for(&self) -> Vec<String> {
        self.shared.as_ref().map_or_else(Vec::new, |nodes| nodes.lock().waits_for())
    }

    /// The leases of our run were ended: it goes on as another one.
    pub(crate) fn begin_again(&self) {
        if let Some(nodes) = &self.shared {
            nodes.lock().rejoin(fresh_run());
            self.is_forgotten();
        }
    }

    /// The others forget what a run waits for with the run, and hear of the next at once.
    fn is_forgotten(&self) {
        self.announced.lock().forgotten();
        self.beat_now();
    }

    /// Takes note where an answer to this run says that its leases were ended. Another node may do that
    /// while we are a member as ever: what it had sent before it was cut off may arrive much later.
    pub(crate) fn heed<T>(&self, run: MemberId, answer: Result<T>) -> Result<T> {
        if answer.as_ref().err() == Some(&Error::Evicted) && self.run() == run {
            tracing::warn!("node evicted: its leases were ended; rejoining with a new member id");
            self.begin_again();
        }
        answer
    }

    /// The others are to hear at once how this node is.
    pub(crate) fn beat_now(&self) {
        self.now.send_replace(());
    }

    /// Since when the others know that calls wait here for a namespace.
    pub(crate) fn told_since(&self, namespace: &NamespaceName) -> Option<Duration> {
        self.announced.lock().told_since(namespace)
    }

    /// A call has begun to wait: others are to know soon.
    pub(crate) fn waits(&self, namespace: &NamespaceName) {
        if self.shared.is_some() && self.announced.lock().waits(namespace) {
            self.beat_now();
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
        if !nodes.lock().others().any(|other| other.waits.contains(namespace)) {
            return When::Never;
        }
        self.announced.lock().admit(shard, namespace, now)
    }

    /// Everybody there is.
    pub(crate) fn members(&self, now: Duration, shards: u16) -> Vec<MemberView> {
        let this = |member_id, presence, shards, heartbeat_age| MemberView {
            member_id,
            name: self.name.clone(),
            is_this: true,
            presence,
            protocols: membership::PROTOCOLS,
            shards,
            heartbeat_age,
        };
        let Some(nodes) = &self.shared else {
            let shards = usize::from(shards);
            return vec![this(self.alone, Presence::Here, shards, Duration::ZERO)];
        };
        let nodes = nodes.lock();
        let mut members: Vec<_> = nodes
            .others()
            .map(|other| MemberView {
                member_id: other.member_id,
                name: other.name.clone(),
                is_this: false,
                presence: other.presence,
                protocols: other.protocols,
                shards: nodes.shards_of(other.member_id),
                heartbeat_age: nodes.still_for(other.member_id),
            })
            .collect();
        if let Some(silent_for) = nodes.silent_for(now) {
            let (run, presence) = (nodes.run(), nodes.presence(now));
            members.push(this(run, presence, nodes.shards_of(run), silent_for));
        }
        members.sort_by(|a, b| (&a.name, a.member_id).cmp(&(&b.name, b.member_id)));
        members
    }
}

/// Returns a run that was never used: a random number from the standard library's seed.
fn fresh_run() -> MemberId {
    MemberId(RandomState::new().build_hasher().finish())
}
