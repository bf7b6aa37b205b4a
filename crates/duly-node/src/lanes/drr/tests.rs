use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[test]
fn turns_are_as_long_as_the_weight() {
    let mut drr = Drr::default();
    for (flow, weight) in [("a", 1), ("b", 3)] {
        for item in 0..20 {
            drr.push(&flow, (flow, item), weight);
        }
    }
    let mut order = String::new();
    for _ in 0..12 {
        let turn = drr.next().unwrap();
        order.push_str(turn.item.0);
        drr.charge(1);
    }
    assert_eq!(order, "abbbabbbabbb");
}

#[test]
fn a_denied_flow_passes_its_turn_on_and_keeps_nothing() {
    let mut drr = Drr::default();
    drr.push(&"a", 1, 5);
    drr.push(&"b", 2, 1);
    let turn = drr.next().unwrap();
    assert_eq!(turn, DrrTurn { item: 1, credit: 5 });
    drr.push(&"a", 1, 5);
    drr.charge(0);
    assert_eq!(drr.next().unwrap().item, 2);
    drr.charge(1);
    assert_eq!(drr.next().unwrap(), DrrTurn { item: 1, credit: 5 });
    drr.charge(5);
    assert!(drr.is_empty() && drr.next().is_none());
}

#[test]
fn a_denied_flow_continues_with_the_same_item() {
    let mut drr = Drr::default();
    for item in 0..3 {
        drr.push(&"a", item, 1);
    }
    for _ in 0..5 {
        assert_eq!(drr.next().unwrap().item, 0);
        drr.push(&"a", 0, 1);
        drr.deny();
    }
    assert_eq!(drr.len(), 3);
}

#[test]
fn skipped_items_cost_no_turn() {
    let mut drr = Drr::default();
    for item in 0..3 {
        drr.push(&"a", item, 1);
    }
    drr.push(&"b", 9, 1);
    drr.next().unwrap();
    drr.skip();
    assert_eq!(drr.next().unwrap().item, 1);
    drr.charge(1);
    assert_eq!(drr.next().unwrap().item, 9);
    drr.skip();
    assert_eq!(drr.next().unwrap().item, 2);
    drr.retain(|_| false);
    assert_eq!(drr.next(), None);
    assert_eq!((drr.len(), drr.ring.len(), drr.flows.len()), (0, 0, 0));
}

#[test]
fn a_hundred_thousand_flows_each_get_their_turn_in_one_round() {
    let mut drr = Drr::default();
    let flows = 100_000;
    for flow in 0..flows {
        drr.push(&flow, flow, 1);
        drr.push(&flow, flow, 1);
    }
    let mut seen = vec![0_u8; flows];
    for _ in 0..flows {
        seen[drr.next().unwrap().item] += 1;
        drr.charge(1);
    }
    assert!(seen.iter().all(|times| *times == 1));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The flow, and the number of items that arrive for it.
    Arrive(usize, usize),
    /// The number of items to serve.
    Serve(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let arrive = (0_usize..8, 1_usize..20).prop_map(|(flow, items)| Step::Arrive(flow, items));
    let serve = (1_usize..60).prop_map(Step::Serve);
    proptest::collection::vec(prop_oneof![arrive, serve], 1..60)
}

proptest! {
    /// Two flows that always have items get slots by their weights, to within one turn of each. Other
    /// flows may come and go.
    #[test]
    fn backlogged_flows_get_their_weights_share_within_one_turn(
        weights in proptest::collection::vec(1_usize..12, 8),
        steps in steps(),
    ) {
        let mut drr = Drr::default();
        // The first two flows always have items.
        let mut waiting = [1_000_000_usize, 1_000_000, 0, 0, 0, 0, 0, 0];
        for flow in [0, 1] {
            drr.push(&flow, flow, weights[flow]);
        }
        let mut got: BTreeMap<usize, usize> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Arrive(flow, items) if flow >= 2 => {
                    if waiting[flow] == 0 {
                        drr.push(&flow, flow, weights[flow]);
                    }
                    waiting[flow] += items;
                }
                Step::Arrive(..) => {}
                Step::Serve(times) => for _ in 0..times {
                    let DrrTurn { item: flow, credit } = drr.next().unwrap();
                    let used = credit.min(waiting[flow]).min(3);
                    waiting[flow] -= used;
                    *got.entry(flow).or_default() += used;
                    if waiting[flow] > 0 {
                        drr.push(&flow, flow, weights[flow]);
                    }
                    drr.charge(used);
                },
            }
            let turns = |flow: usize| {
                got.get(&flow).copied().unwrap_or(0) as f64 / weights[flow] as f64
            };
            let apart = (turns(0) - turns(1)).abs();
            prop_assert!(apart <= 1.0 + 1e-9, "{apart} turns apart: {got:?} of {weights:?}");
        }
        let known: usize = waiting.iter().filter(|items| **items > 0).count();
        prop_assert_eq!((drr.len(), drr.ring.len(), drr.flows.len()), (known, known, known));
    }
}
