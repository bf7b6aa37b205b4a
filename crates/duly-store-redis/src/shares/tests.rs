//! Random orders of steps, on a real server. Each script is called directly, and its messages are
//! delivered late, twice or never. Changes of the limit come in between, shard by shard.

use std::collections::BTreeSet;

use duly_core::{Settings, schedule::IfExists};
use duly_redis_testkit::server::Server;
use duly_store::{
    Answer, Command, Limit, Operation, Outcome, Refusal, Store,
    namespaces::{DeleteMode, Put, Secrets},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    Options, RedisStore,
    by_hand::{self, name, shard, timer},
    namespaces::own,
    settings,
};

const SHARDS: u16 = 4;
const STEPS: usize = 160;

/// A message under way to a shard.
#[derive(Debug, Clone)]
enum Message {
    /// Transfers of other shards, by their totals.
    Gifts { shard: u16, deal: String, takes: Vec<(u16, u64)> },
    /// The part of an allocation that the shard gets.
    Portion { shard: u16, deal: String, portion: String },
    /// A version of the namespace.
    Version { shard: u16, control: Box<Control>, deals: Deals },
}

/// A caller that counts the use of all shards, one after the other, to allocate a limit again.
#[derive(Debug, Default)]
struct Dealer {
    heard: BTreeMap<u16, Report>,
}

struct World {
    store: RedisStore,
    random: StdRng,
    quota: Quota,
    home: u16,
    /// Limit of each version of the namespace.
    limits: BTreeMap<u64, u64>,
    /// The version that each shard has.
    versions: Vec<u64>,
    messages: Vec<Message>,
    /// Every message that was ever under way: it may arrive again.
    told: Vec<Message>,
    dealers: [Dealer; 2],
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
        let home = deployment.home(&name());
        let control = deployment.control_of(home, &name()).await.expect("a look").1;
        let control = control.expect("it is there");
        let ver: u64 = control.ver.parse().expect("a version");
        let quota = Quota { name: name(), num: control.num, kind: Kind::Pending };
        Self {
            random,
            quota,
            home: home.0,
            limits: BTreeMap::from([(ver, max)]),
            versions: vec![ver; usize::from(SHARDS)],
            messages: Vec::new(),
            told: Vec::new(),
            dealers: Default::default(),
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

    async fn report(&self, shard: u16) -> Report {
        let report = self.deployment().report(ShardId(shard), &self.quota).await;
        report.expect("an answer").expect("it is there")
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..25 => self.schedule().await,
            25..33 => self.cancel().await,
            33..43 => self.give().await,
            43..75 => self.deliver().await,
            75..96 => self.count().await,
            96..98 => self.forget(),
            _ => self.change().await,
        }
    }

    /// Schedules a timer as the fast path does, without a rebalance.
    async fn schedule(&mut self) {
        self.made += 1;
        let text = format!("t{}", self.made);
        let (word, shard) =
            (by_hand::schedule(&self.store, &text).await, shard(&self.store, &text));
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
        by_hand::cancel(&self.store, &text).await;
        let shard = shard(&self.store, &text);
        self.log.push(format!("cancel in {}", shard.0));
        self.live.remove(&text);
    }

    fn tell(&mut self, message: Message) {
        self.told.push(message.clone());
        self.messages.push(message);
    }

    /// A shard sends quota to the coordinator shard, or the coordinator shard to a shard. The total is
    /// under way then.
    async fn give(&mut self) {
        let shard = self.any_shard();
        if shard == self.home {
            return;
        }
        let (giver, taker) =
            if self.random.random_bool(0.5) { (shard, self.home) } else { (self.home, shard) };
        let deal = self.report(giver).await.deal;
        let most = self.random.random_range(0..4);
        let (deployment, quota) = (Arc::clone(self.deployment()), self.quota.clone());
        let given = deployment.shift(ShardId(giver), &quota, &deal, &[], &[(taker, most)]).await;
        let given = given.expect("an answer");
        self.log.push(format!("{giver} gives {taker} {most} of deal {deal}: {given:?}"));
        if let Some(total) = given.first() {
            let takes = vec![(giver, *total)];
            self.tell(Message::Gifts { shard: taker, deal, takes });
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
        let message = if !self.told.is_empty() && self.random.random_bool(0.3) {
            self.told[self.random.random_range(0..self.told.len())].clone()
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
        let (deployment, quota) = (Arc::clone(self.deployment()), self.quota.clone());
        match message {
            Message::Gifts { shard, deal, takes } => {
                let taken = deployment.shift(ShardId(shard), &quota, &deal, &takes, &[]).await;
                taken.expect("an answer");
            }
            Message::Portion { shard, deal, portion } => {
                let taken = deployment.written(ShardId(shard), &quota, &deal, "", &portion).await;
                taken.expect("an answer");
            }
            Message::Version { shard, control, deals } => {
                deployment.take(ShardId(shard), &control, &deals).await.expect("it is taken");
                let ver: u64 = control.ver.parse().expect("a version");
                let own = &mut self.versions[usize::from(shard)];
                *own = ver.max(*own);
            }
        }
    }

    /// A caller counts one more shard, or allocates after it has counted all.
    async fn count(&mut self) {
        let place = self.random.random_range(0..self.dealers.len());
        let heard = &self.dealers[place].heard;
        let shard = (0..SHARDS).find(|shard| !heard.contains_key(shard));
        if let Some(shard) = shard {
            let report = self.report(shard).await;
            self.log.push(format!("counts {shard}: {report:?}"));
            self.dealers[place].heard.insert(shard, report);
            return;
        }
        let heard = std::mem::take(&mut self.dealers[place]).heard;
        let at_home = &heard[&self.home];
        let used = deal::counted(at_home, heard.values());
        let max = at_home.max.expect("a limit");
        let all = used.len() == usize::from(SHARDS);
        let dealt = deal::portions(max, &used).filter(|_| all);
        let Some(dealt) = dealt else { return };
        let home = ShardId(self.home);
        let (deal, ver) = (at_home.deal.clone(), at_home.ver.clone());
        let settled = self.deployment().written(home, &self.quota, &deal, &ver, &dealt).await;
        let settled = settled.expect("an answer");
        self.log.push(format!("settles {dealt} of {deal}: {settled:?}"));
        for (shard, portion) in (0..).zip(settled.iter().flat_map(|all| all.split(' '))) {
            let portion = portion.to_owned();
            self.tell(Message::Portion { shard, deal: deal.clone(), portion });
        }
    }

    /// A caller stops, and its messages are lost.
    fn forget(&mut self) {
        let kept = |message: &Message| matches!(message, Message::Version { .. });
        self.messages.retain(kept);
        self.dealers = Default::default();
        self.log.push("all that was on its way is lost".to_owned());
    }

    /// The coordinator shard takes another limit; the other shards take it one by one.
    async fn change(&mut self) {
        let max = self.random.random_range(1..12);
        self.change_to(max).await;
    }

    async fn change_to(&mut self, max: u64) {
        let home = ShardId(self.home);
        let deployment = Arc::clone(self.deployment());
        let old = deployment.control_of(home, &name()).await.expect("a look").1;
        let old = old.expect("it is there");
        let mut arguments = own(&old, "home");
        arguments[2] = format!("{}:{}", old.num, old.ver).into_bytes();
        arguments[3] = digits(self.home);
        for (field, value) in settings::fields(&limited(max), self.home, SHARDS) {
            arguments.extend([field.into(), value]);
        }
        for field in ["created", "updated"] {
            arguments.extend([field.into(), b"now".to_vec()]);
        }
        arguments.extend([b"@shards".to_vec(), digits(SHARDS)]);
        let mut reply = deployment.ask(home, Script::Put, arguments).await.expect("an answer");
        assert_eq!(reply.text().as_deref(), Ok("DONE"));
        let (_now, _num) = (reply.time(), reply.text());
        let ver = reply.text().expect("a version");
        let deals =
            Deals { pending: reply.text().expect("a deal"), dead: reply.text().expect("a deal") };
        self.log.push(format!("limit {max} at version {ver}, {deals:?}"));
        let control = Control { ver: ver.clone(), settings: Arc::new(limited(max)), ..old };
        let ver: u64 = ver.parse().expect("a version");
        self.limits.insert(ver, max);
        self.versions[usize::from(self.home)] = ver;
        for shard in (0..SHARDS).filter(|shard| *shard != home.0) {
            let (control, deals) = (Box::new(control.clone()), deals.clone());
            self.tell(Message::Version { shard, control, deals });
        }
    }

    /// Without further faults: exactly the limit can be used, and no more.
    async fn settle(&mut self) {
        self.forget();
        let max = self.limits.values().next_back().copied().expect("a limit");
        let mut refused = 0;
        while refused < 20 {
            self.made += 1;
            let text = format!("t{}", self.made);
            let (shard, schedule) = (shard(&self.store, &text), Box::new(timer(&text)));
            let operation = Operation::Schedule { schedule, if_exists: IfExists::default() };
            let command = Command { namespace: name(), operation, answer: Answer::Brief };
            // Clears the wait after a rebalance, as if a second had passed.
            self.deployment().call_ins.0.lock().clear();
            let outcome =
                self.store.apply(shard, vec![command]).await.expect("an answer").remove(0);
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

#[tokio::test(flavor = "multi_thread")]
async fn p10_no_order_of_steps_exceeds_a_limit_or_loses_quota() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut store = open(&server).await;
    for seed in 0..100 {
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
        let portions = deal::portions(10, &used).expect("there is room");
        let home = ShardId(world.home);
        let Report { deal, ver, .. } = world.report(home.0).await;
        let told = world.deployment().written(home, &world.quota, &deal, &ver, &portions).await;
        settled.push(told.expect("an answer").expect("it is settled"));
        while world.live.len() > 2 {
            world.cancel().await;
        }
    }
    assert_eq!(settled[0], settled[1], "the first is what holds");
}
