use super::*;

mod simulated;

const SHARDS: u16 = 64;
const FIRST: ShardId = ShardId(0);
const SECOND: ShardId = ShardId(20);
const THIRD: ShardId = ShardId(40);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn list(version: u64, shards: &[ShardId]) -> Coordinators {
    Coordinators { version, shards: shards.to_vec() }
}

fn member(member_id: u64, heartbeats: u64) -> Member {
    Member {
        member_id: MemberId(member_id),
        name: format!("n{member_id}"),
        protocols: PROTOCOLS,
        presence: MembershipStage::Here,
        heartbeats,
        waits: NamespaceFilter::default(),
    }
}

fn members_reply(members: &[(u64, u64)], evicted: &[u64]) -> HeartbeatReply {
    HeartbeatReply::Members {
        members: members
            .iter()
            .map(|(member_id, heartbeats)| member(*member_id, *heartbeats))
            .collect(),
        evicted: evicted.iter().copied().map(MemberId).collect(),
    }
}

/// Sends a heartbeat that is answered at once.
fn exchange(
    node: &mut Membership,
    shard: ShardId,
    at: Duration,
    reply: HeartbeatReply,
) -> MembershipChanges {
    let (sent, _) = node.heartbeat(shard, at, "me", NamespaceFilter::default());
    node.on_reply(sent, at, reply)
}

/// Creates a member with this id since `at`, alone, with one coordinator shard.
fn alone(member_id: u64, at: Duration) -> Membership {
    let mut node = Membership::new(SHARDS, list(1, &[FIRST]), MemberId(member_id));
    exchange(&mut node, FIRST, at, members_reply(&[(member_id, 1)], &[]));
    node
}

/// Creates a member that knows member 8, with three coordinator shards.
fn of_three() -> Membership {
    let mut node = Membership::new(SHARDS, list(1, &[FIRST, SECOND, THIRD]), MemberId(7));
    for shard in [FIRST, SECOND, THIRD] {
        exchange(&mut node, shard, ms(0), members_reply(&[(7, 1), (8, 1)], &[]));
    }
    node
}

fn presence(node: &mut Membership, at: Duration) -> MembershipStage {
    node.heartbeat(FIRST, at, "me", NamespaceFilter::default()).1.presence
}

#[test]
fn a_node_does_not_act_before_it_is_a_member() {
    let mut node = Membership::new(SHARDS, list(1, &[FIRST]), MemberId(7));
    assert!(!node.may_act(ms(0)) && (0..SHARDS).all(|s| !node.is_owner_of(ShardId(s))));
    assert_eq!(presence(&mut node, ms(0)), MembershipStage::Joining);
    let mut node = alone(7, ms(10));
    assert!(node.may_act(ms(10)) && (0..SHARDS).all(|s| node.is_owner_of(ShardId(s))));
    assert_eq!(presence(&mut node, ms(10)), MembershipStage::Here);
}

#[test]
fn a_node_acts_while_a_majority_acknowledges_it() {
    let mut node = Membership::new(SHARDS, list(1, &[FIRST, SECOND, THIRD]), MemberId(7));
    exchange(&mut node, FIRST, ms(0), members_reply(&[(7, 1)], &[]));
    assert!(!node.may_act(ms(1)), "one of three");
    assert_eq!(node.silent_for(ms(1)), None);
    let changes = exchange(&mut node, THIRD, ms(500), members_reply(&[(7, 2)], &[]));
    assert!(changes.acts_again && node.may_act(ms(500)));
    assert_eq!(node.silent_for(ms(600)), Some(ms(600)));
    exchange(&mut node, SECOND, ms(1_000), members_reply(&[(7, 3)], &[]));
    assert!(node.may_act(ms(1_999)), "by the second and the third");
    assert!(!node.may_act(ms(2_000)));
    assert_eq!(presence(&mut node, ms(2_000)), MembershipStage::Joining);
}

#[test]
fn t16_a_paused_node_detects_it_before_it_acts() {
    let mut node = alone(7, ms(1_000));
    // The reply came late: the time at which the heartbeat was sent counts.
    let (sent, _) = node.heartbeat(FIRST, ms(1_250), "me", NamespaceFilter::default());
    node.on_reply(sent, ms(2_600), members_reply(&[(7, 2)], &[]));
    assert!(node.may_act(ms(2_749)));
    assert!(!node.may_act(ms(2_750)), "1.5 s after the beat was sent");
    let changes = exchange(&mut node, FIRST, ms(3_000), members_reply(&[(7, 3)], &[]));
    assert!(changes.acts_again && node.may_act(ms(3_002)));
    assert_eq!(changes.gone, []);
}

#[test]
fn every_shard_has_one_owner_and_only_those_of_the_dead_move() {
    let member_ids = [11, 22, 33];
    let view = |me: u64, alive: &[u64]| {
        let mut node = Membership::new(SHARDS, list(1, &[FIRST]), MemberId(me));
        let members: Vec<_> = alive.iter().map(|member_id| (*member_id, 1)).collect();
        exchange(&mut node, FIRST, ms(0), members_reply(&members, &[]));
        (0..SHARDS).filter(|shard| node.is_owner_of(ShardId(*shard))).collect::<Vec<_>>()
    };
    let mut all: Vec<u16> = member_ids.iter().flat_map(|me| view(*me, &member_ids)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..SHARDS).collect::<Vec<_>>());
    for me in member_ids {
        let before = view(me, &member_ids);
        assert!((10..=34).contains(&before.len()), "{me} has {}", before.len());
        for dead in member_ids.iter().filter(|member_id| **member_id != me) {
            let left: Vec<_> =
                member_ids.iter().copied().filter(|member_id| member_id != dead).collect();
            let after = view(me, &left);
            assert!(before.iter().all(|shard| after.contains(shard)), "no member loses a shard");
        }
    }
}

#[test]
fn a_node_without_a_majority_owns_no_shard() {
    let mut node = alone(7, ms(0));
    let mut joining = member(8, 5);
    joining.presence = MembershipStage::Joining;
    let members = vec![member(7, 2), joining];
    exchange(&mut node, FIRST, ms(250), HeartbeatReply::Members { members, evicted: Vec::new() });
    assert!((0..SHARDS).all(|shard| node.is_owner_of(ShardId(shard))));
    assert_eq!(node.others().count(), 1, "it is a member all the same");
}

#[test]
fn t15_stalled_member_is_named_dead_with_its_heartbeat_number() {
    let mut node = alone(7, ms(0));
    let changes = exchange(&mut node, FIRST, ms(250), members_reply(&[(7, 2), (8, 40)], &[]));
    assert_eq!(changes.joined, [MemberId(8)]);
    for heartbeat in 2..8 {
        exchange(
            &mut node,
            FIRST,
            ms(250 * heartbeat),
            members_reply(&[(7, heartbeat + 1), (8, 40)], &[]),
        );
        assert!(!node.has_dead(FIRST), "at beat {heartbeat}");
    }
    exchange(&mut node, FIRST, ms(2_000), members_reply(&[(7, 9), (8, 40)], &[]));
    assert!(node.has_dead(FIRST));
    let (_, heartbeat) = node.heartbeat(FIRST, ms(2_250), "", NamespaceFilter::default());
    assert_eq!((heartbeat.member_id, heartbeat.dead), (MemberId(7), vec![(MemberId(8), Some(40))]));
    let changes = exchange(&mut node, FIRST, ms(2_250), members_reply(&[(7, 10)], &[8]));
    assert_eq!(changes.gone, [MemberId(8)]);
    assert!(!changes.gained.is_empty() && (0..SHARDS).all(|s| node.is_owner_of(ShardId(s))));
    let changes = exchange(&mut node, FIRST, ms(2_500), members_reply(&[(7, 11)], &[8]));
    assert_eq!(changes, MembershipChanges::default(), "once");
}

#[test]
fn t16_stall_time_counts_from_the_first_reply() {
    let mut node = alone(7, ms(0));
    // The listed heartbeat may have arrived just before the reply was sent.
    let (sent, _) = node.heartbeat(FIRST, ms(250), "me", NamespaceFilter::default());
    node.on_reply(sent, ms(650), members_reply(&[(7, 2), (8, 40)], &[]));
    for heartbeat in 0..7 {
        let at = ms(650 + 290 * heartbeat);
        exchange(&mut node, FIRST, at, members_reply(&[(7, heartbeat + 3), (8, 40)], &[]));
        assert!(!node.has_dead(FIRST), "1.74 s after that reply at most: {at:?}");
    }
    exchange(&mut node, FIRST, ms(2_400), members_reply(&[(7, 10), (8, 40)], &[]));
    assert!(node.has_dead(FIRST));
}

#[test]
fn t16_an_outage_or_own_pause_evicts_no_member() {
    let mut node = alone(7, ms(0));
    for heartbeat in 1..7 {
        exchange(
            &mut node,
            FIRST,
            ms(250 * heartbeat),
            members_reply(&[(7, heartbeat + 1), (8, 40)], &[]),
        );
    }
    assert_eq!(node.stalled_for(MemberId(8)), ms(1_250));
    // No reply for a minute; the other node had none either.
    exchange(&mut node, FIRST, ms(60_000), members_reply(&[(7, 30), (8, 40)], &[]));
    assert!(node.stalled_for(MemberId(8)).is_zero(), "it counts from the start");
    exchange(&mut node, FIRST, ms(60_700), members_reply(&[(7, 31), (8, 40)], &[]));
    assert_eq!(node.stalled_for(MemberId(8)), GAP_MAX);
    exchange(&mut node, FIRST, ms(60_950), members_reply(&[(7, 32), (8, 41)], &[]));
    assert!(node.stalled_for(MemberId(8)).is_zero());
}

#[test]
fn a_member_is_gone_after_fresh_evictions_by_a_majority() {
    let mut node = of_three();
    let changes = exchange(&mut node, FIRST, ms(2_000), members_reply(&[(7, 4)], &[8]));
    assert_eq!(changes.gone, [], "one of three");
    let changes = exchange(&mut node, SECOND, ms(2_000), members_reply(&[(7, 5)], &[]));
    assert_eq!(changes.gone, [], "it is not seen, and that is no eviction");
    assert!(node.others().next().is_none());
    let changes = exchange(&mut node, THIRD, ms(3_500), members_reply(&[(7, 6)], &[8]));
    assert_eq!(changes.gone, [], "what the first said is old");
    let changes = exchange(&mut node, FIRST, ms(3_600), members_reply(&[(7, 7)], &[8]));
    assert_eq!(changes.gone, [MemberId(8)]);
    // A shard that does not know of it still lists it.
    let changes = exchange(&mut node, SECOND, ms(3_700), members_reply(&[(7, 8), (8, 90)], &[]));
    assert_eq!(changes.joined, []);
    assert!(node.others().next().is_none() && !node.watched.contains(&MemberId(8)));
}

#[test]
fn an_unlisted_known_member_is_named_dead() {
    let mut node = of_three();
    for heartbeat in 1..9 {
        let at = ms(250 * heartbeat);
        exchange(
            &mut node,
            FIRST,
            at,
            members_reply(&[(7, 10 + heartbeat), (8, heartbeat + 1)], &[]),
        );
        exchange(&mut node, SECOND, at, members_reply(&[(7, 20 + heartbeat)], &[]));
    }
    assert!(node.has_dead(SECOND) && !node.has_dead(FIRST));
    let (_, heartbeat) = node.heartbeat(SECOND, ms(2_250), "", NamespaceFilter::default());
    assert_eq!(heartbeat.dead, [(MemberId(8), None)]);
    assert_eq!(node.others().count(), 1, "it is alive by the first shard");
}

#[test]
fn an_unknown_lease_holder_is_watched() {
    let mut node = alone(7, ms(0));
    node.suspect(MemberId(9));
    node.suspect(MemberId(7));
    for heartbeat in 1..9 {
        exchange(&mut node, FIRST, ms(250 * heartbeat), members_reply(&[(7, heartbeat + 1)], &[]));
    }
    let (_, heartbeat) = node.heartbeat(FIRST, ms(2_250), "", NamespaceFilter::default());
    assert_eq!(heartbeat.dead, [(MemberId(9), None)]);
    let changes = exchange(&mut node, FIRST, ms(2_250), members_reply(&[(7, 10)], &[9]));
    assert_eq!(changes.gone, [MemberId(9)]);
    // Another of our shards has leases of it too.
    node.suspect(MemberId(9));
    let changes = exchange(&mut node, FIRST, ms(2_500), members_reply(&[(7, 11)], &[9]));
    assert_eq!(changes.gone, [MemberId(9)], "again");
}

#[test]
fn a_node_evicted_by_a_majority_rejoins() {
    let mut node = of_three();
    exchange(&mut node, FIRST, ms(250), HeartbeatReply::Evicted);
    assert_eq!(node.rejoin_if_due(ms(250), MemberId(9)), None);
    assert!(node.may_act(ms(250)), "by the other two");
    exchange(&mut node, THIRD, ms(300), HeartbeatReply::Evicted);
    assert!(!node.may_act(ms(300)), "by one of three");
    assert_eq!(node.rejoin_if_due(ms(300), MemberId(9)), Some(RejoinReason::Evicted));
    assert_eq!(node.member_id(), MemberId(9));
    assert!(
        !node.is_owner_of(FIRST) && node.watched.contains(&MemberId(7)),
        "its old member id may hold leases"
    );
    let (late, _) = of_three().heartbeat(SECOND, ms(200), "", NamespaceFilter::default());
    node.on_reply(late, ms(310), members_reply(&[(7, 1)], &[]));
    assert_eq!(node.silent_for(ms(310)), None, "a reply to the old member id is ignored");
}

#[test]
fn a_node_evicted_by_a_minority_rejoins_later() {
    let mut node = of_three();
    for at in (250..10_000).step_by(250) {
        exchange(&mut node, FIRST, ms(at), HeartbeatReply::Evicted);
        exchange(&mut node, SECOND, ms(at), members_reply(&[(7, at), (8, at)], &[]));
        exchange(&mut node, THIRD, ms(at), members_reply(&[(7, at), (8, at)], &[]));
        assert_eq!(node.rejoin_if_due(ms(at), MemberId(9)), None, "at {at} ms");
        assert!(node.may_act(ms(at)));
    }
    assert_eq!(node.rejoin_if_due(ms(10_249), MemberId(9)), None);
    assert_eq!(node.rejoin_if_due(ms(10_250), MemberId(9)), Some(RejoinReason::EvictedByMinority));
}

#[test]
fn a_node_unable_to_act_for_long_rejoins() {
    let mut node = of_three();
    exchange(&mut node, FIRST, ms(59_000), members_reply(&[(7, 5)], &[]));
    assert_eq!(node.rejoin_if_due(ms(59_999), MemberId(9)), None);
    assert_eq!(node.rejoin_if_due(ms(60_000), MemberId(9)), Some(RejoinReason::Idle));
    assert_eq!(
        node.rejoin_if_due(ms(200_000), MemberId(10)),
        None,
        "a member id that never acted is kept"
    );
}

#[test]
fn a_new_coordinator_list_gives_a_new_member_id() {
    let mut node = of_three();
    let (sent, _) = node.heartbeat(FIRST, ms(100), "", NamespaceFilter::default());
    assert_eq!(node.switch_list(list(1, &[FIRST, SECOND, THIRD]), MemberId(9)), None);
    let next = list(2, &[FIRST, ShardId(50), ShardId(60)]);
    assert_eq!(node.switch_list(next, MemberId(9)), Some(RejoinReason::NewList));
    node.on_reply(sent, ms(200), members_reply(&[(7, 1)], &[]));
    assert_eq!((node.member_id(), node.silent_for(ms(200))), (MemberId(9), None));
    assert!(node.watched.contains(&MemberId(8)), "the others are watched still");
    let (_, heartbeat) = node.heartbeat(FIRST, ms(200), "", NamespaceFilter::default());
    assert_eq!((heartbeat.list, heartbeat.member_id), (2, MemberId(9)));
}

#[test]
fn a_node_that_waits_for_old_ones_does_not_act() {
    let mut node = of_three();
    exchange(&mut node, FIRST, ms(250), HeartbeatReply::Waiting(vec!["old".to_owned()]));
    assert!(!node.may_act(ms(250)) && node.is_waiting());
    assert_eq!(node.waits_for(), ["old"]);
    // That shard does not reply: the old nodes may still act.
    exchange(&mut node, SECOND, ms(9_000), members_reply(&[(7, 9)], &[]));
    exchange(&mut node, THIRD, ms(9_000), members_reply(&[(7, 9)], &[]));
    assert!(!node.may_act(ms(9_000)));
    exchange(&mut node, FIRST, ms(9_250), members_reply(&[(7, 10)], &[]));
    assert!(node.may_act(ms(9_250)) && !node.is_waiting());
}

#[test]
fn a_leaving_node_owns_nothing_and_sends_heartbeats() {
    let mut node = alone(7, ms(0));
    exchange(&mut node, FIRST, ms(250), members_reply(&[(7, 2), (8, 1)], &[]));
    node.leave();
    assert!((0..SHARDS).all(|s| !node.is_owner_of(ShardId(s))));
    assert_eq!(presence(&mut node, ms(250)), MembershipStage::Leaving);
    let mut other = alone(8, ms(0));
    let mut leaving = member(7, 3);
    leaving.presence = MembershipStage::Leaving;
    let members = vec![leaving, member(8, 2)];
    exchange(&mut other, FIRST, ms(500), HeartbeatReply::Members { members, evicted: Vec::new() });
    assert!((0..SHARDS).all(|s| other.is_owner_of(ShardId(s))));
    let changes = exchange(&mut other, FIRST, ms(750), members_reply(&[(8, 3)], &[7]));
    assert_eq!(changes.gone, [MemberId(7)], "its leases were good until now");
}
