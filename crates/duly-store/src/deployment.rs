//! What a store offers that several nodes share: who is alive, and a way to tell all of them.
//!
//! Nothing here decides who may do what: a firing becomes in-flight by a claim alone, and a verdict is
//! fenced by its token. It spares nodes looking for the same work, and brings back the leases of a
//! node that is no more. See `docs/adr/0004-nodes-of-one-deployment.md`.
//!
//! **No clock is asked who is dead.** A member's beats are counted; whoever has seen a count stand
//! still for long enough by its own monotonic clock says so together with the count, and the store
//! ends the member only if it has not beaten since. So neither a step of the store's clock nor an
//! observer that stood still itself can end a node that is alive.

use std::fmt::Debug;

use duly_core::{
    Millis, NamespaceName,
    shard::{ShardId, shard_of},
};
use tokio::sync::broadcast;

use crate::{Lane, NodeRun, StoreFuture};

/// Longest name of a member, in bytes.
pub const NAME_MAX: usize = 256;

/// The calls of a store that several nodes share; see [`crate::Store::deployment`].
pub trait Deployment: Debug + Send + Sync {
    /// Says that this run is alive, and hears who else is. Its other news are carried out first.
    /// Not kept like timers are: a failover may forget members, who then begin new runs.
    fn beat(&self, beat: Beat) -> StoreFuture<'_, Heard>;

    /// Runs of nodes that hold leases in a shard, alive or not.
    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<NodeRun>>;

    /// Shares lanes' limits out over the nodes: for each ask, what this run may have of its lane from
    /// now on. All asks have their [`home`] in this shard. What was allotted to a run is its own until
    /// it asks for less or is released; a run that was released is refused.
    ///
    /// What all runs together have never exceeds a cap, as long as a run has no more under way than
    /// the larger of what it was last allotted and what it said to [`Ask::keep`].
    fn allot(
        &self,
        shard: ShardId,
        run: NodeRun,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>>;

    /// Tells every node that the namespace has something for pulling consumers in this shard. It may
    /// be lost.
    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()>;

    /// What nodes announce, this one too.
    fn announcements(&self) -> broadcast::Receiver<Announcement>;

    /// Moves the progress of the shards that this node looks after forward, by which a store notices that
    /// a shard came back with older data. Called every two seconds.
    fn note_progress(&self, shards: Vec<ShardId>) -> StoreFuture<'_, ()> {
        let _shards = shards;
        Box::pin(async { Ok(()) })
    }

    /// Repairs a shard that takes no calls: accepts that its data is gone, and restores its marker and the
    /// settings of namespaces from the other shards; or confirms that it came back with older data.
    ///
    /// # Errors
    /// `Invalid` for a shard that belongs to another deployment; `Unavailable` when the shard, or all
    /// others, do not answer. The same call again is right.
    fn repair(&self, shard: ShardId) -> StoreFuture<'_, Repaired> {
        let _shard = shard;
        Box::pin(async { Ok(Repaired::Nothing) })
    }
}

/// What a repair did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repaired {
    /// There was nothing to repair.
    Nothing,
    /// The shard came back with data that was older by so much, and takes calls again.
    Confirmed {
        /// The time whose changes are missing.
        behind: Millis,
    },
    /// The shard was empty, and takes calls again.
    Restored {
        /// Namespaces whose settings it has again.
        namespaces: u64,
    },
}

/// The shards that keep the members of a deployment. A node acts while a majority of them has confirmed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordinators {
    /// Goes up with every change of the list.
    pub version: u64,
    /// One, three or five shards.
    pub shards: Vec<ShardId>,
}

/// What a run asks for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which.
    pub lane: Lane,
    /// Most attempts that all runs together may have under way.
    pub cap: u32,
    /// Most attempts that all runs together may begin in a second, if there is such a limit.
    pub per_second: Option<u32>,
    /// What this run keeps until it asks again: what it has under way, and what it may still begin by
    /// an earlier allotment.
    pub keep: u32,
    /// What it has use for; with nothing to keep and no use, the lane is given up.
    pub wanted: u32,
}

/// What a run may have of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    /// Attempts under way.
    pub slots: u32,
    /// Attempts begun in a second, where there is a limit: an equal part for each run that has
    /// something of the lane or wants it, as timers are spread evenly over shards.
    pub per_second: Option<u32>,
}

/// The shard in which a lane's limits are shared out.
pub fn home(lane: &Lane, shards: u16) -> ShardId {
    shard_of(lane.namespace.as_str(), lane.key.label(), shards)
}

/// The part of `amount` for one of those who want some, so that the least served has as much as can be
/// (max-min fairness). What does not divide goes round: with another `turn`, to others.
pub fn part_of(amount: u32, wanted: &[(NodeRun, u32)], run: NodeRun, turn: u64) -> u32 {
    let mut by_want = wanted.to_vec();
    by_want.sort_unstable_by_key(|(run, wanted)| (*wanted, *run));
    let mut left = amount;
    let mut rest = by_want.as_slice();
    // Who wants less than an equal part of what is left has what it wants.
    while let [(who, wanted), others @ ..] = rest {
        if left / among(rest) < *wanted {
            break;
        }
        if *who == run {
            return *wanted;
        }
        left -= wanted;
        rest = others;
    }
    let mut short: Vec<NodeRun> = rest.iter().map(|(who, _)| *who).collect();
    short.sort_unstable();
    let Some(place) = short.iter().position(|who| *who == run) else {
        return 0;
    };
    let (part, over) = (left / among(rest), left % among(rest));
    let count = short.len() as u64;
    let has_one_more = (place as u64 + count - turn % count) % count < u64::from(over);
    part + u32::from(has_one_more)
}

fn among(rest: &[(NodeRun, u32)]) -> u32 {
    u32::try_from(rest.len()).unwrap_or(u32::MAX).max(1)
}

/// The namespace has something for pulling consumers in the shard.
pub type Announcement = (ShardId, NamespaceName);

/// What a member says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Which run of which node.
    pub run: NodeRun,
    /// For people; at most [`NAME_MAX`] bytes.
    pub name: String,
    /// Oldest and newest version of what nodes agree on that it understands.
    pub protocols: (u16, u16),
    /// Whether it comes, is there, or goes.
    pub presence: Presence,
    /// Namespaces for which consumers wait here.
    pub waits: Interest,
    /// Members whose count of beats has stood still at this number for too long. They are members no
    /// more, unless they have beaten since.
    pub dead: Vec<(NodeRun, u64)>,
}

/// Where a member stands between coming and going.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is new. A run joins once: one whose answer was lost comes as another run.
    Joining,
    /// It works.
    Here,
    /// It begins nothing any more, and ends what it has begun.
    Leaving,
    /// It holds nothing any more.
    Left,
}

/// What a member hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The run is no member any more: others end its leases. The node goes on as a new run.
    Over,
    /// Everybody who is a member, this run too unless it has left, by their runs.
    Members(Vec<Member>),
}

/// Another node, or this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Which run.
    pub run: NodeRun,
    /// As it calls itself.
    pub name: String,
    /// Versions that it understands.
    pub protocols: (u16, u16),
    /// Whether it begins nothing any more.
    pub is_leaving: bool,
    /// How often it has beaten.
    pub beats: u64,
    /// Namespaces for which consumers wait there.
    pub waits: Interest,
}

/// A set of namespaces in 256 bytes that may hold more than was put in, and never less: one bit for
/// each of 2,048 classes of names (a Bloom filter of one hash).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// Empty, or [`Interest::BYTES`] long.
    bits: Vec<u8>,
}

impl Interest {
    const BYTES: usize = 256;

    /// Puts a namespace in.
    pub fn insert(&mut self, namespace: &NamespaceName) {
        let (byte, bit) = Self::place(namespace);
        self.bits.resize(Self::BYTES, 0);
        self.bits[byte] |= bit;
    }

    /// Whether the namespace may be in it.
    pub fn contains(&self, namespace: &NamespaceName) -> bool {
        let (byte, bit) = Self::place(namespace);
        self.bits.get(byte).is_some_and(|held| held & bit != 0)
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// As text: hexadecimal digits, none when it holds nothing.
    pub fn to_text(&self) -> String {
        self.bits.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// From text; what is no such text holds nothing.
    pub fn from_text(text: &str) -> Self {
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bits: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        Self { bits: bits.filter(|bits| bits.len() == Self::BYTES).unwrap_or_default() }
    }

    /// Every node has to place a name alike: FNV-1a, 64 bits.
    fn place(namespace: &NamespaceName) -> (usize, u8) {
        let hash = namespace.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let bit = (hash ^ (hash >> 32)) % (Self::BYTES as u64 * 8);
        (usize::try_from(bit / 8).unwrap_or(0), 1 << (bit % 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interest_holds_what_was_put_in_and_little_else() {
        let name = |i: u32| NamespaceName::new(&format!("tenant-{i}")).unwrap();
        let mut interest = Interest::default();
        assert!(interest.is_empty() && !interest.contains(&name(1)));
        for i in 0..50 {
            interest.insert(&name(i));
        }
        assert!((0..50).all(|i| interest.contains(&name(i))));
        let more = (50..1_050).filter(|i| interest.contains(&name(*i))).count();
        assert!(more < 60, "{more} of 1,000");
        assert_eq!(Interest::from_text(&interest.to_text()), interest);
        for text in ["", "0", "zz", "00", "\u{e4}\u{e4}"] {
            assert!(Interest::from_text(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn parts_are_fair_and_add_up() {
        let runs = |wants: &[u32]| -> Vec<(NodeRun, u32)> {
            (1..).map(NodeRun).zip(wants.iter().copied()).collect()
        };
        let parts = |amount, wants: &[u32], turn| -> Vec<u32> {
            let wanted = runs(wants);
            wanted.iter().map(|(run, _)| part_of(amount, &wanted, *run, turn)).collect()
        };
        assert_eq!(parts(100, &[10, 1_000, 1_000], 0), [10, 45, 45]);
        assert_eq!(parts(100, &[10, 20, 30], 0), [10, 20, 30]);
        assert_eq!(parts(1, &[5, 5, 5], 0), [1, 0, 0]);
        assert_eq!(parts(1, &[5, 5, 5], 1), [0, 1, 0]);
        assert_eq!(parts(5, &[9, 9, 0], 3), [2, 3, 0]);
        assert_eq!(parts(5, &[9, 9, 0], 4), [3, 2, 0]);
        assert_eq!(part_of(5, &runs(&[9]), NodeRun(7), 0), 0, "a stranger");
        for turn in 0..7 {
            for amount in 0..40 {
                let wants = [3, 0, 17, 9, 9];
                let parts = parts(amount, &wants, turn);
                assert_eq!(parts.iter().sum::<u32>(), amount.min(38), "{amount} {turn}");
                assert!(parts.iter().zip(wants).all(|(part, want)| *part <= want));
            }
        }
    }

    #[test]
    fn the_place_of_a_name_is_frozen() {
        let mut interest = Interest::default();
        interest.insert(&NamespaceName::new("orders").unwrap());
        let text = interest.to_text();
        let at = text.find(|digit| digit != '0').unwrap();
        assert_eq!((at, &text[at..=at]), (438, "4"));
    }
}
