use std::sync::Arc;

use duly_core::{Millis, NamespaceName, Settings, destination::LaneKey, shard::ShardId};
use duly_store::{Deployment, MemberId, ReadyLane, conformance::ManualClock, memory::MemoryStore};
use futures::FutureExt;
use proptest::prelude::*;

use super::*;

fn lane() -> Lane {
    Lane {
        namespace: NamespaceName::new("shop").unwrap(),
        key: LaneKey::Receiver("https://a.example".into()),
    }
}

fn limits(cap: u32, per_second: Option<u32>) -> LaneLimits {
    let mut settings = Settings::default();
    settings.limits.max_in_flight = cap;
    settings.limits.deliver_per_second = per_second;
    LaneLimits::of(&settings)
}

/// Several nodes with work for one lane, on one store.
struct Nodes {
    clock: ManualClock,
    store: MemoryStore,
    member_ids: Vec<MemberId>,
    nodes: Vec<LaneQuotas>,
    under_way: Vec<usize>,
    started: Vec<usize>,
    /// Replies that have not arrived yet.
    answers: Vec<Vec<(Ask, Option<Allotment>)>>,
}

impl Nodes {
    fn new(count: u64) -> Self {
        let clock = ManualClock::default();
        let store = MemoryStore::new(Arc::new(clock.clone()), 1).shared_by_nodes();
        let many = usize::try_from(count).unwrap();
        Self {
            clock,
            store,
            member_ids: (1..=count).map(MemberId).collect(),
            nodes: (0..count).map(|_| LaneQuotas::default()).collect(),
            under_way: vec![0; many],
            started: vec![0; many],
            answers: vec![Vec::new(); many],
        }
    }

    fn now(&self) -> Duration {
        use duly_core::env::Clock;
        self.clock.boot()
    }

    /// Starts as many attempts as the quota allows.
    fn plan(&mut self, node: usize, limits: LaneLimits, demand: usize) {
        let load = Load::new(self.under_way[node], 0);
        let now = self.now();
        let limited =
            self.nodes[node].apply_quota(&lane(), limits, load, Load::new(demand, 0), now);
        let started = limited.cap.saturating_sub(self.under_way[node]).min(demand);
        self.under_way[node] += started;
        self.started[node] += started;
    }

    /// Sends the node's quota requests to the store; the replies are stored in `answers`.
    fn request(&mut self, node: usize, answered: bool) {
        let (now, under_way) = (self.now(), self.under_way[node]);
        for request in
            self.nodes[node].quota_requests(now, |_| Load::new(under_way, 0), |_| Load::default())
        {
            let call = self.store.allot(ShardId(0), self.member_ids[node], vec![request.clone()]);
            let grant = call.now_or_never().expect("it answers at once").unwrap().pop();
            self.answers[node].push((request, grant.filter(|_| answered)));
        }
    }

    /// Loses the node's quota requests.
    fn ask_in_vain(&mut self, node: usize) {
        let (now, under_way) = (self.now(), self.under_way[node]);
        for request in
            self.nodes[node].quota_requests(now, |_| Load::new(under_way, 0), |_| Load::default())
        {
            self.nodes[node].apply_grant(&request, None, now);
        }
    }

    fn hear(&mut self, node: usize) {
        let now = self.now();
        for (request, grant) in std::mem::take(&mut self.answers[node]) {
            self.nodes[node].apply_grant(&request, grant, now);
        }
    }

    fn end(&mut self, node: usize, count: usize) {
        self.under_way[node] -= count.min(self.under_way[node]);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Plan(usize, u32, usize),
    Request(usize, bool),
    Hear(usize),
    End(usize, usize),
    Advance(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..3_usize, 0..5_u32, 0..9_usize).prop_map(|(n, cap, d)| Act::Plan(n, cap, d)),
        4 => (0..3_usize, any::<bool>()).prop_map(|(n, answered)| Act::Request(n, answered)),
        4 => (0..3_usize).prop_map(Act::Hear),
        3 => (0..3_usize, 1..9_usize).prop_map(|(n, count)| Act::End(n, count)),
        3 => prop_oneof![0..60_u64, 200..400_u64, 4_000..6_000_u64].prop_map(Act::Advance),
    ]
}

proptest! {
    #[test]
    fn p10_all_nodes_together_never_exceed_a_cap(acts in prop::collection::vec(act(), 1..200)) {
        let mut nodes = Nodes::new(3);
        for act in acts {
            match act {
                Act::Plan(node, demand, more) => {
                    nodes.plan(node, limits(7, None), usize::try_from(demand).unwrap() + more);
                }
                Act::Request(node, answered) => nodes.request(node, answered),
                Act::Hear(node) => nodes.hear(node),
                Act::End(node, count) => nodes.end(node, count),
                Act::Advance(ms) => nodes.clock.advance(Millis::from_ms(ms)),
            }
            prop_assert!(nodes.under_way.iter().sum::<usize>() <= 7, "{:?}", nodes.under_way);
        }
    }
}

/// Runs for some seconds: each node always wants some slots, and attempts take 100 ms.
fn run(cap: u32, per_second: Option<u32>, seconds: u64) -> Nodes {
    let mut nodes = Nodes::new(3);
    for tick in 0..seconds * 20 {
        for node in 0..3 {
            if tick % 2 == 0 {
                nodes.end(node, usize::MAX);
            }
            nodes.plan(node, limits(cap, per_second), 50);
            nodes.request(node, true);
            nodes.hear(node);
            nodes.plan(node, limits(cap, per_second), 50);
        }
        nodes.clock.advance(Millis::from_ms(50));
    }
    nodes
}

#[test]
fn p9_a_cap_of_one_rotates_between_nodes() {
    let nodes = run(1, None, 30);
    let all: usize = nodes.started.iter().sum();
    assert!(nodes.started.iter().all(|started| *started > 50), "{:?}", nodes.started);
    assert!(all > 200, "{all} of 300 in 30 s");
}

#[test]
fn a_cap_is_used_up_and_shared_evenly() {
    let nodes = run(9, None, 10);
    assert!(
        nodes.started.iter().all(|started| (200..=320).contains(started)),
        "{:?}",
        nodes.started
    );
    let mut alone = Nodes::new(3);
    alone.plan(0, limits(9, None), 50);
    alone.request(0, true);
    alone.hear(0);
    alone.plan(0, limits(9, None), 50);
    assert_eq!(alone.under_way, [9, 0, 0], "no other node wants any");
}

#[test]
fn unused_quotas_are_returned_and_removed() {
    let mut nodes = Nodes::new(1);
    nodes.plan(0, limits(9, None), 3);
    nodes.request(0, true);
    nodes.hear(0);
    assert!(nodes.nodes[0].next_request_at().is_some());
    for _ in 0..30 {
        nodes.clock.advance(Millis::from_ms(250));
        nodes.request(0, true);
        nodes.hear(0);
    }
    assert_eq!(nodes.nodes[0].next_request_at(), None);
    assert!(nodes.nodes[0].lanes.is_empty());
}

#[test]
fn a_rate_is_divided_between_nodes() {
    let mut nodes = Nodes::new(2);
    for _ in 0..4 {
        for node in 0..2 {
            nodes.plan(node, limits(100, Some(10)), 50);
            nodes.request(node, true);
            nodes.hear(node);
        }
        nodes.clock.advance(Millis::from_ms(250));
    }
    let load = Load::default();
    let limited =
        nodes.nodes[0].apply_quota(&lane(), limits(100, Some(10)), load, load, Duration::ZERO);
    assert_eq!(limited.rate.map(Rate::per_second), Some(5));
}

#[test]
fn one_request_covers_the_demand_of_all_shards() {
    let mut lanes = crate::lanes::Lanes::new(8, &crate::lanes::tests::options(64, 16), true);
    let settings = Arc::new(Settings::default());
    for shard in (0..8).map(ShardId) {
        let ready = ReadyLane { lane: lane(), first: 2, retry: 1, settings: Arc::clone(&settings) };
        let planned = lanes.plan(shard, vec![ready], Duration::ZERO);
        assert!(planned.is_empty(), "nothing was allotted yet");
    }
    let requests = lanes.quota_requests(Duration::ZERO);
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((request.keep, request.wanted), (0, 24));
    let grant = Allotment { slots: 24, per_second: None };
    let woken = lanes.apply_grant(request, Some(grant), Duration::ZERO);
    assert_eq!(woken.len(), 8);
    for shard in woken {
        let planned = lanes.plan_waiting(shard, Duration::ZERO);
        assert_eq!(planned.iter().map(|p| p.load().sum()).sum::<usize>(), 3);
    }
}

#[test]
fn p10_a_quota_outlasts_its_coordinator_shard() {
    let mut nodes = Nodes::new(2);
    nodes.plan(0, limits(4, None), 9);
    nodes.request(0, true);
    nodes.hear(0);
    // The coordinator shard no longer replies.
    for _ in 0..60 {
        nodes.end(0, usize::MAX);
        nodes.plan(0, limits(4, None), 9);
        assert_eq!(nodes.under_way, [4, 0], "a lane in use keeps what it has");
        nodes.plan(1, limits(4, None), 9);
        assert_eq!(nodes.under_way, [4, 0], "a node that has nothing of the lane begins nothing");
        for node in [0, 1] {
            nodes.ask_in_vain(node);
        }
        nodes.clock.advance(Millis::from_secs(1));
    }
    nodes.end(0, usize::MAX);
    nodes.clock.advance(Millis::from_secs(5));
    nodes.ask_in_vain(0);
    nodes.plan(0, limits(4, None), 9);
    assert_eq!(nodes.under_way, [0, 0], "what was not in use for 5 s is given up, heard or not");
    nodes.clock.advance(Millis::from_secs(1));
    nodes.request(0, true);
    nodes.hear(0);
    nodes.plan(0, limits(4, None), 9);
    assert_eq!(nodes.under_way, [4, 0], "the home is back");
}
