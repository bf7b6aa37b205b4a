//! Lanes that wait for a worker: retries that cannot begin hold up nobody else.

use super::*;

/// Eight workers, so four retries at once, and all four under way, each in a namespace of its own.
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
fn t23_blocked_retries_do_not_hold_up_first_attempts_of_their_own_lane() {
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
fn t23_first_attempts_do_not_stand_in_line_behind_blocked_retries_of_other_namespaces() {
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
fn t23_a_lane_with_first_attempts_is_looked_at_behind_one_whose_retries_are_blocked() {
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
    let first = |(_, permit): &(Lane, Permit)| permit.kind == Kind::First;
    let at = model.running.iter().position(first).unwrap();
    model.finish(at);
    assert_eq!(model.running.iter().filter(|(lane, _)| *lane == y).count(), 1);
}

#[test]
fn t23_blocked_retries_of_many_lanes_each_get_their_turn() {
    // As many lanes as there are looks for a freed slot: no lane may be passed over by that.
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
