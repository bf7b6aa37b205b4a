use std::{collections::BTreeMap, sync::Arc};

use duly_core::{DeliveryId, Incarnation, Settings, TimerId, Timestamp, destination::LaneKey};
use duly_store::Token;
use proptest::prelude::*;

use super::*;

mod limits;
mod slices;
mod starved;

const SHARD: ShardId = ShardId(0);

impl Lanes {
    /// Limits the number of waiting lanes of each shard.
    pub(crate) fn remember_waiting(&mut self, lanes: usize) {
        for backlog in &mut self.backlogs {
            backlog.waiting_max = lanes;
        }
    }
}

fn lane(n: usize) -> Lane {
    lane_in("ns", n)
}

fn lane_in(namespace: &str, n: usize) -> Lane {
    Lane {
        namespace: NamespaceName::new(namespace).unwrap(),
        key: LaneKey::Receiver(Arc::from(format!("https://r{n:03}"))),
    }
}

fn settings(cap: u32, weight: u32) -> Arc<Settings> {
    let mut settings = Settings { weight, ..Settings::default() };
    settings.limits.max_in_flight = cap;
    Arc::new(settings)
}

fn firing(lane: &Lane, kind: AttemptKind, settings: &Arc<Settings>) -> Firing {
    Firing {
        token: Token::new(SHARD, &[1]),
        delivery_id: DeliveryId::of("ns", "t", Incarnation(1), 0),
        namespace: lane.namespace.clone(),
        id: TimerId::new("t").unwrap(),
        occurrence: 0,
        attempt: match kind {
            AttemptKind::First => 1,
            AttemptKind::Retry => 2,
        },
        budget_from: 0,
        due_at: Timestamp::MIN,
        claimable_at: Timestamp::MIN,
        claimable_since: Timestamp::MIN,
        leased_until: None,
        lane: lane.key.clone(),
        spec: Arc::default(),
        settings: Arc::clone(settings),
    }
}

/// Creates options with these numbers of workers and of firings in one claim.
pub(super) fn options(workers_max: usize, claim_batch_max: usize) -> Options {
    Options { workers_max, claim_batch_max, ..Options::default() }
}

/// A model of a store: the number of due firings of each kind per lane.
struct Model {
    lanes: Lanes,
    settings: Arc<Settings>,
    /// Settings of namespaces that have their own.
    special: BTreeMap<NamespaceName, Arc<Settings>>,
    due: BTreeMap<Lane, Load>,
    running: Vec<(Lane, Permit)>,
    now: Duration,
}

impl Model {
    fn new(workers_max: usize, cap: u32, weight: u32) -> Self {
        Self {
            lanes: Lanes::new(1, &options(workers_max, 256), false),
            settings: settings(cap, weight),
            special: BTreeMap::new(),
            due: BTreeMap::new(),
            running: Vec::new(),
            now: Duration::from_secs(1_000),
        }
    }

    fn add(&mut self, n: usize, first: usize, retry: usize) {
        self.add_to(lane(n), first, retry);
    }

    fn add_to(&mut self, lane: Lane, first: usize, retry: usize) {
        self.due.entry(lane).or_default().add(Load::new(first, retry));
    }

    fn settings_of(&self, namespace: &NamespaceName) -> Arc<Settings> {
        Arc::clone(self.special.get(namespace).unwrap_or(&self.settings))
    }

    fn ready(&self) -> Vec<ReadyLane> {
        self.due
            .iter()
            .filter(|(_, due)| due.sum() > 0)
            .map(|(lane, due)| ReadyLane {
                lane: lane.clone(),
                first: due.first as u64,
                retry: due.retry as u64,
                settings: self.settings_of(&lane.namespace),
            })
            .collect()
    }

    /// Claims for these lanes and for all that must be planned again, as the loop does.
    fn claim(&mut self, first: Vec<Planned>) {
        let mut planned = first;
        while !planned.is_empty() {
            let mut claimed = Claimed::default();
            for claim in planned.iter().map(|planned| &planned.claim) {
                let settings = self.settings_of(&claim.lane.namespace);
                let due = self.due.entry(claim.lane.clone()).or_default();
                let got = Load::new(due.first.min(claim.first_max), due.retry.min(claim.retry_max));
                due.subtract(got);
                for kind in [AttemptKind::First, AttemptKind::Retry] {
                    let count = match kind {
                        AttemptKind::First => got.first,
                        AttemptKind::Retry => got.retry,
                    };
                    let one = firing(&claim.lane, kind, &settings);
                    claimed.firings.extend(vec![one; count]);
                }
                if due.sum() > 0 {
                    claimed.more.push(claim.lane.clone());
                }
            }
            let granted = self.lanes.apply_claim(SHARD, &planned, claimed, self.now);
            for firing in &granted.excess {
                let lane = Lane { namespace: firing.namespace.clone(), key: firing.lane.clone() };
                let one = Load::one(AttemptKind::of(firing.attempt));
                self.due.entry(lane).or_default().add(one);
            }
            for (firing, permit) in granted.firings {
                let lane = Lane { namespace: firing.namespace, key: firing.lane };
                self.running.push((lane, permit));
            }
            planned = self.lanes.plan_waiting(SHARD, self.now);
        }
    }

    fn walk(&mut self) {
        let planned = self.lanes.plan(SHARD, self.ready(), self.now);
        self.claim(planned);
    }

    /// Advances the time, and plans the lanes that waited for it.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let planned = self.lanes.plan_waiting(SHARD, self.now);
        self.claim(planned);
    }

    /// Ends one attempt with success, and plans the lanes that waited for its slot.
    fn finish(&mut self, at: usize) -> (Lane, AttemptKind) {
        self.end(at, ReceiverHealth::Good)
    }

    fn end(&mut self, at: usize, health: ReceiverHealth) -> (Lane, AttemptKind) {
        let (lane, permit) = self.running.remove(at);
        let mut woken = self.lanes.report(&lane, permit, health, self.now);
        woken.extend(self.lanes.free(&lane, permit, self.now));
        if !woken.is_empty() {
            let planned = self.lanes.plan_waiting(SHARD, self.now);
            self.claim(planned);
        }
        (lane, permit.kind)
    }

    fn load(&self, n: usize) -> LaneLoad {
        let key = lane(n).key;
        let loads = self.loads(&lane(n).namespace);
        loads.into_iter().find(|load| load.key == key).unwrap()
    }

    fn loads(&self, namespace: &NamespaceName) -> Vec<LaneLoad> {
        let mut listing = LaneListing::new(namespace.clone());
        while self.lanes.list(&mut listing, self.now).is_some() {}
        listing.done()
    }

    fn counts(&self) -> LaneMetrics {
        let mut count = LaneCount::default();
        loop {
            if let Some(counts) = self.lanes.count(&mut count) {
                return counts;
            }
        }
    }

    fn running_of(&self, namespace: &str) -> usize {
        self.running.iter().filter(|(l, _)| l.namespace.as_str() == namespace).count()
    }

    fn running_in(&self, n: usize) -> Load {
        let mut load = Load::default();
        for (_, permit) in self.running.iter().filter(|(l, _)| *l == lane(n)) {
            load.add(Load::one(permit.kind));
        }
        load
    }
}

fn ready_lane(model: &Model, n: usize, first: u64, retry: u64) -> ReadyLane {
    ReadyLane { lane: lane(n), first, retry, settings: Arc::clone(&model.settings) }
}

#[test]
fn p10_a_lane_gets_its_cap_and_no_more() {
    let mut model = Model::new(1024, 100, 1);
    model.add(0, 1_000, 0);
    model.walk();
    assert_eq!(model.running_in(0), Load::new(100, 0));
    assert_eq!(model.load(0).state, LaneActivity::Capped);
    // Each slot that is freed is filled at once.
    for _ in 0..500 {
        model.finish(0);
        assert_eq!(model.running_in(0).sum(), 100);
    }
    // The backlog runs out, and the lane flows again.
    while !model.running.is_empty() {
        model.finish(0);
    }
    assert_eq!(model.due[&lane(0)].sum(), 0);
    assert_eq!(model.lanes.in_flight(), 0);
    let load = model.load(0);
    assert_eq!((load.in_flight, load.state), (0, LaneActivity::Flowing));
}

#[test]
fn p9_greedy_lanes_leave_workers_for_a_new_one() {
    let mut model = Model::new(1024, 100, 1);
    for n in 0..16 {
        model.add(n, 100_000, 0);
    }
    model.walk();
    // Nothing ends, as with dead receivers. A new lane is served at once: in another namespace with all
    // that it wants, and in the same namespace too.
    for i in 0..4 {
        let namespace = format!("other{i}");
        model.add_to(lane_in(&namespace, 0), 3, 0);
        model.walk();
        assert_eq!(model.running_of(&namespace), 3);
    }
    for n in 501..504 {
        model.add(n, 1, 0);
        model.walk();
        assert_eq!(model.running_in(n), Load::new(1, 0), "lane {n}");
    }
}

#[test]
fn p9_no_lane_starves_when_there_are_more_lanes_than_workers() {
    let mut model = Model::new(4, 100, 1);
    for n in 0..40 {
        model.add(n, 50, 0);
    }
    model.walk();
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..120 {
        assert!(!model.running.is_empty());
        let (lane, _) = model.finish(0);
        served.insert(lane);
    }
    assert_eq!(served.len(), 40, "every lane had its turn within three rounds");
}

#[test]
fn weight_decides_the_share_of_scarce_workers() {
    let capacity = |weight, namespace| LaneCapacity {
        limits: LaneLimits { cap: 1_000, weight, rate: None, fallback_after: None },
        lane: Load::default(),
        namespace: Load::new(namespace, 0),
        workers: Load::new(namespace, 0),
        workers_max: 100,
        turn: RoundRobinTurn::None,
        most: usize::MAX,
    };
    let got = |weight| {
        capacity(weight, 0).allow(Demand::wanted(1_000, 0), AttemptKind::Retry).slots.sum()
    };
    assert_eq!([got(1), got(2), got(6), got(18)], [66, 80, 92, 97]);
    // Slots of other lanes of the namespace count against a new lane.
    let after =
        |held| capacity(1, held).allow(Demand::wanted(1_000, 0), AttemptKind::Retry).slots.sum();
    assert_eq!([after(0), after(20), after(60), after(66), after(94)], [66, 30, 4, 1, 0]);

    let mut model = Model::new(100, 100, 1);
    model.special.insert(lane_in("many", 0).namespace, settings(100, 1));
    model.special.insert(lane_in("one", 0).namespace, settings(100, 1));
    for n in 0..50 {
        model.add_to(lane_in("many", n), 1_000, 0);
    }
    model.add_to(lane_in("one", 0), 100_000, 0);
    model.walk();
    let mut ended = [0_usize; 2];
    for round in 0..6_000 {
        // The attempt that runs longest ends.
        let (lane, _) = model.finish(0);
        if round > 1_000 {
            ended[usize::from(lane.namespace.as_str() == "one")] += 1;
        }
    }
    let [many, one] = ended;
    assert!(one * 10 >= many * 9, "fifty lanes got {many} and one got {one}");
}

#[test]
fn t23_a_retry_storm_leaves_room_for_first_attempts() {
    let mut model = Model::new(200, 100, 1);
    for n in 0..50 {
        model.add(n, 0, 10_000);
    }
    model.walk();
    let retries = model.running.len();
    assert!(retries <= 100, "{retries} of 200 workers are busy with retries");
    // First attempts, in lanes of their own and in lanes full of retries.
    model.add(0, 10, 0);
    model.add(900, 10, 0);
    model.walk();
    assert!(model.running_in(0).first >= 1, "{:?}", model.running_in(0));
    assert_eq!(model.running_in(900).first, 10);
}

#[test]
fn t23_neither_kind_starves_the_other_within_a_lane() {
    for cap in [1, 2, 3, 4, 10, 100] {
        let mut model = Model::new(1024, cap, 1);
        model.add(0, 10_000, 10_000);
        model.walk();
        let mut ended = [0, 0];
        for _ in 0..2_000 {
            let (_, kind) = model.finish(0);
            ended[usize::from(kind == AttemptKind::Retry)] += 1;
            let load = model.running_in(0);
            assert!(load.sum() <= cap as usize, "cap {cap}: {load:?}");
        }
        assert!(ended[0] >= 400 && ended[1] >= 20, "cap {cap}: {ended:?}");
    }
}

#[test]
fn p10_changed_limits_hold_from_the_next_walk_on() {
    let mut model = Model::new(1024, 2, 1);
    model.add(0, 100, 0);
    model.walk();
    assert_eq!(model.running_in(0).sum(), 2);
    // Nothing ends, as with a receiver that hangs.
    model.settings = settings(50, 1);
    model.walk();
    assert_eq!(model.running_in(0).sum(), 50);
    let planned = model.lanes.plan(SHARD, model.ready(), model.now);
    assert!(planned.is_empty());
}

#[test]
fn a_claim_that_fails_gives_everything_back() {
    let mut model = Model::new(1024, 3, 1);
    model.add(0, 10, 0);
    let planned = model.lanes.plan(SHARD, model.ready(), model.now);
    assert_eq!((planned[0].claim.first_max, model.lanes.in_flight()), (3, 3));
    model.lanes.unplan(&planned, model.now);
    assert_eq!(model.lanes.in_flight(), 0);
    model.walk();
    assert_eq!(model.running_in(0), Load::new(3, 0));
}

#[test]
fn p10_a_lowered_cap_applies_from_the_next_claim() {
    let mut model = Model::new(1024, 50, 1);
    model.add(0, 10, 0);
    model.walk();
    while !model.running.is_empty() {
        model.finish(0);
    }
    model.settings = settings(2, 1);
    model.add(0, 10, 0);
    model.walk();
    assert_eq!(model.running_in(0).sum(), 2);
    assert_eq!(model.due[&lane(0)].sum(), 8, "the rest went back");
    assert_eq!(model.lanes.in_flight(), 2);
}

#[test]
fn a_firing_of_the_other_kind_uses_the_slot_that_was_held() {
    let mut model = Model::new(16, 10, 1);
    let ready = ready_lane(&model, 0, 0, 1);
    let claims = model.lanes.plan(SHARD, vec![ready], model.now);
    let claimed = Claimed {
        firings: vec![firing(&lane(0), AttemptKind::First, &model.settings)],
        ..Claimed::default()
    };
    let granted = model.lanes.apply_claim(SHARD, &claims, claimed, model.now);
    assert_eq!(granted.firings.len(), 1);
    assert_eq!(granted.firings[0].1.kind, AttemptKind::Retry);
    assert!(granted.excess.is_empty());
}

#[test]
fn unreported_firings_cause_another_poll() {
    let mut model = Model::new(16, 10, 1);
    let ready = ready_lane(&model, 0, 1, 0);
    let claims = model.lanes.plan(SHARD, vec![ready], model.now);
    let claimed = Claimed {
        firings: vec![firing(&lane(0), AttemptKind::First, &model.settings)],
        more: vec![lane(0)],
        ..Claimed::default()
    };
    assert!(model.lanes.apply_claim(SHARD, &claims, claimed, model.now).poll_again);
    // Nothing was granted although there is more: polling at once would spin.
    let ready = ready_lane(&model, 1, 1, 0);
    let claims = model.lanes.plan(SHARD, vec![ready], model.now);
    let claimed = Claimed { more: vec![lane(1)], ..Claimed::default() };
    assert!(!model.lanes.apply_claim(SHARD, &claims, claimed, model.now).poll_again);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// For any sequence of arrivals and ends: no cap and no limit is exceeded, and no slot is lost.
    /// While something is due, something runs.
    #[test]
    fn p10_limits_hold_and_nothing_stalls(
        workers_max in 1_usize..40,
        cap in 1_u32..20,
        steps in proptest::collection::vec((0_usize..8, 0_usize..30, 0_usize..30, 0_usize..10), 1..60),
    ) {
        let mut model = Model::new(workers_max, cap, 1);
        for (n, first, retry, ends) in steps {
            model.add(n, first, retry);
            model.walk();
            for i in 0..ends {
                if !model.running.is_empty() {
                    let at = i % model.running.len();
                    model.finish(at);
                }
                prop_assert_eq!(model.lanes.in_flight(), model.running.len());
                prop_assert!(model.running.len() <= workers_max);
                for n in 0..8 {
                    prop_assert!(model.running_in(n).sum() <= cap as usize);
                }
            }
        }
        // When every attempt ends, all due firings are served without another walk.
        let mut left = 10_000;
        while !model.running.is_empty() && left > 0 {
            model.finish(0);
            left -= 1;
        }
        let due: usize = model.due.values().map(|load| load.sum()).sum();
        prop_assert_eq!(due, 0);
        prop_assert_eq!(model.lanes.in_flight(), 0);
    }
}
