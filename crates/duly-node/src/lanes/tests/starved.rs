//! Lanes that wait for a worker: retries that cannot start delay no other lane.

use super::*;

/// Eight workers allow four retries at once. All four are under way, each in a namespace of its own.
fn full_of_retries() -> Model {
    let mut model = Model::new(8, 100, 1);
    for namespace in ["o1", "o2", "o3", "o4"] {
        model.add_to(lane_in(namespace, 0), 0, 1);
    }
    model.walk();
    assert_eq!(model.running.len(), 4);
    model
}

#[test]
fn t23_blocked_retries_do_not_delay_first_attempts_of_the_lane() {
    let mut model = full_of_retries();
    let (x, y) = (lane_in("n", 0), lane_in("n", 1));
    model.add_to(x, 0, 5);
    model.add_to(y.clone(), 0, 5);
    model.walk();
    assert_eq!(model.running_of("n"), 0, "the retries wait");
    model.add_to(y.clone(), 3, 0);
    model.walk();
    assert_eq!(model.running_of("n"), 2, "the first attempts do not, up to their part of four");
    assert_eq!(model.running.iter().filter(|(lane, _)| *lane == y).count(), 2);
}

#[test]
fn t23_blocked_retries_do_not_delay_other_namespaces() {
    let mut model = full_of_retries();
    for n in 0..1_000 {
        model.add_to(lane_in(&format!("b{n:04}"), 0), 0, 5);
    }
    model.add_to(lane_in("n", 0), 0, 5);
    model.walk();
    model.add_to(lane_in("n", 0), 3, 0);
    model.walk();
    assert_eq!(model.running_of("n"), 2);
}

#[test]
fn t23_a_lane_behind_blocked_retries_is_planned() {
    let mut model = full_of_retries();
    // All other workers are busy too, so that first attempts starve as well.
    for n in 0..4 {
        model.add_to(lane_in(&format!("f{n}"), 0), 1, 0);
    }
    model.walk();
    assert_eq!(model.running.len(), 8);
    let (x, y) = (lane_in("n", 0), lane_in("n", 1));
    model.add_to(x, 0, 5);
    model.add_to(y.clone(), 3, 0);
    model.walk();
    assert_eq!(model.running_of("n"), 0);
    let first = |(_, permit): &(Lane, Permit)| permit.kind == AttemptKind::First;
    let at = model.running.iter().position(first).unwrap();
    model.finish(at);
    assert_eq!(model.running.iter().filter(|(lane, _)| *lane == y).count(), 1);
}

#[test]
fn t23_blocked_retries_of_many_lanes_each_get_their_turn() {
    // As many lanes as are planned for a freed slot: no lane may be skipped because of that.
    let mut model = full_of_retries();
    for n in 0..8 {
        model.add_to(lane_in("n", n), 0, 1_000);
    }
    model.walk();
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let (lane, _) = model.finish(0);
        served.insert(lane);
        model.walk();
    }
    assert_eq!(served.iter().filter(|lane| lane.namespace.as_str() == "n").count(), 8);
}

#[test]
fn p9_a_lane_whose_claim_was_cut_uses_its_slots_at_once() {
    let mut model = Model::new(1024, 10, 1);
    model.add(0, 100, 0);
    let planned = model.lanes.plan(SHARD, model.ready(), model.now);
    assert_eq!(planned[0].claim.first_max, 10);
    // The claim's bytes were used up by the first.
    let one = firing(&lane(0), AttemptKind::First, &model.settings);
    let cut = Claimed { firings: vec![one], more: vec![lane(0)], ..Claimed::default() };
    assert_eq!(model.lanes.apply_claim(SHARD, &planned, cut, model.now).firings.len(), 1);
    let planned = model.lanes.plan_waiting(SHARD, model.now);
    assert_eq!(planned.first().map(|planned| planned.claim.first_max), Some(9));
    // A claim that brings nothing is not repeated at once, and leaves the other lanes as they are.
    let cut = Claimed { more: vec![lane(0)], ..Claimed::default() };
    model.lanes.apply_claim(SHARD, &planned, cut, model.now);
    assert!(model.lanes.plan_waiting(SHARD, model.now).is_empty());
    assert_eq!(model.load(0).state, LaneActivity::Capped);
}

#[test]
fn an_empty_claim_does_not_leave_a_lane_capped() {
    let mut model = Model::new(1024, 10, 1);
    model.add(0, 100, 0);
    let planned = model.lanes.plan(SHARD, model.ready(), model.now);
    let cut = Claimed { more: vec![lane(0)], ..Claimed::default() };
    model.lanes.apply_claim(SHARD, &planned, cut, model.now);
    // Its timers are cancelled now: no walk lists it again.
    assert_eq!((model.load(0).state, model.load(0).backlog), (LaneActivity::Flowing, 0));
    model.walk();
    assert_eq!(model.running_in(0).sum(), 10, "a walk that does brings it back");
}

#[test]
fn skipped_starved_lanes_are_planned_after_an_empty_claim() {
    let mut model = Model::new(1, 10, 1);
    for namespace in ["a", "b", "c"] {
        model.add_to(lane_in(namespace, 0), 1, 0);
        model.walk();
    }
    assert_eq!(model.running_of("a"), 1);
    // Its turn comes, but its timer has been cancelled meanwhile.
    model.due.remove(&lane_in("b", 0));
    model.finish(0);
    assert_eq!(model.running_of("c"), 1);
}

#[test]
fn lists_include_starved_lanes_without_history() {
    let mut model = Model::new(1, 10, 1);
    for namespace in ["a", "b", "c"] {
        model.add_to(lane_in(namespace, 0), 2, 0);
        model.walk();
    }
    let starved = |model: &Model| model.counts().activities[LaneActivity::Starved as usize];
    let states = |model: &Model, namespace| {
        let loads = model.loads(&lane_in(namespace, 0).namespace);
        loads.iter().map(|load| (load.state, load.backlog, load.cap)).collect::<Vec<_>>()
    };
    assert_eq!(states(&model, "a"), [(LaneActivity::Starved, 1, Some(10))]);
    assert_eq!(states(&model, "c"), [(LaneActivity::Starved, 2, Some(10))]);
    assert_eq!(starved(&model), 3);
    for _ in 0..6 {
        model.finish(0);
    }
    assert_eq!(states(&model, "c"), [(LaneActivity::Flowing, 0, Some(10))]);
    assert_eq!(starved(&model), 0);
}
