//! Random orders of steps, on a real server. Callers take deletion locks shard by shard and stop half
//! way. Other callers release those locks while their callers go on, and messages arrive after that. So
//! do changes of the namespace that its coordinator shard took before it ended.

use std::{collections::BTreeSet, sync::Arc};

use duly_redis_testkit::server::Server;
use duly_store::{Namespaces, conformance::rounds, namespaces::Put};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    Options, RedisStore,
    namespaces::{CoordinatorState, CoordinatorWrite, NextNamespace, SettingsAuthor},
    quota::Allocations,
    tests::direct_scripts::{self, name},
};

mod emptied;

const SHARDS: u16 = 4;
const STEPS: usize = 120;

/// A message that is under way.
#[derive(Debug, Clone)]
enum Message {
    /// A caller that has stopped takes the lock of a shard.
    Lock(u16, String),
    /// A lock is released that was released at the coordinator shard.
    Unlock(u16, String),
    /// A shard receives a version of the namespace.
    Take(u16, Box<Control>, Allocations),
    /// A shard receives the end.
    End(u16, String),
}

/// A caller that deletes, with the shards that it has locked and that were empty.
#[derive(Debug)]
struct Caller {
    own: String,
    locked: BTreeSet<u16>,
}

/// Makes a change that only the coordinator shard has; `None` if there is no such namespace.
async fn change_at_coordinator(
    store: &RedisStore,
    coordinator: ShardId,
) -> Option<CoordinatorState> {
    let old = store.deployment.control_of(coordinator, &name()).await.expect("a read").1?;
    let next = NextNamespace {
        settings: old.settings.clone(),
        paused: old.paused,
        resumes_at: None,
        author: SettingsAuthor::Explicit,
    };
    let changed = store
        .deployment
        .put_at_coordinator(coordinator, &name(), Some(&old), &next, CoordinatorWrite::Plain)
        .await;
    Some(changed.expect("a reply").expect("nobody else changes it"))
}

struct World {
    store: RedisStore,
    random: StdRng,
    control: Control,
    coordinator: ShardId,
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
        let coordinator = store.deployment.coordinator_of(&name());
        let control = store.deployment.control_of(coordinator, &name()).await.expect("a read").1;
        Self {
            random: StdRng::seed_from_u64(seed),
            control: control.expect("it is there"),
            coordinator,
            callers: Vec::new(),
            messages: Vec::new(),
            live: BTreeSet::new(),
            made: 0,
            ended: false,
            log: vec![format!("seed {seed}")],
            store,
        }
    }

    async fn deletion_lock(&mut self, shard: ShardId, what: &str, holder: &str) -> DeletionLock {
        let reply = self.store.deployment.deletion_lock(shard, &self.control, what, holder).await;
        let reply = reply.expect("a reply");
        self.log.push(format!("{what} {} by {holder}: {reply:?}", shard.0));
        reply
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..20 => self.schedule().await,
            20..40 => self.cancel().await,
            40..45 => self.begin().await,
            45..75 => self.continue_deletion().await,
            75..80 => self.stop_caller().await,
            80..84 => self.meet_lock().await,
            84..87 => self.change().await,
            _ => self.deliver().await,
        }
    }

    async fn schedule(&mut self) {
        self.made += 1;
        let text = format!("t{}", self.made);
        let word = direct_scripts::schedule(&self.store, &text).await;
        self.log.push(format!("schedule {text}: {word}"));
        if word == "CREATED" {
            assert!(!self.ended, "a timer of what has ended: {:#?}", self.log);
            self.live.insert(text);
        }
    }

    async fn cancel(&mut self) {
        if let Some(text) = self.live.pop_first() {
            direct_scripts::cancel(&self.store, &text).await;
            self.log.push(format!("cancel {text}"));
        }
    }

    /// A caller begins to delete.
    async fn begin(&mut self) {
        let own = format!("{:016x}", self.random.random::<u64>());
        match self.deletion_lock(self.coordinator, "close", &own).await {
            DeletionLock::Locked(0, 0) => {
                self.callers.push(Caller { own, locked: BTreeSet::from([self.coordinator.0]) });
            }
            DeletionLock::Locked(..) => {
                _ = self.deletion_lock(self.coordinator, "open", &own).await
            }
            _ => {}
        }
    }

    /// One of the callers takes one more lock, or ends the namespace at its coordinator shard.
    async fn continue_deletion(&mut self) {
        if self.callers.is_empty() || self.ended {
            return;
        }
        let place = self.random.random_range(0..self.callers.len());
        let own = self.callers[place].own.clone();
        let left = (0..SHARDS).find(|shard| !self.callers[place].locked.contains(shard));
        let Some(shard) = left else {
            let arguments = [name().as_str(), &self.control.num, "", "empty", &own].map(bytes);
            let deployment = &self.store.deployment;
            let mut reply = deployment
                .call_script(self.coordinator, Script::EndNamespace, arguments.to_vec())
                .await;
            let word = reply.as_mut().expect("a reply").text().expect("a word");
            self.log.push(format!("{own} ends it: {word}"));
            if word == "DONE" {
                self.ended = true;
                let mut reply = reply.expect("a reply");
                let (_now, ver) = (reply.time(), reply.text().expect("a version"));
                let others = (0..SHARDS).filter(|shard| *shard != self.coordinator.0);
                self.messages.extend(others.map(|shard| Message::End(shard, ver.clone())));
            }
            assert!(!self.ended || self.live.is_empty(), "timers are lost: {:#?}", self.log);
            self.callers.remove(place);
            return;
        };
        match self.deletion_lock(ShardId(shard), "close", &own).await {
            DeletionLock::Locked(0, 0) => _ = self.callers[place].locked.insert(shard),
            DeletionLock::Locked(..) => {
                self.callers.remove(place);
                self.open(&own).await;
            }
            DeletionLock::HeldByOther(holder, _) => {
                self.release_lock_of(ShardId(shard), holder).await
            }
            DeletionLock::Unlocked | DeletionLock::NoNamespace => {}
        }
    }

    /// One of the callers stops; its last message may still arrive.
    async fn stop_caller(&mut self) {
        if self.callers.is_empty() {
            return;
        }
        let caller = self.callers.swap_remove(0);
        let left = (0..SHARDS).find(|shard| !caller.locked.contains(shard));
        self.log.push(format!("{} dies", caller.own));
        self.messages.extend(left.map(|shard| Message::Lock(shard, caller.own.clone())));
        if self.random.random_bool(0.5) {
            self.open(&caller.own).await;
        }
    }

    /// Releases a lock at the coordinator shard, and then everywhere else.
    async fn open(&mut self, own: &str) {
        self.deletion_lock(self.coordinator, "open", own).await;
        let others = (0..SHARDS).filter(|shard| *shard != self.coordinator.0);
        self.messages.extend(others.map(|shard| Message::Unlock(shard, own.to_owned())));
    }

    /// A caller meets a lock and takes it for expired.
    async fn meet_lock(&mut self) {
        let shard = ShardId(self.random.random_range(0..SHARDS));
        if let DeletionLock::HeldByOther(holder, _) = self.deletion_lock(shard, "look", "").await {
            self.release_lock_of(shard, holder).await;
        }
    }

    /// Releases a lock, or does so at the coordinator shard and sends a message to this shard.
    async fn release_lock_of(&mut self, shard: ShardId, holder: String) {
        if self.random.random_bool(0.5) {
            self.log.push(format!("{} finds the lock of {holder} expired", shard.0));
            let deployment = &self.store.deployment;
            deployment
                .release_expired_lock(shard, &self.control, &holder)
                .await
                .expect("it is opened");
        } else if !matches!(
            self.deletion_lock(self.coordinator, "open", &holder).await,
            DeletionLock::NoNamespace
        ) {
            self.messages.push(Message::Unlock(shard.0, holder));
        }
    }

    /// The coordinator shard takes a change, and sends it to the other shards.
    async fn change(&mut self) {
        let Some(CoordinatorState { control, allocations }) =
            change_at_coordinator(&self.store, self.coordinator).await
        else {
            return;
        };
        self.log.push(format!("version {}", control.ver));
        for shard in (0..SHARDS).filter(|shard| *shard != self.coordinator.0) {
            let control = Box::new(control.clone());
            self.messages.push(Message::Take(shard, control, allocations.clone()));
        }
    }

    async fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.messages.len());
        match self.messages.swap_remove(place) {
            Message::Lock(shard, own) => {
                _ = self.deletion_lock(ShardId(shard), "close", &own).await
            }
            Message::Unlock(shard, own) => {
                _ = self.deletion_lock(ShardId(shard), "open", &own).await
            }
            Message::Take(shard, control, allocations) => {
                let newer =
                    self.store.deployment.take(ShardId(shard), &control, &allocations).await;
                self.log.push(format!("{shard} hears of version {}: {newer:?}", control.ver));
            }
            Message::End(shard, ver) => {
                let arguments = [name().as_str(), &self.control.num, &ver, ""].map(bytes).to_vec();
                let ended = self.store.deployment.call_script(
                    ShardId(shard),
                    Script::EndNamespace,
                    arguments,
                );
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
        self.release_all_locks().await;
        while !self.messages.is_empty() {
            self.deliver().await;
        }
        self.release_all_locks().await;
        for i in 0..20 {
            let text = format!("settled{i}");
            let word = direct_scripts::schedule(&self.store, &text).await;
            assert_eq!(word, if self.ended { "NONE" } else { "CREATED" }, "{:#?}", self.log);
        }
    }

    async fn release_all_locks(&mut self) {
        for shard in (0..SHARDS).map(ShardId) {
            if let DeletionLock::HeldByOther(holder, _) =
                self.deletion_lock(shard, "look", "").await
            {
                let deployment = &self.store.deployment;
                deployment
                    .release_expired_lock(shard, &self.control, &holder)
                    .await
                    .expect("it is opened");
            }
        }
    }
}

#[tokio::test]
async fn p3_no_order_of_steps_loses_timers_or_keeps_deletion_locks() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut options = Options::new(server.url());
    options.shards = SHARDS;
    let mut store = RedisStore::open(&options).await.expect("it opens");
    let mut ended = 0;
    let seeds = rounds(200);
    for seed in 0..seeds {
        let mut world = World::new(store, seed).await;
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        ended += u64::from(world.ended);
        store = world.store;
        let _gone = store.delete_namespace(name(), DeleteMode::Force).await;
    }
    assert!((seeds / 10..seeds - seeds / 10).contains(&ended), "{ended} of {seeds} ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_ended_namespace_stays_ended_when_its_name_is_reused() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut options = Options::new(server.url());
    options.shards = SHARDS;
    let store = RedisStore::open(&options).await.expect("it opens");
    let deployment = &store.deployment;
    store.put_namespace(name(), Put::IfAbsent(Box::default())).await.expect("it is made");
    let coordinator = deployment.coordinator_of(&name());
    let other = deployment.others(coordinator).next().expect("one of three");
    // A change of the namespace is under way while it ends, and the next one of this name is made.
    let late = change_at_coordinator(&store, coordinator).await.expect("it is there");
    let old = &late.control;
    let end = [name().as_str(), &old.num, "", "", ""].map(bytes).to_vec();
    deployment
        .call_script(coordinator, Script::EndNamespace, end)
        .await
        .expect("it ends at the coordinator shard");
    let settings = Arc::clone(&old.settings);
    let next = NextNamespace {
        settings,
        paused: false,
        resumes_at: None,
        author: SettingsAuthor::Explicit,
    };
    let new = deployment
        .put_at_coordinator(coordinator, &name(), None, &next, CoordinatorWrite::Plain)
        .await;
    let new = new.expect("a reply").expect("it is made");
    // A shard that is to take the new one first ends the old one.
    deployment.end_recorded(other, &name(), &old.num).await.expect("it ends");
    let newer = deployment.take(other, old, &late.allocations).await.expect("a reply");
    assert!(newer.is_some(), "it has seen a later version");
    assert_eq!(deployment.control_of(other, &name()).await.expect("a read").1, None);
    assert_eq!(deployment.take(other, &new.control, &new.allocations).await, Ok(None));
}
