//! The view of one coordinator shard: its members, and the time for which each has stalled.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use duly_core::shard::ShardId;
use duly_store::{
    MemberId,
    deployment::{HeartbeatReply, Member},
};

use super::{ACTS_FOR, DEAD_AFTER, GAP_MAX};

/// The replies of one coordinator shard to one member id of this node.
#[derive(Debug, Default)]
pub(super) struct CoordinatorView {
    pub(super) shard: ShardId,
    /// Send time of the heartbeat whose reply last listed the members.
    replied_at: Option<Duration>,
    /// The members other than this node.
    pub(super) members: Vec<Member>,
    pub(super) evicted: BTreeSet<MemberId>,
    stalls: BTreeMap<MemberId, Stall>,
    /// Time at which this node first learned that its member id is evicted here.
    pub(super) evicted_us_at: Option<Duration>,
    /// Nodes of an older version, while they are members.
    pub(super) waits_for: Option<Vec<String>>,
}

/// A member that stalls: the start, and the time that counts.
#[derive(Debug, Clone, Copy)]
struct Stall {
    /// Number of its last heartbeat here; none while it is not listed.
    number: Option<u64>,
    /// A time no later than the shard's last reply.
    counted_to: Duration,
    stalled_for: Duration,
}

impl CoordinatorView {
    pub(super) fn new(shard: ShardId) -> Self {
        Self { shard, ..Self::default() }
    }

    /// Applies the reply to a heartbeat. Members in `watched` stall while they are not listed.
    pub(super) fn on_reply(
        &mut self,
        sent_at: Duration,
        now: Duration,
        reply: HeartbeatReply,
        us: MemberId,
        watched: &BTreeSet<MemberId>,
    ) {
        match reply {
            HeartbeatReply::Superseded => {}
            HeartbeatReply::Evicted => {
                let since = self.evicted_us_at.unwrap_or(now);
                *self = Self { evicted_us_at: Some(since), ..Self::new(self.shard) };
            }
            HeartbeatReply::Waiting(names) => {
                *self = Self { waits_for: Some(names), ..Self::new(self.shard) };
            }
            HeartbeatReply::Members { mut members, evicted } => {
                members.retain(|member| member.member_id != us);
                self.waits_for = None;
                self.evicted = evicted.into_iter().collect();
                self.count_stalls(sent_at, now, &members, watched);
                self.members = members;
                self.replied_at = Some(sent_at);
            }
        }
    }

    /// Updates the stall times. Time counts from the moment at which a member was first seen to stall,
    /// not from before: its heartbeat may have arrived until the reply was sent. After a silence of the
    /// shard the time counts from the start, as the shard may have forgotten heartbeats meanwhile.
    fn count_stalls(
        &mut self,
        sent_at: Duration,
        now: Duration,
        members: &[Member],
        watched: &BTreeSet<MemberId>,
    ) {
        if !self.is_fresh(sent_at) {
            self.stalls.clear();
        }
        let mut before = std::mem::take(&mut self.stalls);
        let listed = members.iter().map(|member| (member.member_id, Some(member.heartbeats)));
        let absent = watched.iter().filter(|member_id| !self.evicted.contains(member_id));
        // If a member is also listed, the entry of the list replaces that of its absence.
        for (member_id, number) in absent.map(|member_id| (*member_id, None)).chain(listed) {
            let stall = match before.get_mut(&member_id) {
                Some(stall) if stall.number == number => Stall {
                    stalled_for: stall.stalled_for
                        + sent_at.saturating_sub(stall.counted_to).min(GAP_MAX),
                    counted_to: sent_at,
                    ..*stall
                },
                _ => Stall { number, counted_to: now, stalled_for: Duration::ZERO },
            };
            self.stalls.insert(member_id, stall);
        }
    }

    /// Returns the age of the heartbeat whose reply last listed the members.
    pub(super) fn silent_for(&self, now: Duration) -> Option<Duration> {
        Some(now.saturating_sub(self.replied_at?))
    }

    /// Returns `true` if its last reply counts.
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        self.silent_for(now).is_some_and(|silent| silent < ACTS_FOR)
    }

    /// Returns the time for which a member stalls here.
    pub(super) fn stalled_for(&self, member_id: MemberId) -> Option<Duration> {
        Some(self.stalls.get(&member_id)?.stalled_for)
    }

    /// Returns the members to be named dead here, each with its last heartbeat number.
    pub(super) fn dead(&self) -> impl Iterator<Item = (MemberId, Option<u64>)> {
        let dead = self.stalls.iter().filter(|(_, stall)| stall.stalled_for >= DEAD_AFTER);
        dead.map(|(member_id, stall)| (*member_id, stall.number))
    }
}
