//! Random orders of steps with shards that lose everything but their marker, as an unfinished `duly
//! store repair` leaves them.
//!
//! A namespace is made, changed, deleted and repaired; messages are lost, repeated or late. In between a
//! shard is emptied, the coordinator shard as often as all others together. Only timers of an emptied
//! shard may be lost without a recorded end of their namespace.

use duly_store::Namespaces;
use std::collections::BTreeMap;

use redis::{Commands, Connection};

use super::*;
use crate::{keys, namespaces::Absence};

const STEPS: usize = 100;

/// A step that is under way.
#[derive(Debug, Clone)]
enum Message {
    /// A caller that found the name nowhere makes the namespace.
    Create,
    /// A shard receives a version of the namespace.
    Take(u16, Box<Control>, Allocations),
    /// A shard receives the end of a number.
    End(u16, String, String),
    /// The coordinator shard receives that all others have confirmed an end.
    Done(String, String),
}

struct Lossy {
    store: RedisStore,
    redis: Connection,
    random: StdRng,
    coordinator: ShardId,
    messages: Vec<Message>,
    /// Shards that have not confirmed an end yet, by number and version of the end.
    unconfirmed: BTreeMap<(String, String), BTreeSet<u16>>,
    /// Timers that must be there, by shard and number.
    timers: BTreeMap<(u16, String), BTreeSet<String>>,
    /// Numbers whose end was recorded.
    recorded: BTreeSet<String>,
    /// Number of shards that were emptied while they held something.
    emptied: usize,
    made: u32,
    log: Vec<String>,
}

impl Lossy {
    fn new(store: RedisStore, redis: Connection, seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            coordinator: store.deployment.coordinator_of(&name()),
            redis,
            messages: Vec::new(),
            unconfirmed: BTreeMap::new(),
            timers: BTreeMap::new(),
            recorded: BTreeSet::new(),
            emptied: 0,
            made: 0,
            log: vec![format!("seed {seed}")],
            store,
        }
    }

    fn key(shard: u16, own: &str) -> String {
        keys::key(&keys::seq(ShardId(shard), SHARDS), own)
    }

    /// Returns the number that has the name in a shard.
    fn number(&mut self, shard: u16) -> Option<String> {
        self.redis.hget(Self::key(shard, "nn"), name().as_str()).expect("a field")
    }

    async fn control(&self) -> Option<Control> {
        self.store.deployment.control_of(self.coordinator, &name()).await.expect("a read").1
    }

    fn any_shard(&mut self) -> u16 {
        self.random.random_range(0..SHARDS)
    }

    async fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..25 => self.schedule().await,
            25..30 => self.cancel().await,
            30..37 => self.empty(),
            37..43 => self.end().await,
            43..46 => self.locked().await,
            46..50 => self.meet_lock().await,
            50..55 => self.find_absent_and_create().await,
            55..59 => self.change().await,
            59..63 => {
                let put = Put::IfAbsent(Box::default());
                let put = self.store.put_namespace(name(), put).await.map(|(_, new)| new);
                self.log.push(format!("put: {put:?}"));
            }
            63..66 => {
                let mended = self.store.deployment.reconcile().await;
                self.log.push(format!("reconcile: {mended:?}"));
            }
            66..68 => self.store.poll().await,
            68..71 => self.repair().await,
            71..73 => {
                let gone = self.store.delete_namespace(name(), DeleteMode::IfEmpty).await;
                self.log.push(format!("delete: {gone:?}"));
            }
            _ => self.deliver().await,
        }
        self.check();
    }

    /// A caller schedules a timer, and makes the namespace where there is none.
    async fn schedule(&mut self) {
        self.made += 1;
        let text = format!("t{}", self.made);
        let shard = direct_scripts::shard(&self.store, &text);
        let word = direct_scripts::schedule(&self.store, &text).await;
        self.log.push(format!("schedule {text} in {}: {word}", shard.0));
        match word.as_str() {
            "CREATED" => {
                let num = self.number(shard.0).expect("it has the namespace");
                self.timers.entry((shard.0, num)).or_default().insert(text);
            }
            "NONE" => {
                let absent = self.store.deployment.absent(shard, &name()).await;
                self.log.push(format!("absent: {absent:?}"));
                if absent == Ok(Absence::NoNamespace) {
                    let put = Put::IfAbsent(Box::default());
                    let put = self.store.put_namespace(name(), put).await.map(|(_, new)| new);
                    self.log.push(format!("made: {put:?}"));
                }
            }
            _ => {}
        }
    }

    async fn cancel(&mut self) {
        let shard = self.any_shard();
        let Some(num) = self.number(shard) else { return };
        let text = self.timers.get_mut(&(shard, num)).and_then(BTreeSet::pop_first);
        if let Some(text) = text {
            direct_scripts::cancel(&self.store, &text).await;
            self.log.push(format!("cancel {text}"));
        }
    }

    /// A shard comes back without its data.
    fn empty(&mut self) {
        let shard =
            if self.random.random_bool(0.5) { self.coordinator.0 } else { self.any_shard() };
        let mut keys: Vec<Vec<u8>> = self.redis.keys(Self::key(shard, "*")).expect("keys");
        let kept =
            ["marker", "deployment", "members"].map(|own| Self::key(shard, own).into_bytes());
        keys.retain(|key| !kept.contains(key));
        if keys.is_empty() {
            return;
        }
        let _: u64 = self.redis.del(keys).expect("they go");
        self.timers.retain(|(own, _), _| *own != shard);
        self.emptied += 1;
        self.log.push(format!("shard {shard} is emptied"));
    }

    /// A caller deletes the namespace at its coordinator shard, which sends the end to the other shards.
    async fn end(&mut self) {
        let Some(control) = self.control().await else { return };
        let deployment = &self.store.deployment;
        let mut reply =
            deployment.end_at_coordinator(&name(), &control.num, "", "").await.expect("said");
        assert_eq!(reply.text().as_deref(), Ok("DONE"));
        let (_now, ver) = (reply.time(), reply.text().expect("a version"));
        self.log.push(format!("{} ends with version {ver}", control.num));
        let others: BTreeSet<u16> =
            (0..SHARDS).filter(|shard| *shard != self.coordinator.0).collect();
        for shard in &others {
            self.messages.push(Message::End(*shard, control.num.clone(), ver.clone()));
        }
        self.unconfirmed.insert((control.num, ver), others);
    }

    /// A caller takes locks, at the coordinator shard first, and stops.
    async fn locked(&mut self) {
        let Some(control) = self.control().await else { return };
        let own = format!("{:016x}", self.random.random::<u64>());
        let most = self.random.random_range(0..SHARDS);
        let others =
            (0..SHARDS).filter(|shard| *shard != self.coordinator.0).take(usize::from(most));
        for shard in std::iter::once(self.coordinator.0).chain(others) {
            let lock =
                self.store.deployment.deletion_lock(ShardId(shard), &control, "close", &own).await;
            self.log.push(format!("lock of {shard}: {lock:?}"));
            if !matches!(lock, Ok(DeletionLock::Locked(..))) {
                break;
            }
        }
    }

    /// Another caller meets a lock and takes it for expired.
    async fn meet_lock(&mut self) {
        let shard = ShardId(self.any_shard());
        let deployment = Arc::clone(&self.store.deployment);
        let Some(control) = deployment.control_of(shard, &name()).await.expect("a read").1 else {
            return;
        };
        if let Ok(DeletionLock::HeldByOther(holder, _)) =
            deployment.deletion_lock(shard, &control, "look", "").await
        {
            let released = deployment.release_expired_lock(shard, &control, &holder).await;
            self.log.push(format!("{} finds the lock of {holder} expired: {released:?}", shard.0));
        }
    }

    async fn find_absent_and_create(&mut self) {
        let found = self.store.deployment.expect_no_lost_record(&name()).await;
        if found.is_ok() && self.control().await.is_none() {
            self.messages.push(Message::Create);
        }
    }

    async fn change(&mut self) {
        if let Some(changed) = change_at_coordinator(&self.store, self.coordinator).await {
            self.send_version(changed);
        }
    }

    /// Sends the version of the coordinator shard to the other shards.
    fn send_version(&mut self, CoordinatorState { control, allocations }: CoordinatorState) {
        self.log.push(format!("{} has version {}", control.num, control.ver));
        for shard in (0..SHARDS).filter(|shard| *shard != self.coordinator.0) {
            let control = Box::new(control.clone());
            self.messages.push(Message::Take(shard, control, allocations.clone()));
        }
    }

    /// An operator repairs the namespace, and keeps any number if there are several.
    async fn repair(&mut self) {
        let mut numbers: Vec<String> = (0..SHARDS).filter_map(|at| self.number(at)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let place = self.random.random_range(0..=numbers.len());
        let keep = numbers.get(place).map(String::as_str);
        let repaired = self.store.deployment.repair_namespace(&name(), keep).await;
        self.log.push(format!("repair, keep {keep:?}: {:?}", repaired.map(|done| done.restored)));
    }

    async fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.messages.len());
        let message = self.messages[place].clone();
        // Otherwise it arrives again.
        if self.random.random_bool(0.8) {
            self.messages.swap_remove(place);
        }
        // A message may be lost.
        if self.random.random_bool(0.1) {
            return;
        }
        let deployment = Arc::clone(&self.store.deployment);
        match message {
            Message::Create => {
                let next = NextNamespace {
                    settings: Arc::default(),
                    paused: false,
                    resumes_at: None,
                    author: SettingsAuthor::Explicit,
                };
                let made = deployment
                    .put_at_coordinator(
                        self.coordinator,
                        &name(),
                        None,
                        &next,
                        CoordinatorWrite::Plain,
                    )
                    .await;
                if let Some(made) = made.expect("a reply") {
                    self.send_version(made);
                }
            }
            Message::Take(shard, control, allocations) => {
                let newer = deployment.take(ShardId(shard), &control, &allocations).await;
                self.log
                    .push(format!("{shard} hears of {} {}: {newer:?}", control.num, control.ver));
            }
            Message::End(shard, num, ver) => {
                deployment.end_in(ShardId(shard), &name(), &num, &ver).await.expect("a reply");
                self.log.push(format!("{shard} hears of the end of {num}"));
                let Some(left) = self.unconfirmed.get_mut(&(num.clone(), ver.clone())) else {
                    return;
                };
                if left.remove(&shard) && left.is_empty() {
                    self.messages.push(Message::Done(num, ver));
                }
            }
            Message::Done(num, ver) => {
                let done = [name().as_str(), &num, &ver, "done"].map(bytes).to_vec();
                deployment
                    .call_script(self.coordinator, Script::EndNamespace, done)
                    .await
                    .expect("a reply");
            }
        }
    }

    /// Checks that every timer is there unless its namespace's end was recorded.
    fn check(&mut self) {
        let kept = |(_, num): &(u16, String)| !self.recorded.contains(num);
        let kept: Vec<_> = self.timers.iter().filter(|(at, _)| kept(at)).collect();
        let mut asked = redis::pipe();
        asked.hkeys(Self::key(self.coordinator.0, "ends"));
        for ((shard, num), _) in &kept {
            asked.hkeys(Self::key(*shard, &format!("r:{num}")));
        }
        let mut found: Vec<BTreeSet<String>> = asked.query(&mut self.redis).expect("fields");
        let there = found.split_off(1);
        self.recorded.extend(found.remove(0));
        for (((shard, num), timers), there) in kept.into_iter().zip(there) {
            if !self.recorded.contains(num) && !timers.is_subset(&there) {
                let lost: Vec<_> = timers.difference(&there).collect();
                panic!("shard {shard} has lost {lost:?} of {num}: {:#?}", self.log);
            }
        }
    }

    /// Delivers all messages, and repairs as an operator does: afterwards every shard has the same
    /// namespace and takes timers.
    async fn settle(&mut self) {
        while !self.messages.is_empty() {
            self.deliver().await;
            self.check();
        }
        let deployment = Arc::clone(&self.store.deployment);
        for _ in 0..SHARDS * 4 {
            self.meet_lock().await;
        }
        for _ in 0..4 {
            self.repair().await;
            self.store.poll().await;
            self.check();
        }
        let mut numbers: BTreeSet<_> = (0..SHARDS).filter_map(|at| self.number(at)).collect();
        if let Some(keep) = numbers.pop_first() {
            let repaired = deployment.repair_namespace(&name(), Some(&keep)).await;
            assert!(repaired.is_ok(), "{repaired:?}: {:#?}", self.log);
        }
        self.check();
        let put = self.store.put_namespace(name(), Put::IfAbsent(Box::default())).await;
        assert!(put.is_ok(), "{put:?}: {:#?}", self.log);
        deployment.reconcile().await.expect("a read");
        assert!(deployment.to_repair.lock().is_empty(), "{:#?}", self.log);
        let numbers: BTreeSet<_> = (0..SHARDS).map(|at| self.number(at)).collect();
        assert_eq!(numbers.len(), 1, "{numbers:?}: {:#?}", self.log);
        self.check();
    }
}

#[tokio::test]
async fn p3_emptied_shards_remove_no_timers_of_other_shards() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let client = redis::Client::open(server.url()).expect("an address");
    let mut options = Options::new(server.url());
    options.shards = SHARDS;
    let (mut emptied, mut ended) = (0, 0);
    let seeds = rounds(200);
    for seed in 0..seeds {
        let mut redis = client.get_connection().expect("the server is there");
        let _: () = redis::cmd("FLUSHALL").query(&mut redis).expect("it is empty");
        let store = RedisStore::open(&options).await.expect("it opens");
        let mut world = Lossy::new(store, redis, seed);
        for _ in 0..STEPS {
            world.step().await;
        }
        world.settle().await;
        emptied += world.emptied;
        ended += world.recorded.len();
    }
    let enough = emptied as u64 > seeds / 2 && ended as u64 > seeds / 4;
    assert!(enough, "{emptied} shards emptied, {ended} ends recorded");
}
