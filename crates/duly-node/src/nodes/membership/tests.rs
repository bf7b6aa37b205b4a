use super::*;

const SHARDS: u16 = 64;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn member(run: u64, beats: u64) -> Member {
    Member {
        run: NodeRun(run),
        name: format!("n{run}"),
        protocols: PROTOCOLS,
        is_leaving: false,
        beats,
        waits: Interest::default(),
    }
}

fn heard(members: &[(u64, u64)]) -> Heard {
    Heard::Members(members.iter().map(|(run, beats)| member(*run, *beats)).collect())
}

/// A member of this run since `at`, alone.
fn alone(run: u64, at: Duration) -> Membership {
    let mut node = Membership::new(SHARDS);
    let beat = node.beat(NodeRun(run), "me", Interest::default());
    assert_eq!((beat.run, beat.presence), (NodeRun(run), Presence::Joining));
    node.heard(at, at, heard(&[(run, 1)]));
    node
}

#[test]
fn nobody_acts_before_it_is_a_member() {
    let node = Membership::new(SHARDS);
    assert!(!node.may_act(ms(0)) && (0..SHARDS).all(|s| !node.owns(ShardId(s))));
    let node = alone(7, ms(10));
    assert!(node.may_act(ms(10)) && (0..SHARDS).all(|s| node.owns(ShardId(s))));
}

#[test]
fn t16_a_node_that_stood_still_notices_before_it_acts() {
    let mut node = alone(7, ms(1_000));
    // The answer came late: what counts is when the beat was sent.
    node.heard(ms(1_250), ms(2_600), heard(&[(7, 2)]));
    assert!(node.may_act(ms(2_749)));
    assert!(!node.may_act(ms(2_750)), "1.5 s after the beat was sent");
    let changes = node.heard(ms(3_000), ms(3_001), heard(&[(7, 3)]));
    assert!(changes.acts_again && node.may_act(ms(3_002)));
    assert_eq!(changes.gone, []);
}

#[test]
fn every_shard_has_one_owner_and_only_those_of_the_dead_move() {
    let runs = [11, 22, 33];
    let view = |me: u64, alive: &[u64]| {
        let mut node = Membership::new(SHARDS);
        node.beat(NodeRun(me), "", Interest::default());
        let members: Vec<_> = alive.iter().map(|run| (*run, 1)).collect();
        node.heard(ms(0), ms(0), heard(&members));
        (0..SHARDS).filter(|shard| node.owns(ShardId(*shard))).collect::<Vec<_>>()
    };
    let mut all: Vec<u16> = runs.iter().flat_map(|me| view(*me, &runs)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..SHARDS).collect::<Vec<_>>());
    for me in runs {
        let before = view(me, &runs);
        assert!((10..=34).contains(&before.len()), "{me} has {}", before.len());
        for dead in runs.iter().filter(|run| **run != me) {
            let left: Vec<_> = runs.iter().copied().filter(|run| run != dead).collect();
            let after = view(me, &left);
            assert!(before.iter().all(|shard| after.contains(shard)), "nobody loses a shard");
        }
    }
}

#[test]
fn t15_a_count_that_stands_still_is_said_to_be_dead_with_its_count() {
    let mut node = alone(7, ms(0));
    let changes = node.heard(ms(250), ms(251), heard(&[(7, 2), (8, 40)]));
    assert_eq!(changes.joined, [NodeRun(8)]);
    for beat in 2..9 {
        let at = ms(250 * beat);
        assert!(!node.has_dead(), "at {at:?}");
        node.heard(at, at, heard(&[(7, beat + 1), (8, 40)]));
    }
    assert!(node.has_dead());
    let beat = node.beat(NodeRun(0), "", Interest::default());
    assert_eq!((beat.run, beat.dead), (NodeRun(7), vec![(NodeRun(8), 40)]));
    let changes = node.heard(ms(2_250), ms(2_250), heard(&[(7, 10)]));
    assert_eq!(changes.gone, [NodeRun(8)]);
    assert!(!changes.gained.is_empty() && (0..SHARDS).all(|s| node.owns(ShardId(s))));
}

#[test]
fn t16_an_outage_or_a_pause_of_ours_kills_nobody() {
    let mut node = alone(7, ms(0));
    node.heard(ms(250), ms(251), heard(&[(7, 2), (8, 40)]));
    // No answer for a minute; the other had none either.
    node.heard(ms(60_000), ms(60_001), heard(&[(7, 3), (8, 40)]));
    assert!(!node.has_dead());
    node.heard(ms(60_250), ms(60_250), heard(&[(7, 4), (8, 41)]));
    assert!(node.others().all(|other| other.still_for.is_zero()));
}

#[test]
fn a_run_that_is_over_goes_on_as_another() {
    let mut node = alone(7, ms(0));
    let changes = node.heard(ms(250), ms(250), Heard::Over);
    assert!(changes.is_over && changes.lost == usize::from(SHARDS));
    assert!(!node.may_act(ms(250)) && !node.owns(ShardId(0)) && !node.is_alive(NodeRun(7)));
    let beat = node.beat(NodeRun(9), "", Interest::default());
    assert_eq!((beat.run, beat.presence), (NodeRun(9), Presence::Joining));
    let beat = node.beat(NodeRun(10), "", Interest::default());
    assert_eq!(beat.run, NodeRun(10), "each try to join is a run of its own");
}

#[test]
fn who_leaves_owns_nothing_and_is_heard_until_it_has_left() {
    let mut node = alone(7, ms(0));
    node.heard(ms(250), ms(250), heard(&[(7, 2), (8, 1)]));
    node.leave();
    assert!((0..SHARDS).all(|s| !node.owns(ShardId(s))));
    assert_eq!(node.beat(NodeRun(0), "", Interest::default()).presence, Presence::Leaving);
    let mut other = alone(8, ms(0));
    let mut leaving = member(7, 3);
    leaving.is_leaving = true;
    other.heard(ms(500), ms(500), Heard::Members(vec![leaving, member(8, 2)]));
    assert!((0..SHARDS).all(|s| other.owns(ShardId(s))));
    assert!(other.is_alive(NodeRun(7)), "its leases are good");
}
