//! Who is a member, which shards are ours, whether we may act. Pure: answers of the store and the
//! monotonic clock go in, what follows comes out.
//!
//! * **We may act** for [`ACTS_FOR`] after *sending* the last beat that was answered. A node that stood
//!   still, or whom the store does not hear, notices by this before it claims or sends.
//! * **Somebody is dead** whose count of beats stood still over answered beats of ours for
//!   [`DEAD_AFTER`] in all. The time between two of our answers counts for at most [`GAP_MAX`]: after
//!   an outage of the store, or a pause of ours, everybody has time to be heard again first.
//! * **A shard** is looked after by the member with the highest hash of (run, shard): rendezvous
//!   hashing (Thaler and Ravishankar, 1998). When a member goes, only its own shards move.

use std::{collections::BTreeMap, time::Duration};

use duly_core::shard::ShardId;
use duly_store::{
    NodeRun,
    deployment::{Beat, Heard, Interest, Member, Presence},
};

/// Time between two beats.
pub(crate) const BEAT_EVERY: Duration = Duration::from_millis(250);
/// How long a node acts on an answer, from before its beat was sent.
pub(crate) const ACTS_FOR: Duration = Duration::from_millis(1_500);
/// How long a count stands still until its member is dead; longer than [`ACTS_FOR`], so that whoever
/// is said to be dead has stopped.
const DEAD_AFTER: Duration = Duration::from_millis(1_750);
/// Most that the time between two of our answered beats counts.
const GAP_MAX: Duration = Duration::from_millis(400);

/// Versions of what nodes agree on that this one understands.
pub(crate) const PROTOCOLS: (u16, u16) = (1, 1);

/// What this node knows of itself and of the others.
#[derive(Debug)]
pub(crate) struct Membership {
    run: NodeRun,
    is_member: bool,
    is_leaving: bool,
    /// When the last beat that was answered was sent.
    heard_at: Option<Duration>,
    others: BTreeMap<NodeRun, Other>,
    /// By shard.
    owned: Vec<bool>,
}

/// Another member, and for how long its count has stood still.
#[derive(Debug, Clone)]
pub(crate) struct Other {
    pub(crate) member: Member,
    pub(crate) still_for: Duration,
}

/// What follows from an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Our run is over: the next beat joins as another one.
    pub(crate) is_over: bool,
    /// Members that are no more: their leases are to be ended in our shards.
    pub(crate) gone: Vec<NodeRun>,
    /// Shards that are ours from now on.
    pub(crate) gained: Vec<ShardId>,
    /// Shards that are ours no more.
    pub(crate) lost: usize,
    /// Members that are new.
    pub(crate) joined: Vec<NodeRun>,
    /// We can act again, after a time in which we could not.
    pub(crate) acts_again: bool,
}

impl Membership {
    /// A node that is no member yet.
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            run: NodeRun(0),
            is_member: false,
            is_leaving: false,
            heard_at: None,
            others: BTreeMap::new(),
            owned: vec![false; usize::from(shards)],
        }
    }

    /// The next beat. `fresh` is a run that was never used.
    pub(crate) fn beat(&mut self, fresh: NodeRun, name: &str, waits: Interest) -> Beat {
        let presence = match (self.is_member, self.is_leaving) {
            (false, _) => Presence::Joining,
            (true, true) => Presence::Leaving,
            (true, false) => Presence::Here,
        };
        if presence == Presence::Joining {
            self.run = fresh;
        }
        let dead = self.others.values().filter(|other| other.still_for >= DEAD_AFTER);
        let dead = dead.map(|other| (other.member.run, other.member.beats)).collect();
        Beat { run: self.run, name: name.to_owned(), protocols: PROTOCOLS, presence, waits, dead }
    }

    /// Takes the answer to a beat that was sent at `sent_at`.
    pub(crate) fn heard(&mut self, sent_at: Duration, now: Duration, heard: Heard) -> Changes {
        let could_act = self.may_act(now);
        let Heard::Members(members) = heard else {
            return self.over();
        };
        self.is_member = true;
        let before = self.heard_at.replace(sent_at);
        let gap = before.map_or(Duration::ZERO, |at| sent_at.saturating_sub(at).min(GAP_MAX));
        let mut known = std::mem::take(&mut self.others);
        let mut changes = Changes::default();
        for member in members.into_iter().filter(|member| member.run != self.run) {
            let still_for = match known.remove(&member.run) {
                Some(other) if other.member.beats == member.beats => other.still_for + gap,
                Some(_) => Duration::ZERO,
                None => {
                    changes.joined.push(member.run);
                    Duration::ZERO
                }
            };
            self.others.insert(member.run, Other { member, still_for });
        }
        changes.gone = known.into_keys().collect();
        self.share_out(&mut changes);
        changes.acts_again = !could_act && self.may_act(now);
        changes
    }

    /// Our run is over, as the store says or because its leases were ended: everything is left, and
    /// the next beat joins.
    pub(crate) fn over(&mut self) -> Changes {
        let lost = self.owned.iter().filter(|owned| **owned).count();
        *self = Self {
            is_leaving: self.is_leaving,
            ..Self::new(u16::try_from(self.owned.len()).unwrap_or(u16::MAX))
        };
        Changes { is_over: true, lost, ..Changes::default() }
    }

    /// From now on nothing is begun here.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
        self.share_out(&mut Changes::default());
    }

    /// The run by which this node claims.
    pub(crate) const fn run(&self) -> NodeRun {
        self.run
    }

    /// Whether it may claim, and send what it has claimed.
    pub(crate) fn may_act(&self, now: Duration) -> bool {
        self.silent_for(now).is_some_and(|silent| silent < ACTS_FOR)
    }

    /// How long ago the last answered beat was sent; `None` while it is no member.
    pub(crate) fn silent_for(&self, now: Duration) -> Option<Duration> {
        let heard_at = self.heard_at.filter(|_| self.is_member)?;
        Some(now.saturating_sub(heard_at))
    }

    pub(crate) fn owns(&self, shard: ShardId) -> bool {
        self.owned.get(usize::from(shard.0)).copied().unwrap_or(false)
    }

    pub(crate) fn others(&self) -> impl Iterator<Item = &Other> {
        self.others.values()
    }

    pub(crate) const fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Whether a beat is due now to say that somebody is dead.
    pub(crate) fn has_dead(&self) -> bool {
        self.others.values().any(|other| other.still_for >= DEAD_AFTER)
    }

    /// Whether a run is a member, as far as we know.
    pub(crate) fn is_alive(&self, run: NodeRun) -> bool {
        (self.is_member && self.run == run) || self.others.contains_key(&run)
    }

    /// How many shards a member looks after, as we see it.
    pub(crate) fn shards_of(&self, run: NodeRun) -> usize {
        (0..).map(ShardId).take(self.owned.len()).filter(|s| self.owner(*s) == Some(run)).count()
    }

    fn share_out(&mut self, changes: &mut Changes) {
        for place in 0..self.owned.len() {
            let shard = ShardId(u16::try_from(place).unwrap_or(u16::MAX));
            let ours = self.is_member && self.owner(shard) == Some(self.run);
            match (std::mem::replace(&mut self.owned[place], ours), ours) {
                (false, true) => changes.gained.push(shard),
                (true, false) => changes.lost += 1,
                _ => {}
            }
        }
    }

    /// Who looks after a shard: among those who do not leave, the one with the highest weight.
    fn owner(&self, shard: ShardId) -> Option<NodeRun> {
        let others = self.others.values().filter(|other| !other.member.is_leaving);
        let others = others.map(|other| other.member.run);
        let me = Some(self.run).filter(|_| self.is_member && !self.is_leaving);
        others.chain(me).max_by_key(|run| (weight(*run, shard), *run))
    }
}

/// The weight of a member for a shard: the finalizer of MurmurHash3 over both. Every node has to
/// weigh alike.
fn weight(run: NodeRun, shard: ShardId) -> u64 {
    let mut x = run.0 ^ (u64::from(shard.0) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests;
