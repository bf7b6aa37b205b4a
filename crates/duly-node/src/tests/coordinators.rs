//! Several nodes and three coordinator shards: a shard is lost, cut off from one node, or replaced.

use duly_core::shard::ShardId;
use duly_store::MemberId;

use super::flaky::Cut;
use super::nodes::Together;
use super::*;

const COORDINATORS: [ShardId; 3] = [ShardId(0), ShardId(1), ShardId(2)];

impl Together {
    async fn of_three() -> Self {
        Self::coordinated_by(&COORDINATORS, 3).await
    }

    fn member_ids(&self) -> Vec<MemberId> {
        self.worlds.iter().map(|world| world.handle.0.nodes.member_id()).collect()
    }

    /// Returns, for each node, whether it may start something.
    fn acting(&self) -> Vec<bool> {
        self.worlds.iter().map(|world| world.handle.health().cut_off_for.is_none()).collect()
    }

    /// Returns the number of members that each node lists.
    fn seen(&self) -> Vec<usize> {
        self.worlds.iter().map(|world| world.handle.members().len()).collect()
    }

    /// Sets the fate of every node's heartbeats.
    fn cut_all(&self, coordinator: ShardId, cut: Option<Cut>) {
        for world in &self.worlds {
            world.flaky.cut_from(coordinator, cut);
        }
    }

    /// Schedules a timer that is due, and confirms it.
    async fn fires(&mut self, id: &str) {
        self.worlds[0].schedule(id, ms(0), A).await;
        self.pass(500).await;
        let mut calls: Vec<_> = self.worlds.iter_mut().filter_map(World::try_call).collect();
        assert_eq!(calls.len(), 1, "{id} is sent once");
        calls.remove(0).answer(Delivery::Confirmed);
        self.pass(100).await;
        assert_eq!(self.worlds[0].state(id).await, State::Finished);
    }
}

#[tokio::test(start_paused = true)]
async fn any_one_coordinator_shard_may_be_lost() {
    let mut nodes = Together::of_three().await;
    let before = nodes.member_ids();
    for lost in COORDINATORS {
        for cut in [Cut::Refused, Cut::Both, Cut::Replies] {
            nodes.cut_all(lost, Some(cut));
            for _ in 0..100 {
                nodes.pass(50).await;
                assert_eq!(nodes.acting(), [true; 3], "without {lost:?}, {cut:?}");
            }
            assert_eq!(nodes.seen(), [3; 3]);
            nodes.fires(&format!("without-{}-{cut:?}", lost.0)).await;
            nodes.cut_all(lost, None);
            nodes.pass(12_000).await;
            assert_eq!(nodes.member_ids(), before, "no node was evicted: {lost:?}, {cut:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_stop_without_a_majority_and_resume_with_one() {
    let mut nodes = Together::of_three().await;
    let before = nodes.member_ids();
    nodes.cut_all(COORDINATORS[0], Some(Cut::Refused));
    nodes.cut_all(COORDINATORS[2], Some(Cut::Both));
    nodes.pass(1_550).await;
    assert_eq!(nodes.acting(), [false; 3]);
    nodes.worlds[0].schedule("a", ms(0), A).await;
    nodes.pass(10_000).await;
    assert!(nodes.worlds.iter_mut().all(|world| world.try_call().is_none()));
    nodes.cut_all(COORDINATORS[2], None);
    // A heartbeat that hangs times out after a second.
    nodes.pass(1_500).await;
    assert_eq!((nodes.acting(), nodes.seen()), (vec![true; 3], vec![3; 3]));
    let calls = nodes.worlds.iter_mut().filter_map(World::try_call).count();
    assert_eq!((calls, nodes.member_ids()), (1, before));
}

#[tokio::test(start_paused = true)]
async fn t16_a_cut_between_one_node_and_one_master_stops_nothing() {
    for cut in [Cut::Both, Cut::Replies, Cut::Refused] {
        let mut nodes = Together::of_three().await;
        let (before, owner) = (nodes.member_ids(), nodes.owner());
        nodes.worlds[owner].schedule("long", ms(0), A).await;
        nodes.pass(50).await;
        let call = nodes.worlds[owner].call().await;
        nodes.worlds[owner].flaky.cut_from(COORDINATORS[1], Some(cut));
        for _ in 0..200 {
            nodes.pass(50).await;
            assert_eq!(nodes.acting(), [true; 3], "{cut:?}");
        }
        assert_eq!((nodes.seen(), nodes.owner()), (vec![3; 3], owner), "{cut:?}");
        assert!(nodes.worlds.iter_mut().all(|world| world.try_call().is_none()));
        let view = nodes.worlds[owner].view("long").await;
        assert_eq!((view.state, view.attempts()), (State::InFlight, 1), "no node ended its lease");
        call.answer(Delivery::Confirmed);
        nodes.fires("next").await;
        nodes.worlds[owner].flaky.cut_from(COORDINATORS[1], None);
        nodes.pass(5_000).await;
        assert_eq!(nodes.member_ids(), before, "{cut:?}");
        nodes.pass(7_000).await;
        let is_new = nodes.member_ids()[owner] != before[owner];
        assert_eq!(is_new, cut != Cut::Replies, "a shard evicted it: it counts that one again");
        nodes.pass(3_000).await;
        assert_eq!((nodes.acting(), nodes.seen()), (vec![true; 3], vec![3; 3]));
        nodes.fires("last").await;
    }
}

#[tokio::test(start_paused = true)]
async fn t16_a_node_without_a_majority_stops_alone() {
    let mut nodes = Together::of_three().await;
    let owner = nodes.owner();
    nodes.worlds[owner].schedule("sent", ms(0), A).await;
    nodes.pass(50).await;
    let sent = nodes.worlds[owner].call().await;
    // This firing is claimed, and the reply is delayed.
    let claimed = nodes.worlds[owner].flaky.hold_claim();
    nodes.worlds[owner].schedule("claimed", ms(0), B).await;
    nodes.pass(50).await;
    for coordinator in &COORDINATORS[..2] {
        nodes.worlds[owner].flaky.cut_from(*coordinator, Some(Cut::Both));
    }
    nodes.pass(1_550).await;
    let acting: Vec<_> = (0..3).map(|i| i != owner).collect();
    assert_eq!(nodes.acting(), acting);
    claimed.notify_one();
    nodes.pass(1_450).await;
    assert!(nodes.worlds[owner].try_call().is_none(), "what it had claimed it does not send");
    let mut calls: Vec<_> =
        nodes.worlds.iter_mut().flat_map(|world| std::iter::from_fn(|| world.try_call())).collect();
    calls.sort_by(|a, b| a.envelope.id.cmp(&b.envelope.id));
    let ids: Vec<_> = calls.iter().map(|call| call.envelope.id.as_str()).collect();
    assert_eq!(ids, ["claimed", "sent"], "the others send it within 3 s");
    assert_eq!(calls[1].envelope.attempt, 2);
    assert!(nodes.worlds[0].view("sent").await.maybe_delivered());
    for call in calls {
        call.answer(Delivery::Confirmed);
    }
    sent.answer(Delivery::Rejected { reason: "too late".to_owned() });
    nodes.pass(100).await;
    for id in ["claimed", "sent"] {
        assert_eq!(nodes.worlds[0].state(id).await, State::Finished);
    }
    // It can still announce that at the third shard.
    assert_ne!(nodes.owner_seen_by((owner + 1) % 3), owner);
    for coordinator in &COORDINATORS[..2] {
        nodes.worlds[owner].flaky.cut_from(*coordinator, None);
    }
    nodes.pass(4_000).await;
    assert_eq!((nodes.acting(), nodes.seen()), (vec![true; 3], vec![3; 3]));
    nodes.fires("last").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_majority_blocks_no_shard() {
    let mut nodes = Together::of_three().await;
    let owner = nodes.owner();
    // One master is down for all nodes, and one for the owner: no majority can evict a member.
    nodes.cut_all(COORDINATORS[0], Some(Cut::Refused));
    nodes.worlds[owner].flaky.cut_from(COORDINATORS[1], Some(Cut::Both));
    nodes.pass(3_000).await;
    nodes.worlds[owner].schedule("a", ms(0), A).await;
    nodes.pass(1_000).await;
    let calls: Vec<_> = (0..3).filter(|i| nodes.worlds[*i].try_call().is_some()).collect();
    assert!(calls.len() == 1 && calls != [owner], "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_forgot_its_members_takes_them_in_again() {
    let mut nodes = Together::of_three().await;
    let before = nodes.member_ids();
    for forgets in COORDINATORS {
        nodes.store.forget_members(forgets).unwrap();
        for _ in 0..60 {
            nodes.pass(50).await;
            assert_eq!(nodes.acting(), [true; 3]);
        }
    }
    // All at once, as if every server failed over.
    for forgets in COORDINATORS {
        nodes.store.forget_members(forgets).unwrap();
    }
    nodes.pass(12_000).await;
    assert_eq!((nodes.seen(), nodes.member_ids()), (vec![3; 3], before));
    nodes.fires("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_new_coordinator_list_gives_new_member_ids() {
    let mut nodes = Together::of_three().await;
    let before = nodes.member_ids();
    nodes.worlds[nodes.owner()].schedule("long", ms(0), A).await;
    nodes.pass(50).await;
    let owner = nodes.owner();
    let old = nodes.worlds[owner].call().await;
    nodes.store.change_coordinators(&[ShardId(3), ShardId(4), ShardId(1)]).unwrap();
    nodes.pass(1_000).await;
    assert_eq!(nodes.acting(), [true; 3]);
    assert!(nodes.member_ids().iter().zip(&before).all(|(now, before)| now != before));
    assert_eq!(nodes.worlds[0].view("long").await.attempts(), 1, "its lease is good for a while");
    nodes.pass(2_500).await;
    assert_eq!(nodes.seen(), [3; 3], "the old member ids are evicted");
    let mut again: Vec<_> = nodes.worlds.iter_mut().filter_map(World::try_call).collect();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].envelope.attempt, 2);
    again.remove(0).answer(Delivery::Confirmed);
    drop(old);
    nodes.pass(100).await;
    assert_eq!(nodes.worlds[0].state("long").await, State::Finished);
}

#[tokio::test(start_paused = true)]
async fn a_node_waiting_for_old_nodes_is_ready_but_idle() {
    let mut nodes = Together::coordinated_by(&COORDINATORS, 1).await;
    nodes.worlds[0].flaky.waits_for(Some(&["old-1", "old-2"]));
    nodes.pass(2_000).await;
    let health = nodes.worlds[0].handle.health();
    assert_eq!(
        (health.cut_off_for, health.waits_for),
        (None, vec!["old-1".into(), "old-2".into()])
    );
    nodes.worlds[0].schedule("a", ms(0), A).await;
    nodes.pass(3_000).await;
    assert!(nodes.worlds[0].try_call().is_none());
    nodes.worlds[0].flaky.waits_for(None);
    nodes.pass(1_000).await;
    nodes.worlds[0].call().await.answer(Delivery::Confirmed);
    assert_eq!(nodes.worlds[0].handle.health().waits_for, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_leaving_node_notifies_every_coordinator_shard() {
    let nodes = Together::of_three().await;
    let gone = nodes.member_ids()[0];
    // One shard does not reply; that delays the node for no longer than the time-out of a heartbeat.
    nodes.worlds[0].flaky.cut_from(COORDINATORS[1], Some(Cut::Both));
    let handle = nodes.worlds[0].handle.clone();
    let drain = tokio::spawn(async move { handle.drain().await });
    nodes.pass(1_100).await;
    assert!(drain.is_finished());
    for world in &nodes.worlds[1..] {
        let members = world.handle.members();
        assert!(members.len() == 2 && members.iter().all(|member| member.member_id != gone));
    }
}
