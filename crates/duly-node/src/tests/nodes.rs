//! Several nodes on one store.

use std::sync::Arc;

use duly_core::{destination::LaneKey, shard::ShardId};
use duly_store::{
    ClaimRequest, Lane, LaneClaim, MemberId, Owner, Store, Timers,
    conformance::{ManualClock, StandIn},
    deployment::{Heartbeat, MembershipStage, NamespaceFilter},
    memory::MemoryStore,
};

use super::flaky::Breaks;
use super::pull::{MINUTE, request};
use super::*;

/// Milliseconds within which the firings of a killed node must be resumed.
const RESUMED_WITHIN: u64 = 3_000;

/// Nodes on one store and one clock.
pub(super) struct Together {
    pub(super) clock: ManualClock,
    pub(super) store: Arc<MemoryStore>,
    pub(super) worlds: Vec<World>,
}

impl Together {
    pub(super) async fn start(count: usize) -> Self {
        Self::coordinated_by(&[ShardId(0)], count).await
    }

    pub(super) async fn coordinated_by(coordinators: &[ShardId], count: usize) -> Self {
        let clock = ManualClock::default();
        let memory = MemoryStore::new(Arc::new(clock.clone()), 1).coordinated_by(coordinators);
        let mut together = Self { clock, store: Arc::new(memory), worlds: Vec::new() };
        for _ in 0..count {
            together.join().await;
        }
        together.pass(1_000).await;
        together
    }

    async fn join(&mut self) {
        let (clock, store) = (self.clock.clone(), Arc::clone(&self.store));
        self.worlds.push(World::start_on(clock, store, |_| {}).await);
    }

    /// Advances the time for all nodes.
    pub(super) async fn pass(&self, ms: u64) {
        for _ in 0..ms / 50 {
            self.clock.advance(super::ms(50));
            for world in &self.worlds {
                world.waker.notify_due();
            }
            tokio::time::advance(Duration::from_millis(50)).await;
            self.worlds[0].quiet().await;
        }
    }

    /// Returns the owner of the only shard, as one node sees it.
    pub(super) fn owner_seen_by(&self, node: usize) -> usize {
        let members = self.worlds[node].handle.members();
        let owner = members.iter().find(|member| member.shards == 1).expect("it has an owner");
        let is = |world: &World| world.handle.0.nodes.member_id() == owner.member_id;
        self.worlds.iter().position(is).expect("the owner is one of them")
    }

    /// Returns the owner of the only shard.
    pub(super) fn owner(&self) -> usize {
        let owns = |world: &World| {
            let members = world.handle.members();
            members.iter().any(|member| member.is_this && member.shards == 1)
        };
        let owners: Vec<_> = (0..self.worlds.len()).filter(|i| owns(&self.worlds[*i])).collect();
        assert_eq!(owners.len(), 1, "{owners:?}");
        owners[0]
    }
}

/// Creates the claim request of a node of another process.
fn claim_as(nodes: &Together, member_id: MemberId, key: LaneKey) -> ClaimRequest {
    let lane = Lane { namespace: nodes.worlds[0].namespace.clone(), key };
    ClaimRequest {
        lanes: vec![LaneClaim { lane, first_max: 1, retry_max: 1 }],
        total_max: 1,
        bytes_max: 1 << 20,
        owner: Owner::Node(member_id),
    }
}

#[tokio::test(start_paused = true)]
async fn t15_the_firings_of_a_killed_node_go_on_at_another() {
    let mut nodes = Together::start(3).await;
    let owner = nodes.owner();
    assert_eq!(nodes.worlds[0].handle.members().len(), 3);
    nodes.worlds[owner].schedule("a", ms(0), A).await;
    nodes.pass(50).await;
    let first = nodes.worlds[owner].call().await;
    nodes.worlds[owner].flaky.cut_off(true);
    nodes.pass(RESUMED_WITHIN).await;
    let others: Vec<usize> = (0..3).filter(|i| *i != owner).collect();
    let mut again = Vec::new();
    for i in &others {
        again.extend(nodes.worlds[*i].try_call());
        assert_eq!(nodes.worlds[*i].handle.members().len(), 2);
    }
    assert_eq!(again.len(), 1, "one of the others sends it");
    let again = again.remove(0);
    assert_eq!((again.envelope.attempt, first.envelope.attempt), (2, 1));
    assert_eq!(again.envelope.delivery_id, first.envelope.delivery_id);
    again.answer(Delivery::Confirmed);
    nodes.pass(50).await;
    assert_eq!(nodes.worlds[others[0]].state("a").await, State::Finished);
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_shard_stops_no_heartbeat() {
    let nodes = Together::start(3).await;
    let owner = nodes.owner();
    let others: Vec<usize> = (0..3).filter(|i| *i != owner).collect();
    for i in &others {
        nodes.worlds[*i].flaky.hang(Breaks::Release);
    }
    let member_ids =
        || others.iter().map(|i| nodes.worlds[*i].handle.0.nodes.member_id()).collect::<Vec<_>>();
    let before = member_ids();
    nodes.worlds[owner].flaky.cut_off(true);
    nodes.pass(3 * RESUMED_WITHIN).await;
    for i in &others {
        assert_eq!(nodes.worlds[*i].handle.members().len(), 2, "one is dead, and only that");
        assert_eq!(nodes.worlds[*i].handle.health().cut_off_for, None);
    }
    assert_eq!(member_ids(), before);
}

#[tokio::test(start_paused = true)]
async fn p8_verdicts_of_an_old_member_id_are_ignored() {
    let mut nodes = Together::start(2).await;
    let owner = nodes.owner();
    let member_id = |nodes: &Together, i: usize| nodes.worlds[i].handle.0.nodes.member_id();
    let before = member_id(&nodes, owner);
    nodes.worlds[owner].schedule("a", ms(0), A).await;
    nodes.pass(50).await;
    let late = nodes.worlds[owner].call().await;
    nodes.worlds[owner].flaky.cut_off(true);
    nodes.pass(RESUMED_WITHIN).await;
    assert!(nodes.worlds[owner].handle.health().cut_off_for.is_some(), "it knows");
    let again = nodes.worlds[1 - owner].call().await;
    nodes.worlds[owner].flaky.cut_off(false);
    nodes.pass(1_000).await;
    assert_ne!(member_id(&nodes, owner), before);
    assert_eq!(nodes.worlds[owner].handle.health().cut_off_for, None);
    late.answer(Delivery::Rejected { reason: "never again".to_owned() });
    nodes.pass(50).await;
    assert_eq!(nodes.worlds[owner].state("a").await, State::InFlight, "the other one has it");
    again.answer(Delivery::Confirmed);
    nodes.pass(50).await;
    assert_eq!(nodes.worlds[owner].state("a").await, State::Finished);
    nodes.worlds[owner].schedule("b", ms(0), A).await;
    nodes.pass(50).await;
    let calls = nodes.worlds.iter_mut().filter_map(World::try_call).count();
    assert_eq!(calls, 1);
}

#[tokio::test(start_paused = true)]
async fn p3_a_node_rejoins_after_its_leases_were_ended() {
    let mut nodes = Together::start(1).await;
    let member_id = |nodes: &Together| nodes.worlds[0].handle.0.nodes.member_id();
    let before = member_id(&nodes);
    // As by a node that was cut off and whose call arrives late: the members do not know of it.
    nodes.store.release_owner(ShardId(0), before).await.unwrap();
    nodes.worlds[0].schedule("a", ms(0), A).await;
    nodes.pass(RESUMED_WITHIN).await;
    let call = nodes.worlds[0].call().await;
    assert_ne!(member_id(&nodes), before);
    call.answer(Delivery::Confirmed);
    nodes.pass(50).await;
    assert_eq!(nodes.worlds[0].state("a").await, State::Finished);
}

#[tokio::test(start_paused = true)]
async fn t16_what_was_claimed_before_a_pause_is_not_sent_after_it() {
    let mut nodes = Together::start(1).await;
    let clock = nodes.clock.clone();
    nodes.worlds[0].flaky.delay_claim(clock, ms(2_000));
    nodes.worlds[0].schedule("a", ms(0), A).await;
    nodes.worlds[0].quiet().await;
    assert!(nodes.worlds[0].try_call().is_none(), "its heartbeats may be missing for 2 s");
    nodes.pass(1_000).await;
    assert_eq!(nodes.worlds[0].flaky.released(), 1);
    let call = nodes.worlds[0].call().await;
    assert_eq!(call.envelope.attempt, 1, "it was released and not counted");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_is_followed_at_once() {
    let mut nodes = Together::start(2).await;
    let owner = nodes.owner();
    nodes.worlds[owner].schedule("running", ms(0), A).await;
    nodes.pass(50).await;
    let running = nodes.worlds[owner].call().await;
    let handle = nodes.worlds[owner].handle.clone();
    let drain = tokio::spawn(async move { handle.drain().await });
    nodes.pass(300).await;
    nodes.worlds[owner].schedule("next", ms(0), B).await;
    nodes.pass(50).await;
    let next = nodes.worlds[1 - owner].call().await;
    assert_eq!(next.envelope.id.as_str(), "next");
    next.answer(Delivery::Confirmed);
    running.answer(Delivery::Confirmed);
    nodes.pass(300).await;
    drain.await.unwrap();
    assert_eq!(nodes.worlds[1 - owner].handle.members().len(), 1);
    let view = nodes.worlds[owner].view("running").await;
    assert_eq!((view.state, view.attempts()), (State::Finished, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_gets_firings_of_another_nodes_shard() {
    let nodes = Together::start(2).await;
    let owner = nodes.owner();
    let other = &nodes.worlds[1 - owner];
    let (handle, wanted) = (other.handle.clone(), request(other, 1, MINUTE));
    let waits = tokio::spawn(async move { handle.lease(wanted).await.unwrap() });
    // The owner learns of the waits with the next heartbeats.
    nodes.pass(600).await;
    let polls = other.flaky.polls();
    other.schedule_pull("x", ms(100)).await;
    nodes.pass(100).await;
    assert!(waits.is_finished());
    let leased = waits.await.unwrap();
    assert_eq!(leased.firings.len(), 1);
    leased.delivered();
    assert!(other.flaky.polls() - polls <= 2, "announced, not found by a poll");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_finds_unannounced_firings() {
    let nodes = Together::start(2).await;
    let other = &nodes.worlds[1 - nodes.owner()];
    other.schedule_pull("x", ms(100)).await;
    let (handle, wanted) = (other.handle.clone(), request(other, 1, MINUTE));
    nodes.worlds[nodes.owner()].flaky.cut_off(true);
    let waits = tokio::spawn(async move { handle.lease(wanted).await.unwrap() });
    nodes.pass(1_300).await;
    assert_eq!(waits.await.unwrap().firings.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn p3_leases_of_nodes_that_died_unobserved_end() {
    let mut nodes = Together::start(1).await;
    nodes.worlds[0].handle.drain().await;
    nodes.worlds[0].schedule("a", ms(0), A).await;
    let request = claim_as(&nodes, MemberId(4_711), LaneKey::Receiver(Arc::from(A)));
    let claimed = nodes.store.claim(ShardId(0), request).await.unwrap();
    assert_eq!(claimed.firings.len(), 1);
    nodes.join().await;
    nodes.pass(RESUMED_WITHIN).await;
    let call = nodes.worlds[1].call().await;
    assert_eq!((call.envelope.id.as_str(), call.envelope.attempt), ("a", 2));
}

#[tokio::test(start_paused = true)]
async fn p3_leases_of_a_dead_member_end_in_all_shards() {
    let mut nodes = Together::start(1).await;
    let dies = MemberId(4_712);
    let heartbeat = |number, presence| Heartbeat {
        member_id: dies,
        number,
        list: 1,
        name: "dies".to_owned(),
        protocols: (1, 1),
        presence,
        waits: NamespaceFilter::default(),
        dead: Vec::new(),
    };
    let deployment = nodes.store.deployment().unwrap();
    deployment.heartbeat(ShardId(0), heartbeat(1, MembershipStage::Here)).await.unwrap();
    // It owns no shard, so no shard moves when it dies.
    deployment.heartbeat(ShardId(0), heartbeat(2, MembershipStage::Leaving)).await.unwrap();
    nodes.pass(500).await;
    assert_eq!(nodes.worlds[0].handle.members().len(), 2);
    let origin = LaneKey::Receiver(Arc::from(A));
    nodes.worlds[0].flaky.cut_off(true);
    nodes.worlds[0].schedule("a", ms(0), A).await;
    let claimed = nodes.store.claim(ShardId(0), claim_as(&nodes, dies, origin)).await.unwrap();
    assert_eq!(claimed.firings.len(), 1);
    nodes.worlds[0].flaky.cut_off(false);
    nodes.pass(RESUMED_WITHIN).await;
    let call = nodes.worlds[0].call().await;
    assert_eq!((call.envelope.id.as_str(), call.envelope.attempt), ("a", 2));
}

#[tokio::test(start_paused = true)]
async fn p9_idle_nodes_leave_the_shards_of_others_alone() {
    let nodes = Together::start(3).await;
    let owner = nodes.owner();
    let polls = |i: usize| nodes.worlds[i].flaky.polls();
    let before: Vec<_> = (0..3).map(polls).collect();
    nodes.pass(10_000).await;
    for i in (0..3).filter(|i| *i != owner) {
        assert_eq!(polls(i), before[i], "node {i} has no business there");
    }
    assert!(StandIn::deployment(&*nodes.worlds[owner].flaky).is_some());
}

#[tokio::test(start_paused = true)]
async fn p10_two_nodes_keep_a_lanes_limit_together() {
    let mut nodes = Together::start(2).await;
    let owner = nodes.owner();
    nodes.worlds[owner].limit_in_flight(2).await;
    for id in ["a", "b", "c", "d"] {
        nodes.worlds[owner].schedule(id, ms(0), A).await;
    }
    nodes.pass(500).await;
    let mut calls = Vec::new();
    for world in &mut nodes.worlds {
        calls.extend(std::iter::from_fn(|| world.try_call()));
    }
    assert_eq!(calls.len(), 2);
    for call in calls {
        call.answer(Delivery::Confirmed);
    }
    nodes.pass(500).await;
    for world in &mut nodes.worlds {
        for call in std::iter::from_fn(|| world.try_call()).collect::<Vec<_>>() {
            call.answer(Delivery::Confirmed);
        }
    }
    nodes.pass(500).await;
    assert_eq!(nodes.worlds[owner].state("d").await, State::Finished);
}
