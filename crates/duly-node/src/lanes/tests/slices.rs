//! Walks over very many lanes visit few of them under one lock.

use super::{view::SLICE, *};

/// Number of lanes of one namespace: more than a slice, and not a multiple of a slice.
const COUNT: usize = 3 * SLICE + 1;

/// Creates three namespaces; in each as many lanes hold a worker as are starved of one.
fn crowd() -> Model {
    // First far more firings than are claimed, so that each lane gets one; then no more than are
    // claimed.
    let mut model = Model::new(100 * COUNT, 1, 1);
    for half in [0..COUNT, COUNT..2 * COUNT] {
        if half.start > 0 {
            model.lanes.workers_max = model.lanes.in_flight();
        }
        for n in half {
            for namespace in ["a", "b", "c"] {
                let lane = lane_in(namespace, n);
                let settings = model.settings_of(&lane.namespace);
                let ready = ReadyLane { lane, first: 1, retry: 0, settings };
                model.lanes.plan(SHARD, vec![ready], model.now);
            }
        }
    }
    assert_eq!(model.lanes.in_flight(), 3 * COUNT);
    model
}

#[test]
fn p9_a_lane_list_locks_per_slice_and_reads_one_namespace() {
    let model = crowd();
    let mut listing = LaneListing::new(NamespaceName::new("b").unwrap());
    let mut visited = Vec::new();
    while let Some(slice) = model.lanes.list(&mut listing, model.now) {
        visited.push(slice);
    }
    assert!(visited.iter().all(|slice| *slice <= SLICE), "{visited:?}");
    assert_eq!(visited.iter().sum::<usize>(), 2 * COUNT, "{visited:?}");
    let loads = listing.done();
    let keys: Vec<_> = loads.iter().map(|load| load.key.clone()).collect();
    let mut expected: Vec<_> = (0..2 * COUNT).map(|n| lane(n).key).collect();
    expected.sort();
    assert_eq!(keys, expected);
    let starved = loads.iter().filter(|load| load.state == LaneActivity::Starved);
    assert_eq!(starved.count(), COUNT);
}

#[test]
fn p9_a_lane_count_locks_per_slice_and_reads_all_lanes() {
    let model = crowd();
    let mut count = LaneCount::default();
    let mut slices = 1;
    let counts = loop {
        let before = count.counts.clone();
        let done = model.lanes.count(&mut count);
        let after = done.as_ref().unwrap_or(&count.counts);
        let added = after.breakers.iter().sum::<usize>() - before.breakers.iter().sum::<usize>();
        assert!(added <= SLICE, "{added}");
        if let Some(counts) = done {
            break counts;
        }
        slices += 1;
    };
    assert_eq!(slices, 3 * COUNT / SLICE + 1);
    assert_eq!(counts.activities[LaneActivity::Starved as usize], 3 * COUNT);
    assert_eq!(counts.activities[LaneActivity::Flowing as usize], 3 * COUNT);
    assert_eq!(counts.breakers, [3 * COUNT, 0, 0]);
}

#[test]
fn a_walk_continues_after_a_removed_lane() {
    let mut model = crowd();
    let mut count = LaneCount::default();
    assert_eq!(model.lanes.count(&mut count), None);
    model.lanes.lanes = KnownLanes::new(0);
    let counts = model.lanes.count(&mut count).expect("nothing is left");
    assert_eq!(counts.breakers, [SLICE, 0, 0]);
}
