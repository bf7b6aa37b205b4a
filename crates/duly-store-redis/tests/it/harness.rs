//! The harness of the conformance suite for the store on a real server.
//!
//! Three things are between the suite and the store. None of them changes what the store returns:
//!
//! * Scripts read the time from a key instead of the server's clock, and [`Harness::advance`] writes
//!   that key. The wall clock alone cannot step: leases and retries of this store run by it, as its
//!   documentation says. So the harness tells the suite that it cannot do that.
//! * `health` polls first, as it may otherwise be a second old.
//! * The suite reuses numbers of member ids, which a shared store refuses for ever once they are
//!   released. So each life of a low number gets a member id of its own.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use duly_core::{Millis, NamespaceName, TimerId, Timestamp, shard::ShardId};
use duly_store::{
    AccessChange, AccessRecords, AccessStore, AuditEntry, AuditId, AuditStore, ChangeOrigin,
    ClaimRequest, Claimed, Command, Deployment, Forecast, ForecastRequest, Health, ListRequest,
    MemberId, Namespaces, Outcome, Owner, Page, Ready, ReadyCursor, SettleOutcome, Settlement,
    Stats, Store, StoreFuture, TimerView, Timers,
    conformance::{Harness, ManualClock, NAMESPACES_MAX, Restart},
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, Namespace, Put},
};
use duly_store_redis::{Options, RedisStore};
use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use tokio::{runtime::Runtime, sync::watch};

use crate::{
    cluster::Cluster,
    server::{Server, tell},
};

/// Servers that a store can use.
pub(crate) trait Servers: Send {
    /// Returns the URL of the store.
    fn url(&self) -> String;

    /// Returns the port of the server that has shard 0.
    fn port(&self) -> u16;

    /// Ends all servers and starts them again.
    fn restart(&mut self, how: Restart);
}

impl Servers for Server {
    fn url(&self) -> String {
        Self::url(self)
    }

    fn port(&self) -> u16 {
        Self::port(self)
    }

    fn restart(&mut self, how: Restart) {
        if how == Restart::Clean {
            tell(Self::port(self), "SHUTDOWN");
        }
        self.kill();
        self.start_again();
    }
}

impl Servers for Cluster {
    fn url(&self) -> String {
        Self::url(self)
    }

    fn port(&self) -> u16 {
        self.masters[0].port()
    }

    fn restart(&mut self, how: Restart) {
        for server in self.masters.iter_mut().chain(&mut self.replicas) {
            if how == Restart::Clean {
                tell(server.port(), "SHUTDOWN");
            }
            server.kill();
        }
        for server in self.masters.iter_mut().chain(&mut self.replicas) {
            server.start_again();
        }
        self.wait_until_whole();
    }
}

/// Text of the clock of the scripts in tests.
const CLOCK: &str = "local function clock()\n  return tonumber(redis.call('GET', \
                     string.sub(KEYS[1], 1, -4) .. 'test-clock'))\nend";

/// Key that the clock reads; shard 0 is the only one.
const CLOCK_KEY: &str = "duly:{17q}:test-clock";

static NEXT_MEMBER_ID: AtomicU64 = AtomicU64::new(1 << 32);

/// Member ids from here on are not mapped: the cases about nodes that share a store use each once.
const USED_ONCE: u64 = 0xA0;

/// A harness with a store of one shard.
pub(crate) struct RedisHarness {
    runtime: Option<Runtime>,
    servers: Arc<Mutex<dyn Servers>>,
    clock: ManualClock,
    store: Mutex<Arc<HarnessStore>>,
}

impl RedisHarness {
    /// Makes a harness on a server of its own.
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(Mutex::new(Server::start(&[]))))
    }

    /// Makes a harness on servers that hold nothing yet.
    pub(crate) fn on(servers: Arc<Mutex<dyn Servers>>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let clock = ManualClock::default();
        let store = {
            let servers = servers.lock();
            write_clock(&*servers, &clock);
            Mutex::new(open(&runtime, &*servers))
        };
        Self { runtime: Some(runtime), servers, clock, store }
    }
}

fn write_clock(servers: &dyn Servers, clock: &ManualClock) {
    use duly_core::env::Clock;
    let now = clock.now().unix_ms();
    assert_eq!(tell(servers.port(), &format!("SET {CLOCK_KEY} {now}")), "+OK");
}

fn open(runtime: &Runtime, servers: &dyn Servers) -> Arc<HarnessStore> {
    let mut options = Options::new(servers.url());
    options.shards = 1;
    options.namespaces_max = NAMESPACES_MAX;
    options.allow = vec![duly_store_redis::Check::NoReplicas];
    options.clock = Some(CLOCK.to_owned());
    options.silence_timeout = crate::calls::PATIENCE;
    let handle = runtime.handle().clone();
    // The suite calls from a runtime of its own, where a blocking wait is not allowed.
    let store = std::thread::spawn(move || handle.block_on(RedisStore::open(&options)))
        .join()
        .expect("opening does not panic")
        .expect("the store opens");
    let member_ids = Mutex::default();
    Arc::new(HarnessStore { store: Arc::new(store), runtime: runtime.handle().clone(), member_ids })
}

impl Drop for RedisHarness {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Harness for RedisHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&*self.store.lock()) as Arc<dyn Store>
    }

    fn now(&self) -> Timestamp {
        use duly_core::env::Clock;
        self.clock.now()
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, ()> {
        self.clock.advance(by);
        write_clock(&*self.servers.lock(), &self.clock);
        futures::future::ready(()).boxed()
    }

    fn step_wall(&self, _by_ms: i64) -> Option<()> {
        None
    }

    /// Kills the server and starts it again. Then releases the member ids of before, as a node does that
    /// takes the shard over.
    fn restart(&self, how: Restart) -> BoxFuture<'_, Option<()>> {
        let member_ids: Vec<u64> = self.store.lock().member_ids.lock().values().copied().collect();
        {
            let mut servers = self.servers.lock();
            servers.restart(how);
            let runtime = self.runtime.as_ref().expect("it lives as long as the harness");
            *self.store.lock() = open(runtime, &*servers);
        }
        let store = Arc::clone(&self.store.lock().store);
        async move {
            for member_id in member_ids {
                store
                    .release_owner(ShardId(0), MemberId(member_id))
                    .await
                    .expect("member ids are released");
            }
            Some(())
        }
        .boxed()
    }
}

/// The store as the suite sees it.
#[derive(Debug)]
pub(crate) struct HarnessStore {
    store: Arc<RedisStore>,
    runtime: tokio::runtime::Handle,
    /// The member id that a number stands for now.
    member_ids: Mutex<HashMap<u64, u64>>,
}

impl HarnessStore {
    fn mapped(&self, member_id: MemberId) -> MemberId {
        if member_id.0 >= USED_ONCE {
            return member_id;
        }
        let mut member_ids = self.member_ids.lock();
        MemberId(
            *member_ids
                .entry(member_id.0)
                .or_insert_with(|| NEXT_MEMBER_ID.fetch_add(1, Ordering::Relaxed)),
        )
    }
}

impl Timers for HarnessStore {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        self.store.apply(shard, commands)
    }

    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready> {
        self.store.ready(shard, after, limit)
    }

    fn claim(&self, shard: ShardId, mut request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        if let Owner::Node(member_id) = request.owner {
            request.owner = Owner::Node(self.mapped(member_id));
        }
        self.store.claim(shard, request)
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        self.store.settle(shard, settlements)
    }

    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64> {
        if member_id.0 >= USED_ONCE {
            return self.store.release_owner(shard, member_id);
        }
        let released = self.member_ids.lock().remove(&member_id.0);
        async move {
            match released {
                Some(member_id) => self.store.release_owner(shard, MemberId(member_id)).await,
                None => Ok(0),
            }
        }
        .boxed()
    }

    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>> {
        self.store.get(shard, namespace, id, bytes_max)
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        self.store.list(shard, request)
    }

    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        self.store.stats(shard, namespace)
    }

    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>> {
        self.store.forecast(shard, request)
    }

    fn wakeups(&self, shard: ShardId) -> watch::Receiver<u64> {
        self.store.wakeups(shard)
    }
}

impl Namespaces for HarnessStore {
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        self.store.put_namespace(name, put)
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        self.store.get_namespace(name)
    }

    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>> {
        self.store.list_namespaces(after, limit)
    }

    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        self.store.set_activity(name, activity)
    }

    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        self.store.delete_namespace(name, mode)
    }

    fn remove_idle(
        &self,
        from: Option<IdleCursor>,
        waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        self.store.remove_idle(from, waited)
    }
}

impl AccessStore for HarnessStore {
    fn read_access(&self, known: u64) -> StoreFuture<'_, Option<AccessRecords>> {
        self.store.read_access(known)
    }

    fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> StoreFuture<'_, Option<AccessRecords>> {
        self.store.change_access(seen, change, origin)
    }
}

impl AuditStore for HarnessStore {
    fn append_audit(&self, entries: Vec<AuditEntry>) -> StoreFuture<'_, usize> {
        self.store.append_audit(entries)
    }

    fn read_audit(
        &self,
        before: Option<AuditId>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<AuditEntry>> {
        self.store.read_audit(before, limit)
    }
}

impl Store for HarnessStore {
    fn audit(&self) -> Option<&dyn AuditStore> {
        Some(self)
    }

    fn location(&self) -> String {
        self.store.location()
    }

    fn deployment(&self) -> Option<&dyn Deployment> {
        self.store.deployment()
    }

    fn health(&self) -> Health {
        let (runtime, store) = (self.runtime.clone(), Arc::clone(&self.store));
        let polled = std::thread::spawn(move || runtime.block_on(store.poll()));
        polled.join().expect("a poll does not panic");
        self.store.health()
    }
}
