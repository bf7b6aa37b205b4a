//! Random orders of steps, on a real server. Each script is called directly, and its messages are
//! delivered late, twice or never. Changes of the limit come in between, shard by shard.

use std::collections::BTreeSet;

use duly_core::{Settings, schedule::IfExists};
use duly_redis_testkit::server::Server;
use duly_store::{
    Answer, Command, Limit, Namespaces, Operation, Outcome, Refusal, Timers,
    conformance::rounds,
    namespaces::{DeleteMode, Put, Secrets},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    Options, RedisStore,
    namespaces::namespace_arguments,
    settings,
    tests::direct_scripts::{self, name, shard, timer},
};

const SHARDS: u16 = 4;
const STEPS: usize = 160;

/// A message under way to a shard.
#[derive(Debug, Clone)]
enum Message {
    /// Transfers of other shards, by their totals.
    Transfers { shard: u16, allocation: String, receives: Vec<(u16, u64)> },
    /// The part of an allocation that the shard gets.
    Amount { shard: u16, allocation: String, amount: String },
    /// A version of the namespace.
    Version { shard: u16, control: Box<Control>, allocations: Allocations },
}

/// A caller that counts the use of all shards, one after the other, to allocate a limit again.
#[derive(Debug, Default)]
struct Allocator {
    reports: BTreeMap<u16, QuotaReport>,
}

struct World {
    store: RedisStore,
    random: StdRng,
    limit: NamespaceLimit,
    coordinator: u16,
    /// Limit of each version of the namespace.
    limits: BTreeMap<u64, u64>,
    /// The version that each shard has.
    versions: Vec<u64>,
    messages: Vec<Message>,
    /// Every message that was ever under way: it may arrive again.
    sent: Vec<Message>,
    allocators: [Allocator; 2],
    live: BTreeSet<String>,
    made: u32,
    log: Vec<String>,
}

fn limited(max: u64) -> Settings {
    let mut settings = Settings::default();
    settings.limits.max_pending = Some(max);
    settings
}

fn replace(settings: Settings) -> Put {
    Put::Replace { settings: Box::new(settings), secrets: Secrets::Set }
}

impl World {
    async fn new(store: RedisStore, seed: u64) -> Self {
        let _none = store.delete_namespace(name(), DeleteMode::Force).await;
        let mut random = StdRng::seed_from_u64(seed);
        let max = random.random_range(1..12);
        store.put_namespace(name(), replace(limited(max))).await.expect("it is made");
        let deployment = &store.deployment;
        let coordinator = deployment.coordinator_of(&name());
        let control = deployment.control_of(coordinator, &name()).await.expect("a read").1;
        let control = control.expect("it is there");
        let ver: u64 = control.ver.parse().expect("a version");
        let limit = NamespaceLimit { name: name(), num: control.num, kind: LimitKind::Pending };
        Self {
            random,
            limit,
            coordinator: coordinator.0,
            limits: BTreeMap::from([(ver, max)]),
            versions: vec![ver; usize::from(SHARDS)],
            messages: Vec::new(),
            sent: Vec::new(),
            allocators: Default::default(),
            live: BTreeSet::new(),
            made: 0,
            log: Vec::new(),
            store,
        }
    }

    fn deployment(&self) -> &Arc<Deployment> {
        &self.store.deployment
    }

    fn any_shard(&mut self) -> u16 {
        self.random.random_range(0..SHARDS)
    }

    async fn report(&self, shard: u16) -> QuotaReport {
        let report = self.deployment().report(ShardId(shard), &self.limit).await;
        report.expect("a reply").expect("it is there")
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..25 => self.schedule().await,
            25..33 => self.cancel().await,
            33..43 => self.transfer().await,
            43..75 => self.deliver().await,
            75..96 => self.count().await,
            96..98 => self.lose_messages(),
            _ => self.change().await,
        }
    }

    /// Schedules a timer as the fast path does, without a rebalance.
    async fn schedule(&mut self) {
        self.made += 1;
        let text = format!("t{}", self.made);
        let (word, shard) =
            (direct_scripts::schedule(&self.store, &text).await, shard(&self.store, &text));
        self.log.push(format!("schedule in {}: {word}", shard.0));
        if word != "CREATED" {
            return;
        }
        self.live.insert(text);
        // Until all shards have taken a change, some use the version before it.
        let (first, last) = (self.versions.iter().min(), self.versions.iter().max());
        let (first, last) = (*first.expect("shards"), *last.expect("shards"));
        let most = *self.limits.range(first..=last).map(|(_, max)| max).max().expect("limits");
        let pending = self.live.len() as u64;
        assert!(pending <= most, "{pending} pending of {most}: {:#?}", self.log);
    }

    async fn cancel(&mut self) {
        let place = self.random.random_range(0..self.live.len().max(1));
        let Some(text) = self.live.iter().nth(place).cloned() else { return };
        direct_scripts::cancel(&self.store, &text).await;
        let shard = shard(&self.store, &text);
        self.log.push(format!("cancel in {}", shard.0));
        self.live.remove(&text);
    }

    fn send(&mut self, message: Message) {
        self.sent.push(message.clone());
        self.messages.push(message);
    }

    /// A shard sends quota to the coordinator shard, or the coordinator shard to a shard. The total is
    /// under way then.
    async fn transfer(&mut self) {
        let shard = self.any_shard();
        if shard == self.coordinator {
            return;
        }
        let (sender, receiver) = if self.random.random_bool(0.5) {
            (shard, self.coordinator)
        } else {
            (self.coordinator, shard)
        };
        let allocation = self.report(sender).await.allocation;
        let most = self.random.random_range(0..4);
        let (deployment, limit) = (Arc::clone(self.deployment()), self.limit.clone());
        let sent = deployment
            .transfer(ShardId(sender), &limit, &allocation, &[], &[(receiver, most)])
            .await;
        let sent = sent.expect("a reply");
        self.log.push(format!("{sender} gives {receiver} {most} of deal {allocation}: {sent:?}"));
        if let Some(total) = sent.first() {
            let receives = vec![(sender, *total)];
            self.send(Message::Transfers { shard: receiver, allocation, receives });
        }
    }

    /// Delivers all messages.
    async fn deliver_all(&mut self) {
        for message in std::mem::take(&mut self.messages) {
            self.arrive(message).await;
        }
    }

    /// Delivers a message: one under way, or one that was under way before.
    async fn deliver(&mut self) {
        let message = if !self.sent.is_empty() && self.random.random_bool(0.3) {
            self.sent[self.random.random_range(0..self.sent.len())].clone()
        } else if self.messages.is_empty() {
            return;
        } else {
            let place = self.random.random_range(0..self.messages.len());
            self.messages.swap_remove(place)
        };
        self.arrive(message).await;
    }

    async fn arrive(&mut self, message: Message) {
        self.log.push(format!("arrives: {message:?}"));
        let (deployment, limit) = (Arc::clone(self.deployment()), self.limit.clone());
        match message {
            Message::Transfers { shard, allocation, receives } => {
                let received =
                    deployment.transfer(ShardId(shard), &limit, &allocation, &receives, &[]).await;
                received.expect("a reply");
            }
            Message::Amount { shard, allocation, amount } => {
                let received = deployment
                    .write_allocation(ShardId(shard), &limit, &allocation, "", &amount)
                    .await;
                received.expect("a reply");
            }
            Message::Version { shard, control, allocations } => {
                deployment.take(ShardId(shard), &control, &allocations).await.expect("it is taken");
                let ver: u64 = control.ver.parse().expect("a version");
                let own = &mut self.versions[usize::from(shard)];
                *own = ver.max(*own);
            }
        }
    }

    /// A caller counts one more shard, or allocates after it has counted all.
    async fn count(&mut self) {
        let place = self.random.random_range(0..self.allocators.len());
        let reports = &self.allocators[place].reports;
        let shard = (0..SHARDS).find(|shard| !reports.contains_key(shard));
        if let Some(shard) = shard {
            let report = self.report(shard).await;
            self.log.push(format!("counts {shard}: {report:?}"));
            self.allocators[place].reports.insert(shard, report);
            return;
        }
        let reports = std::mem::take(&mut self.allocators[place]).reports;
        let at_coordinator = &reports[&self.coordinator];
        let used = allocation::counted(at_coordinator, reports.values());
        let max = at_coordinator.max.expect("a limit");
        let all = used.len() == usize::from(SHARDS);
        let amounts = allocation::split_limit(max, &used).filter(|_| all);
        let Some(amounts) = amounts else { return };
        let coordinator = ShardId(self.coordinator);
        let (allocation, ver) = (at_coordinator.allocation.clone(), at_coordinator.ver.clone());
        let settled = self
            .deployment()
            .write_allocation(coordinator, &self.limit, &allocation, &ver, &amounts)
            .await;
        let settled = settled.expect("a reply");
        self.log.push(format!("settles {amounts} of {allocation}: {settled:?}"));
        for (shard, amount) in (0..).zip(settled.iter().flat_map(|all| all.split(' '))) {
            let amount = amount.to_owned();
            self.send(Message::Amount { shard, allocation: allocation.clone(), amount });
        }
    }

    /// A caller stops, and its messages are lost.
    fn lose_messages(&mut self) {
        let kept = |message: &Message| matches!(message, Message::Version { .. });
        self.messages.retain(kept);
        self.allocators = Default::default();
        self.log.push("all that was on its way is lost".to_owned());
    }

    /// The coordinator shard takes another limit; the other shards take it one by one.
    async fn change(&mut self) {
        let max = self.random.random_range(1..12);
        self.change_to(max).await;
    }

    async fn change_to(&mut self, max: u64) {
        let coordinator = ShardId(self.coordinator);
        let deployment = Arc::clone(self.deployment());
        let old = deployment.control_of(coordinator, &name()).await.expect("a read").1;
        let old = old.expect("it is there");
        let mut arguments = namespace_arguments(&old, "home");
        arguments[2] = format!("{}:{}", old.num, old.ver).into_bytes();
        arguments[3] = digits(self.coordinator);
        for (field, value) in settings::fields(&limited(max), self.coordinator, SHARDS) {
            arguments.extend([field.into(), value]);
        }
        for field in ["created", "updated"] {
            arguments.extend([field.into(), b"now".to_vec()]);
        }
        arguments.extend([b"@shards".to_vec(), digits(SHARDS)]);
        let mut reply =
            deployment.call_script(coordinator, Script::Put, arguments).await.expect("a reply");
        assert_eq!(reply.text().as_deref(), Ok("DONE"));
        let (_now, _num) = (reply.time(), reply.text());
        let ver = reply.text().expect("a version");
        let allocations = Allocations {
            pending: reply.text().expect("an allocation"),
            dead: reply.text().expect("an allocation"),
        };
        self.log.push(format!("limit {max} at version {ver}, {allocations:?}"));
        let control = Control { ver: ver.clone(), settings: Arc::new(limited(max)), ..old };
        let ver: u64 = ver.parse().expect("a version");
        self.limits.insert(ver, max);
        self.versions[usize::from(self.coordinator)] = ver;
        for shard in (0..SHARDS).filter(|shard| *shard != coordinator.0) {
            let (control, allocations) = (Box::new(control.clone()), allocations.clone());
            self.send(Message::Version { shard, control, allocations });
        }
    }

    /// Without further faults: exactly the limit can be used, and no more.
    async fn settle(&mut self) {
        self.lose_messages();
        let max = self.limits.values().next_back().copied().expect("a limit");
        let mut refused = 0;
        while refused < 20 {
            self.made += 1;
            let text = format!("t{}", self.made);
            let (shard, schedule) = (shard(&self.store, &text), Box::new(timer(&text)));
            let operation = Operation::Schedule { schedule, if_exists: IfExists::default() };
            let command = Command { namespace: name(), operation, answer: Answer::Brief };
            // Clears the wait after a rebalance, as if a second had passed.
            self.deployment().rebalances.0.lock().clear();
            let outcome = self.store.apply(shard, vec![command]).await.expect("a reply").remove(0);
            match outcome {
                Outcome::Created(_) => {
                    self.live.insert(text);
                    // A change that did not reach every shard is finished by the next refused call.
                    let (pending, most) = (self.live.len() as u64, self.limits.values().max());
                    assert!(Some(&pending) <= most, "{pending} pending: {:#?}", self.log);
                }
                Outcome::Refused(Refusal::QuotaExceeded { quota: Limit::MaxPending, .. }) => {
                    refused += 1;
                    assert!(
                        self.live.len() as u64 >= max,
                        "refused at {} of {max}: {:#?}",
                        self.live.len(),
                        self.log
                    );
                    // More timers were pending than the new limit allows.
                    if self.live.len() as u64 > max {
                        self.cancel().await;
                    }
                }
                other => panic!("{other:?}: {:#?}", self.log),
            }
            if refused > 0 && self.live.len() as u64 <= max {
                break;
            }
        }
        assert_eq!(self.live.len() as u64, max, "{:#?}", self.log);
    }
}

async fn open(server: &Server) -> RedisStore {
    let mut options = Options::new(server.url());
    options.shards = SHARDS;
    RedisStore::open(&options).await.expect("it opens")
}

#[tokio::test]
async fn p10_no_order_of_steps_exceeds_a_limit_or_loses_quota() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut store = open(&server).await;
    for seed in 0..rounds(100) {
        let mut world = World::new(store, seed).await;
        world.log.push(format!("seed {seed}"));
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        store = world.store;
    }
}

/// Two callers count at different times, and the shards get what both settle.
#[tokio::test(flavor = "multi_thread")]
async fn p10_concurrent_allocations_settle_the_same_quotas() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut world = World::new(open(&server).await, 0).await;
    world.change_to(400).await;
    world.deliver_all().await;
    while world.live.len() < 8 {
        world.schedule().await;
    }
    world.change_to(10).await;
    world.deliver_all().await;
    let mut settled = Vec::new();
    for _ in 0..2 {
        let mut used = Vec::new();
        for shard in 0..SHARDS {
            used.push(world.report(shard).await.used);
        }
        let amounts = allocation::split_limit(10, &used).expect("there is a rest");
        let coordinator = ShardId(world.coordinator);
        let QuotaReport { allocation, ver, .. } = world.report(coordinator.0).await;
        let sent = world
            .deployment()
            .write_allocation(coordinator, &world.limit, &allocation, &ver, &amounts)
            .await;
        settled.push(sent.expect("a reply").expect("it is settled"));
        while world.live.len() > 2 {
            world.cancel().await;
        }
    }
    assert_eq!(settled[0], settled[1], "the first is what holds");
}
