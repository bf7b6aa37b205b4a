//! Random orders of steps, on a real server. Callers take deletion locks shard by shard and stop half
//! way. Other callers release those locks while their callers go on, and messages arrive after that. So
//! do changes of the namespace that its coordinator shard took before it ended.

use std::{collections::BTreeSet, sync::Arc};

use duly_redis_testkit::server::Server;
use duly_store::{Store, namespaces::Put};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    Options, RedisStore,
    by_hand::{self, name},
    namespaces::{CoordinatorState, Next, Origin, Write},
    shares::Deals,
};

mod emptied;

const SHARDS: u16 = 4;
const STEPS: usize = 120;

/// A message that is under way.
#[derive(Debug, Clone)]
enum Message {
    /// A caller that has stopped takes the lock of a shard.
    Shut(u16, String),
    /// A lock is released that was released at the coordinator shard.
    Open(u16, String),
    /// A shard receives a version of the namespace.
    Take(u16, Box<Control>, Deals),
    /// A shard receives the end.
    End(u16, String),
}

/// A caller that deletes, with the shards that it has locked and that were empty.
#[derive(Debug)]
struct Caller {
    own: String,
    shut: BTreeSet<u16>,
}

/// Makes a change that only the coordinator shard has; `None` if there is no such namespace.
async fn change_at_home(store: &RedisStore, home: ShardId) -> Option<CoordinatorState> {
    let old = store.deployment.control_of(home, &name()).await.expect("a look").1?;
    let next = Next {
        settings: old.settings.clone(),
        paused: old.paused,
        resumes_at: None,
        origin: Origin::Explicit,
    };
    let changed =
        store.deployment.put_at_home(home, &name(), Some(&old), &next, Write::Plain).await;
    Some(changed.expect("an answer").expect("nobody else changes it"))
}

struct World {
    store: RedisStore,
    random: StdRng,
    control: Control,
    home: ShardId,
    callers: Vec<Caller>,
    messages: Vec<Message>,
    live: BTreeSet<String>,
    made: u32,
    ended: bool,
    log: Vec<String>,
}

impl World {
    async fn new(store: RedisStore, seed: u64) -> Self {
        store.put_namespace(name(), Put::IfAbsent(Box::default())).await.expect("it is made");
        let home = store.deployment.home(&name());
        let control = store.deployment.control_of(home, &name()).await.expect("a look").1;
        Self {
            random: StdRng::seed_from_u64(seed),
            control: control.expect("it is there"),
            home,
            callers: Vec::new(),
            messages: Vec::new(),
            live: BTreeSet::new(),
            made: 0,
            ended: false,
            log: vec![format!("seed {seed}")],
            store,
        }
    }

    async fn gate(&mut self, shard: ShardId, what: &str, whose: &str) -> Gate {
        let said = self.store.deployment.gate(shard, &self.control, what, whose).await;
        let said = said.expect("an answer");
        self.log.push(format!("{what} {} by {whose}: {said:?}", shard.0));
        said
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..20 => self.schedule().await,
            20..40 => self.cancel().await,
            40..45 => self.begin().await,
            45..75 => self.go_on().await,
            75..80 => self.give_up().await,
            80..84 => self.doubt().await,
            84..87 => self.change().await,
            _ => self.deliver().await,
        }
    }

    async fn schedule(&mut self) {
        self.made += 1;
        let text = format!("t{}", self.made);
        let word = by_hand::schedule(&self.store, &text).await;
        self.log.push(format!("schedule {text}: {word}"));
        if word == "CREATED" {
            assert!(!self.ended, "a timer of what has ended: {:#?}", self.log);
            self.live.insert(text);
        }
    }

    async fn cancel(&mut self) {
        if let Some(text) = self.live.pop_first() {
            by_hand::cancel(&self.store, &text).await;
            self.log.push(format!("cancel {text}"));
        }
    }

    /// A caller begins to delete.
    async fn begin(&mut self) {
        let own = format!("{:016x}", self.random.random::<u64>());
        match self.gate(self.home, "close", &own).await {
            Gate::Shut(0, 0) => {
                self.callers.push(Caller { own, shut: BTreeSet::from([self.home.0]) });
            }
            Gate::Shut(..) => _ = self.gate(self.home, "open", &own).await,
            _ => {}
        }
    }

    /// One of the callers takes one more lock, or ends the namespace at its coordinator shard.
    async fn go_on(&mut self) {
        if self.callers.is_empty() || self.ended {
            return;
        }
        let place = self.random.random_range(0..self.callers.len());
        let own = self.callers[place].own.clone();
        let left = (0..SHARDS).find(|shard| !self.callers[place].shut.contains(shard));
        let Some(shard) = left else {
            let arguments = [name().as_str(), &self.control.num, "", "empty", &own].map(bytes);
            let deployment = &self.store.deployment;
            let mut reply = deployment.ask(self.home, Script::Gone, arguments.to_vec()).await;
            let word = reply.as_mut().expect("an answer").text().expect("a word");
            self.log.push(format!("{own} ends it: {word}"));
            if word == "DONE" {
                self.ended = true;
                let mut reply = reply.expect("an answer");
                let (_now, ver) = (reply.time(), reply.text().expect("a version"));
                let others = (0..SHARDS).filter(|shard| *shard != self.home.0);
                self.messages.extend(others.map(|shard| Message::End(shard, ver.clone())));
            }
            assert!(!self.ended || self.live.is_empty(), "timers are lost: {:#?}", self.log);
            self.callers.remove(place);
            return;
        };
        match self.gate(ShardId(shard), "close", &own).await {
            Gate::Shut(0, 0) => _ = self.callers[place].shut.insert(shard),
            Gate::Shut(..) => {
                self.callers.remove(place);
                self.open(&own).await;
            }
            Gate::Held(whose, _) => self.doubt_of(ShardId(shard), whose).await,
            Gate::Open | Gate::Absent => {}
        }
    }

    /// One of the callers stops; its last message may still arrive.
    async fn give_up(&mut self) {
        if self.callers.is_empty() {
            return;
        }
        let caller = self.callers.swap_remove(0);
        let left = (0..SHARDS).find(|shard| !caller.shut.contains(shard));
        self.log.push(format!("{} dies", caller.own));
        self.messages.extend(left.map(|shard| Message::Shut(shard, caller.own.clone())));
        if self.random.random_bool(0.5) {
            self.open(&caller.own).await;
        }
    }

    /// Releases a lock at the coordinator shard, and then everywhere else.
    async fn open(&mut self, own: &str) {
        self.gate(self.home, "open", own).await;
        let others = (0..SHARDS).filter(|shard| *shard != self.home.0);
        self.messages.extend(others.map(|shard| Message::Open(shard, own.to_owned())));
    }

    /// A caller meets a lock and takes it for expired.
    async fn doubt(&mut self) {
        let shard = ShardId(self.random.random_range(0..SHARDS));
        if let Gate::Held(whose, _) = self.gate(shard, "look", "").await {
            self.doubt_of(shard, whose).await;
        }
    }

    /// Releases a lock, or does so at the coordinator shard and sends a message to this shard.
    async fn doubt_of(&mut self, shard: ShardId, whose: String) {
        if self.random.random_bool(0.5) {
            self.log.push(format!("{} is in doubt of {whose}", shard.0));
            let deployment = &self.store.deployment;
            deployment.doubt(shard, &self.control, &whose).await.expect("it is opened");
        } else if !matches!(self.gate(self.home, "open", &whose).await, Gate::Absent) {
            self.messages.push(Message::Open(shard.0, whose));
        }
    }

    /// The coordinator shard takes a change, and sends it to the other shards.
    async fn change(&mut self) {
        let Some(CoordinatorState { control, deals }) =
            change_at_home(&self.store, self.home).await
        else {
            return;
        };
        self.log.push(format!("version {}", control.ver));
        for shard in (0..SHARDS).filter(|shard| *shard != self.home.0) {
            let control = Box::new(control.clone());
            self.messages.push(Message::Take(shard, control, deals.clone()));
        }
    }

    async fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.messages.len());
        match self.messages.swap_remove(place) {
            Message::Shut(shard, own) => _ = self.gate(ShardId(shard), "close", &own).await,
            Message::Open(shard, own) => _ = self.gate(ShardId(shard), "open", &own).await,
            Message::Take(shard, control, deals) => {
                let taken = self.store.deployment.take(ShardId(shard), &control, &deals).await;
                self.log.push(format!("{shard} hears of version {}: {taken:?}", control.ver));
            }
            Message::End(shard, ver) => {
                let arguments = [name().as_str(), &self.control.num, &ver, ""].map(bytes).to_vec();
                let ended = self.store.deployment.ask(ShardId(shard), Script::Gone, arguments);
                self.log.push(format!("{shard} ends: {:?}", ended.await.is_ok()));
            }
        }
    }

    /// No caller that deletes is left: a caller that meets a lock releases it, or ends what has ended.
    async fn settle(&mut self) {
        // The end may be lost, and older messages may come after it.
        if self.random.random_bool(0.5) {
            self.messages.retain(|message| !matches!(message, Message::End(..)));
        }
        while self.random.random_bool(0.9) && !self.messages.is_empty() {
            self.deliver().await;
        }
        self.doubt_all().await;
        while !self.messages.is_empty() {
            self.deliver().await;
        }
        self.doubt_all().await;
        for i in 0..20 {
            let text = format!("settled{i}");
            let word = by_hand::schedule(&self.store, &text).await;
            assert_eq!(word, if self.ended { "NONE" } else { "CREATED" }, "{:#?}", self.log);
        }
    }

    async fn doubt_all(&mut self) {
        for shard in (0..SHARDS).map(ShardId) {
            if let Gate::Held(whose, _) = self.gate(shard, "look", "").await {
                let deployment = &self.store.deployment;
                deployment.doubt(shard, &self.control, &whose).await.expect("it is opened");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_no_order_of_steps_loses_timers_or_keeps_deletion_locks() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut options = Options::new(server.url());
    options.shards = SHARDS;
    let mut store = RedisStore::open(&options).await.expect("it opens");
    let mut ended = 0;
    for seed in 0..200 {
        let mut world = World::new(store, seed).await;
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        ended += usize::from(world.ended);
        store = world.store;
        let _gone = store.delete_namespace(name(), DeleteMode::Force).await;
    }
    assert!((20..180).contains(&ended), "{ended} of 200 ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_ended_namespace_stays_ended_when_its_name_is_reused() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut options = Options::new(server.url());
    options.shards = SHARDS;
    let store = RedisStore::open(&options).await.expect("it opens");
    let deployment = &store.deployment;
    store.put_namespace(name(), Put::IfAbsent(Box::default())).await.expect("it is made");
    let home = deployment.home(&name());
    let other = deployment.others(home).next().expect("one of three");
    // A change of the namespace is under way while it ends, and the next one of this name is made.
    let late = change_at_home(&store, home).await.expect("it is there");
    let old = &late.control;
    let end = [name().as_str(), &old.num, "", "", ""].map(bytes).to_vec();
    deployment.ask(home, Script::Gone, end).await.expect("it ends at home");
    let settings = Arc::clone(&old.settings);
    let next = Next { settings, paused: false, resumes_at: None, origin: Origin::Explicit };
    let new = deployment.put_at_home(home, &name(), None, &next, Write::Plain).await;
    let new = new.expect("an answer").expect("it is made");
    // A shard that is to take the new one first ends the old one.
    deployment.end_recorded(other, &name(), &old.num).await.expect("it ends");
    let taken = deployment.take(other, old, &late.deals).await.expect("an answer");
    assert!(taken.is_some(), "it has heard of what came later");
    assert_eq!(deployment.control_of(other, &name()).await.expect("a look").1, None);
    assert_eq!(deployment.take(other, &new.control, &new.deals).await, Ok(None));
}
