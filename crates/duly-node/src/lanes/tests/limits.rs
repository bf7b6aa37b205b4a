//! Round-robin over very many namespaces, rates, breakers, and the remembered lanes.

use std::ops::Bound;

use super::{
    known::{CLEAN_UP_EVERY, IDLE_REMEMBERED_MAX},
    *,
};

#[test]
fn p9_a_hundred_thousand_namespaces_take_turns_by_weight() {
    let workers = 64;
    let mut model = Model::new(workers, 100, 1);
    let heavy = 7;
    let count = 100_000;
    let name = |n: usize| format!("ns{n:06}");
    model.special.insert(NamespaceName::new(&name(3)).unwrap(), settings(100, heavy));
    // Planned step by step: a model of 100 000 lanes would visit all of them at every step.
    let mut planned = Vec::new();
    for n in 0..count {
        let lane = lane_in(&name(n), 0);
        let settings = model.settings_of(&lane.namespace);
        let ready = ReadyLane { lane, first: 1_000, retry: 0, settings };
        planned.extend(model.lanes.plan(SHARD, vec![ready], model.now));
    }
    let mut running: std::collections::VecDeque<(Lane, Permit)> = std::collections::VecDeque::new();
    let mut started: BTreeMap<Lane, usize> = BTreeMap::new();
    let rounds = 3;
    let mut steps = 0;
    loop {
        for one in planned.drain(..) {
            for _ in 0..one.claim.first_max {
                let (admission, to) = (one.admission, one.to);
                let permit = Permit { kind: AttemptKind::First, admission, to, bytes: 0 };
                running.push_back((one.claim.lane.clone(), permit));
            }
            *started.entry(one.claim.lane).or_default() += one.claim.first_max;
        }
        assert!(running.len() <= workers);
        steps += 1;
        if steps > rounds * (count + heavy as usize) {
            break;
        }
        let (lane, permit) = running.pop_front().expect("something runs while something is due");
        model.lanes.free(&lane, permit, model.now);
        planned = model.lanes.plan_waiting(SHARD, model.now);
    }
    let got: Vec<usize> = started.values().copied().collect();
    assert_eq!(got.len(), count, "every namespace had its turn");
    let heavy_got = started[&lane_in(&name(3), 0)];
    // The first free workers went to the first lanes; after that the order is strictly round-robin.
    let others = got.iter().filter(|n| (rounds - 1..=rounds + 1).contains(*n)).count();
    assert!(others >= count - workers - 1, "{others} of {count} got {rounds} +- 1");
    assert!(heavy_got >= (rounds - 1) * heavy as usize, "{heavy_got}");
}

#[test]
fn p10_a_lane_begins_no_more_attempts_than_its_rate() {
    let mut model = Model::new(1024, 100, 1);
    let mut limited = (*settings(100, 1)).clone();
    limited.limits.deliver_per_second = Some(50);
    model.settings = Arc::new(limited);
    model.add(0, 1_000, 0);
    model.walk();
    assert_eq!(model.running_in(0).sum(), 5, "a tenth of a second's at once");
    let load = model.load(0);
    assert_eq!(
        (load.state, load.per_second, load.backlog),
        (LaneActivity::Throttled, Some(50), 995)
    );
    let mut started = 5;
    for _ in 0..200 {
        while !model.running.is_empty() {
            model.finish(0);
        }
        assert_eq!(model.running.len(), 0, "no time has passed");
        let before = model.now;
        model.pass(Duration::from_millis(10));
        let at = model.lanes.next_at(SHARD);
        assert!(at.is_some_and(|at| at > before && at <= before + Duration::from_millis(40)));
        started += model.running.len();
    }
    assert!((100..=105).contains(&started), "{started} in two seconds");
    // Without the rate the lane gets its cap at the next walk.
    model.settings = settings(100, 1);
    model.walk();
    assert_eq!(model.running_in(0).sum(), 100);
}

#[test]
fn p9_an_open_breaker_takes_neither_workers_nor_claims() {
    let mut model = Model::new(1024, 100, 1);
    model.add(0, 1_000, 0);
    model.walk();
    assert_eq!(model.running.len(), 100);
    // All fail. Attempts that run end; nothing new starts once the breaker is open.
    let mut ended = 0;
    while !model.running.is_empty() {
        model.end(0, ReceiverHealth::Silent);
        ended += 1;
    }
    assert!((100..=110).contains(&ended), "{ended}");
    let load = model.load(0);
    assert_eq!(
        (load.state, load.breaker, load.in_flight),
        (LaneActivity::BreakerOpen, BreakerState::Open, 0)
    );
    let wait = load.next_probe_in.unwrap();
    assert!(wait <= breaker::WAIT_MIN);
    model.walk();
    model.pass(wait - Duration::from_millis(1));
    assert!(model.running.is_empty(), "walks and wakes change nothing");
    // One probe; it fails, and the next comes after twice the wait.
    model.pass(Duration::from_millis(1));
    assert_eq!(model.running.len(), 1);
    model.walk();
    assert_eq!(model.running.len(), 1);
    model.end(0, ReceiverHealth::Silent);
    model.pass(2 * breaker::WAIT_MIN - Duration::from_millis(1));
    assert!(model.running.is_empty());
    model.pass(Duration::from_millis(1));
    assert_eq!(model.load(0).breaker, BreakerState::HalfOpen);
    // The receiver works again: one probe, two, and then all of its cap.
    model.end(0, ReceiverHealth::Good);
    assert_eq!(model.running.len(), 2);
    model.end(0, ReceiverHealth::Good);
    model.end(0, ReceiverHealth::Good);
    assert_eq!((model.running.len(), model.load(0).breaker), (100, BreakerState::Closed));
}

#[test]
fn p9_a_few_bad_first_attempts_do_not_hold_up_good_ones() {
    let mut model = Model::new(1024, 100, 1);
    // Twice as many bad firings as open the breaker, one after the other.
    model.add(0, 20, 0);
    model.walk();
    let (mut left, began) = (20, model.now);
    while left > 0 {
        while !model.running.is_empty() {
            model.end(0, ReceiverHealth::Overloaded);
            left -= 1;
        }
        model.pass(Duration::from_millis(10));
    }
    assert!(model.now - began < 3 * breaker::WAIT_MIN, "{:?}", model.now - began);
    // Then good first attempts are probes at once.
    model.pass(breaker::QUICK_WAIT);
    for _ in 0..breaker::PROBES {
        model.add(0, 1, 0);
        model.walk();
        assert_eq!(model.running_in(0).first, 1, "at once");
        model.end(0, ReceiverHealth::Good);
    }
    assert_eq!(model.load(0).breaker, BreakerState::Closed);
}

#[test]
fn p9_failing_retries_do_not_hold_up_first_attempts() {
    let mut model = Model::new(1024, 100, 1);
    model.add(0, 0, 12);
    model.walk();
    while !model.running.is_empty() {
        model.end(0, ReceiverHealth::Silent);
    }
    assert_eq!(model.load(0).breaker, BreakerState::Open);
    // A minute of retries that fail beside a first attempt every other second, which succeeds.
    for _ in 0..30 {
        model.pass(Duration::from_secs(2));
        model.add(0, 1, 10);
        model.walk();
        assert_eq!(model.running_in(0).first, 1, "at once");
        while !model.running.is_empty() {
            let works = model.running[0].1.kind == AttemptKind::First;
            model.end(0, if works { ReceiverHealth::Good } else { ReceiverHealth::Silent });
        }
    }
}

#[test]
fn an_unused_probe_is_repeated() {
    let mut model = Model::new(1024, 1, 1);
    model.add(0, 1_000, 0);
    model.walk();
    for _ in 0..breaker::FAILURES {
        model.end(0, ReceiverHealth::Silent);
    }
    assert!(model.running.is_empty());
    model.now += breaker::WAIT_MIN;
    let planned = model.lanes.plan_waiting(SHARD, model.now);
    assert_eq!(planned.len(), 1);
    model.lanes.unplan(&planned, model.now);
    assert_eq!(model.lanes.in_flight(), 0);
    model.walk();
    assert_eq!(model.running.len(), 1, "the claim failed and the probe is there again");
}

#[test]
fn the_overflow_lane_has_no_breaker() {
    let mut model = Model::new(1024, 1, 1);
    let lane = Lane { key: LaneKey::Overflow, ..lane(0) };
    model.add_to(lane, 1_000, 0);
    model.walk();
    for _ in 0..3 * breaker::FAILURES {
        model.end(0, ReceiverHealth::Silent);
    }
    assert_eq!(model.running.len(), 1, "one dead origin of many does not shut out the others");
    assert_eq!(model.counts().overflow, 1);
}

#[test]
fn p10_remembered_idle_lanes_are_bounded() {
    let mut model = Model::new(16, 1, 1);
    for n in 0..3 * IDLE_REMEMBERED_MAX {
        model.add(n, 1, 0);
        model.walk();
        model.due.clear();
        model.finish(0);
    }
    let remembered = model.lanes.lanes.from(Bound::Unbounded).count();
    assert!(remembered <= IDLE_REMEMBERED_MAX + 16 + CLEAN_UP_EVERY, "{remembered}");
    assert!(model.lanes.namespaces.is_empty());
}
