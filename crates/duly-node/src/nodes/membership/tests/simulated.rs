//! Nodes and coordinator shards with random losses, delays, pauses, failovers and changes of the list:
//! no member acts that another node considers gone. Planted bugs are detected.

use std::collections::BTreeMap;

use duly_store::{conformance::rounds, deployment::Coordinator};

use super::*;

const NODES: usize = 3;
const STEP: u64 = 10;
/// The lists in order: each replaces some of the shards.
const LISTS: [[u16; 3]; 4] = [[0, 1, 2], [0, 1, 3], [4, 3, 1], [4, 5, 6]];

/// A planted protocol bug that the property must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    None,
    /// A member that no fresh reply of a majority lists counts as gone.
    AbsenceIsGone,
    /// A shard admits an evicted member again.
    EvictedRejoins,
    /// A reply counts from its arrival.
    CountsFromReply,
    /// A member id is kept in a new list.
    RunOutlivesList,
}

/// Random numbers: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A message under way.
enum Message {
    Heartbeat { sent: SentHeartbeat, heartbeat: Heartbeat },
    Reply { sent: SentHeartbeat, reply: HeartbeatReply },
}

/// The connection between a node and a shard.
#[derive(Debug, Clone, Copy, Default)]
struct Route {
    loses_heartbeats: bool,
    loses_replies: bool,
    is_slow: bool,
}

struct Node {
    membership: Membership,
    /// By shard: the heartbeat without a reply, if there is one, and the time of the next.
    waits: BTreeMap<ShardId, (Option<SentHeartbeat>, u64)>,
    paused_until: u64,
    /// The list that the node's store knows.
    list: Coordinators,
}

struct World {
    bug: Bug,
    random: Random,
    now: u64,
    nodes: Vec<Node>,
    shards: BTreeMap<ShardId, Coordinator>,
    /// The replica of a shard, and the time until which no server replies for the shard.
    replicas: BTreeMap<ShardId, (Coordinator, u64)>,
    routes: BTreeMap<(usize, ShardId), Route>,
    /// By arrival and node.
    messages: Vec<(u64, usize, Message)>,
    current: usize,
    /// Members that some node considers gone.
    gone: BTreeSet<MemberId>,
    runs: u64,
    acted: u64,
}

impl World {
    fn new(seed: u64, bug: Bug) -> Self {
        let list = list(1, &LISTS[0].map(ShardId));
        let nodes = (0..NODES).map(|i| Node {
            membership: Membership::new(4, list.clone(), MemberId(i as u64 + 1)),
            waits: BTreeMap::new(),
            paused_until: 0,
            list: list.clone(),
        });
        Self {
            bug,
            random: Random(seed),
            now: 0,
            nodes: nodes.collect(),
            shards: (0..7).map(|i| (ShardId(i), Coordinator::new(1))).collect(),
            replicas: BTreeMap::new(),
            routes: BTreeMap::new(),
            messages: Vec::new(),
            current: 0,
            gone: BTreeSet::new(),
            runs: NODES as u64,
            acted: 0,
        }
    }

    fn new_member_id(&mut self) -> MemberId {
        self.runs += 1;
        MemberId(self.runs)
    }

    /// Runs for `ms`; returns the member that acted although it was considered gone.
    fn run(&mut self, ms: u64, faults: bool) -> Result<(), MemberId> {
        for _ in 0..ms / STEP {
            self.now += STEP;
            if faults {
                self.trouble();
            }
            self.fail_over();
            self.carry();
            for i in 0..NODES {
                if self.nodes[i].paused_until <= self.now {
                    self.iterate(i);
                }
                let node = &self.nodes[i].membership;
                if node.may_act(super::ms(self.now)) {
                    self.acted += 1;
                    if self.gone.contains(&node.member_id()) {
                        return Err(node.member_id());
                    }
                }
            }
        }
        Ok(())
    }

    fn trouble(&mut self) {
        let node = usize::try_from(self.random.below(NODES as u64)).unwrap_or(0);
        let place = usize::try_from(self.random.below(3)).unwrap_or(0);
        let shard = ShardId(LISTS[self.current][place]);
        match self.random.below(400) {
            0..=7 => {
                let mut flip = || self.random.one_in(3);
                let route =
                    Route { loses_heartbeats: flip(), loses_replies: flip(), is_slow: flip() };
                self.routes.insert((node, shard), route);
            }
            8..=9 => self.routes.clear(),
            10 => {
                let length = self.random.below(4_000);
                self.nodes[node].paused_until = self.now + length;
            }
            11 if !self.replicas.contains_key(&shard) => {
                // The replica has all evictions and lacks the last heartbeats. No server replies for as
                // long as those count.
                let mut replica = self.shards[&shard].clone();
                if self.random.one_in(2) {
                    replica.forget_members();
                }
                let silent = ACTS_FOR.as_millis() as u64 + self.random.below(2_000);
                self.replicas.insert(shard, (replica, self.now + silent));
            }
            12 if self.random.one_in(4) => self.change_list(),
            _ => {}
        }
    }

    /// A majority of the list accepts another one; then the nodes learn of it.
    fn change_list(&mut self) {
        if self.current + 1 == LISTS.len() {
            return;
        }
        let version = self.current as u64 + 2;
        let left_out = usize::try_from(self.random.below(4)).unwrap_or(0);
        for (place, shard) in LISTS[self.current].iter().enumerate() {
            if place != left_out {
                self.accept(ShardId(*shard), version);
            }
        }
        self.current += 1;
        for shard in LISTS[self.current] {
            self.accept(ShardId(shard), version);
        }
    }

    fn accept(&mut self, shard: ShardId, version: u64) {
        self.shards.entry(shard).and_modify(|kept| kept.accept_list(version));
        self.replicas.entry(shard).and_modify(|(kept, _)| kept.accept_list(version));
    }

    fn fail_over(&mut self) {
        let due = self.replicas.iter().filter(|(_, (_, at))| *at <= self.now);
        for shard in due.map(|(shard, _)| *shard).collect::<Vec<_>>() {
            if let Some((replica, _)) = self.replicas.remove(&shard) {
                self.shards.insert(shard, replica);
            }
        }
    }

    /// Delivers messages.
    fn carry(&mut self) {
        let mut order: Vec<usize> = (0..self.messages.len()).collect();
        order.retain(|i| {
            let (at, node, message) = &self.messages[*i];
            let stalls = matches!(message, Message::Reply { .. });
            *at <= self.now && !(stalls && self.nodes[*node].paused_until > self.now)
        });
        let mut arrived: Vec<_> =
            order.into_iter().rev().map(|i| self.messages.swap_remove(i)).collect();
        arrived.sort_by_key(|(at, node, _)| (*at, *node));
        for (_, node, message) in arrived {
            match message {
                Message::Heartbeat { sent, heartbeat } => self.at_shard(node, sent, heartbeat),
                Message::Reply { sent, reply } => self.at_node(node, sent, reply),
            }
        }
    }

    fn delay(&mut self, route: Route) -> u64 {
        if route.is_slow { self.random.below(1_500) } else { self.random.below(30) }
    }

    fn at_shard(&mut self, node: usize, sent: SentHeartbeat, mut heartbeat: Heartbeat) {
        let route = self.routes.get(&(node, sent.shard)).copied().unwrap_or_default();
        if route.loses_heartbeats || self.replicas.contains_key(&sent.shard) {
            return;
        }
        let Some(shard) = self.shards.get_mut(&sent.shard) else { return };
        let mut reply = shard
            .heartbeat(heartbeat.clone(), duly_core::Timestamp::saturating_from_unix_ms(self.now));
        if reply == HeartbeatReply::Evicted && self.bug == Bug::EvictedRejoins {
            // Acts as a shard that keeps no evictions: it lists the member, and the reply does not say
            // that it was evicted.
            heartbeat.dead.clear();
            reply = HeartbeatReply::Members { members: Vec::new(), evicted: Vec::new() };
        }
        if !route.loses_replies {
            let at = self.now + self.delay(route);
            self.messages.push((at, node, Message::Reply { sent, reply }));
        }
    }

    fn at_node(&mut self, node: usize, sent: SentHeartbeat, reply: HeartbeatReply) {
        let now = super::ms(self.now);
        let waits = self.nodes[node].waits.get(&sent.shard);
        if waits.is_none_or(|(open, _)| *open != Some(sent)) {
            // The heartbeat timed out.
            return;
        }
        let is_acknowledged = matches!(reply, HeartbeatReply::Members { .. });
        let membership = &mut self.nodes[node].membership;
        let counts_from = if self.bug == Bug::CountsFromReply { now } else { sent.at };
        let changes = membership.on_reply(SentHeartbeat { at: counts_from, ..sent }, now, reply);
        self.gone.extend(changes.gone);
        if self.bug == Bug::AbsenceIsGone && membership.may_act(now) {
            let seen: Vec<_> = membership.others().map(|member| member.member_id).collect();
            let absent = membership.watched.iter().filter(|member| !seen.contains(member));
            self.gone.extend(absent);
        }
        let next = if is_acknowledged && membership.has_dead(sent.shard) { 0 } else { 250 };
        let sent_at = u64::try_from(sent.at.as_millis()).unwrap_or(0);
        self.nodes[node].waits.insert(sent.shard, (None, sent_at + next));
    }

    fn iterate(&mut self, i: usize) {
        let now = super::ms(self.now);
        let fresh = self.new_member_id();
        let known = list(self.current as u64 + 1, &LISTS[self.current].map(ShardId));
        // Stores learn of the list at different times.
        if self.nodes[i].list != known && self.random.one_in(50) {
            self.nodes[i].list = known;
        }
        let node = &mut self.nodes[i];
        let before = node.membership.member_id();
        if node.membership.switch_list(node.list.clone(), fresh).is_some() {
            node.waits.clear();
            if self.bug == Bug::RunOutlivesList {
                node.membership.member_id = before;
            }
        }
        node.membership.rejoin_if_due(now, fresh);
        for shard in node.membership.list().shards.clone() {
            let (open, due) = self.nodes[i].waits.get(&shard).copied().unwrap_or_default();
            let is_given_up = open.is_some_and(|sent| now.saturating_sub(sent.at) >= ms(1_000));
            if !is_given_up && (open.is_some() || due > self.now) {
                continue;
            }
            let membership = &mut self.nodes[i].membership;
            let (sent, heartbeat) =
                membership.heartbeat(shard, now, "n", NamespaceFilter::default());
            self.nodes[i].waits.insert(shard, (Some(sent), 0));
            let route = self.routes.get(&(i, shard)).copied().unwrap_or_default();
            // Now and then a heartbeat is sent twice, and one that timed out may arrive much later.
            for _ in 0..=u64::from(self.random.one_in(10)) {
                let at = self.now + self.delay(route);
                let heartbeat = heartbeat.clone();
                self.messages.push((at, i, Message::Heartbeat { sent, heartbeat }));
            }
        }
    }
}

/// Runs a world; returns the member that acted although it was considered gone.
fn simulate(seed: u64, bug: Bug) -> Result<World, MemberId> {
    let mut world = World::new(seed, bug);
    world.run(60_000, true)?;
    world.routes.clear();
    for node in &mut world.nodes {
        node.paused_until = 0;
    }
    world.run(30_000, false)?;
    Ok(world)
}

#[test]
fn t16_no_member_acts_after_another_considers_it_gone() {
    let (mut evicted, mut changed, mut acted) = (0, 0, 0);
    let seeds = rounds(100);
    for seed in 0..seeds {
        let world = simulate(seed, Bug::None);
        let world =
            world.unwrap_or_else(|member| panic!("seed {seed}: {member:?} acted and is gone"));
        // After the faults all nodes act and list each other.
        for node in &world.nodes {
            assert!(node.membership.may_act(ms(world.now)), "seed {seed}");
            let runs: BTreeSet<_> =
                node.membership.others().map(|member| member.member_id).collect();
            let others = world.nodes.iter().map(|node| node.membership.member_id());
            let others: BTreeSet<_> =
                others.filter(|member| *member != node.membership.member_id()).collect();
            assert_eq!(runs, others, "seed {seed}");
        }
        evicted += world.gone.len();
        changed += world.current;
        acted += world.acted;
    }
    // The world had enough faults and enough work.
    let enough = evicted as u64 > 3 * seeds && changed as u64 > seeds / 4;
    assert!(enough, "{evicted} gone, {changed} changes of the list");
    let all = seeds * 3 * 90_000 / STEP;
    assert!(acted > all / 2, "nodes acted in {acted} of {all} steps");
}

#[test]
fn t16_the_simulation_notices_planted_bugs() {
    let bugs =
        [Bug::AbsenceIsGone, Bug::EvictedRejoins, Bug::CountsFromReply, Bug::RunOutlivesList];
    for bug in bugs {
        let noticed = (0..2_000).find(|seed| simulate(*seed, bug).is_err());
        assert!(noticed.is_some(), "{bug:?}");
        println!("{bug:?}: seed {noticed:?}");
    }
}
