//! Resolves names, and removes refused addresses from the result (S5).
//!
//! A connection is made to exactly the returned addresses. There is no second look-up that could return
//! other addresses (DNS rebinding).
//!
//! The system's resolver blocks a thread while a name server does not reply, and callers choose the
//! names. So look-ups are shared, queued and limited by namespace:
//!
//! 1. Each namespace has a few look-ups at once, and all namespaces together have a larger limit. So
//!    names without a reply delay only the namespace that uses them.
//! 2. The first look-up of each namespace counts against a separate limit. So a few namespaces with many
//!    silent names do not delay those with one.
//! 3. A name is looked up once at a time for all deliveries of its namespace.
//! 4. A delivery whose look-up is not started in time counts as not connected and is retried. A look-up
//!    that no delivery waits for is not started.
//! 5. The proxy's name belongs to the operator and waits for no namespace.
//!
//! Each entry of the lists has a waiting attempt or a blocked thread, which limits their number. So the
//! lists need no other limit.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use duly_core::NamespaceName;
use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::address::AddressPolicy;

/// Most look-ups at once for all namespaces, in addition to the first one of each.
const LOOKUPS_MAX: usize = 64;
/// Most namespaces that have a first look-up at once.
const FIRST_LOOKUPS_MAX: usize = 128;
/// Most look-ups at once for one namespace.
const LOOKUPS_PER_OWNER_MAX: usize = 8;
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// The source of addresses for names.
pub trait Lookup: Send + Sync + 'static {
    /// Returns the addresses of `name`, in the order in which they should be tried.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Lookup for SystemResolver {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

type LookupResult = Result<Arc<[IpAddr]>, Arc<str>>;
type PendingLookup = Shared<oneshot::Receiver<LookupResult>>;

/// The party for which names are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LookupOwner {
    /// A namespace, whose callers choose the names.
    Namespace(NamespaceName),
    /// The operator, whose names do not wait for those of namespaces.
    Operator,
}

/// A resolver with an address policy.
pub(super) struct Resolver {
    lookup: Arc<dyn Lookup>,
    owners: Arc<Mutex<HashMap<LookupOwner, OwnerLookups>>>,
    limits: SharedLimits,
}

/// The limits of all namespaces together.
#[derive(Debug, Clone)]
struct SharedLimits {
    first: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

/// The limits of one owner.
#[derive(Debug, Clone)]
struct OwnerLimits {
    all: Arc<Semaphore>,
    first: Arc<Semaphore>,
}

/// The look-ups of one owner.
struct OwnerLookups {
    limits: OwnerLimits,
    names: HashMap<String, LookupEntry>,
}

impl Default for OwnerLookups {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(LOOKUPS_PER_OWNER_MAX));
        let first = Arc::new(Semaphore::new(1));
        Self { limits: OwnerLimits { all, first }, names: HashMap::new() }
    }
}

struct LookupEntry {
    waiting: PendingLookup,
    stage: LookupStage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookupStage {
    Queued,
    /// A thread may be blocked for it, which cannot be cancelled.
    Started,
}

impl Resolver {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Self {
        let first = Arc::new(Semaphore::new(FIRST_LOOKUPS_MAX));
        let more = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup, owners: Arc::default(), limits: SharedLimits { first, more } }
    }

    /// Returns the addresses of a name that may be reached, with `port`.
    pub(super) async fn allowed(
        &self,
        owner: LookupOwner,
        name: &str,
        port: u16,
        policy: &AddressPolicy,
    ) -> Result<Vec<SocketAddr>, String> {
        let mut refused = None;
        let mut allowed = Vec::new();
        let found = self.all(owner, name).await.map_err(|reason| reason.to_string())?;
        for address in found.iter().map(|&ip| SocketAddr::new(ip, port)) {
            match policy.check_socket(address) {
                Ok(()) => allowed.push(address),
                Err(why) => refused = refused.or(Some(why)),
            }
        }
        match refused {
            Some(why) if allowed.is_empty() => Err(why.to_string()),
            _ if allowed.is_empty() => Err("the name has no address".to_owned()),
            _ => {
                allowed.truncate(ADDRESSES_MAX);
                Ok(allowed)
            }
        }
    }

    /// Returns all addresses of a name.
    pub(super) async fn all(&self, owner: LookupOwner, name: &str) -> LookupResult {
        let key = LookupKey { owners: Arc::clone(&self.owners), owner, name: name.to_owned() };
        // Dropped last: it checks whether another delivery waits.
        let waiter = LookupWaiter(key);
        let waiting = self.join_or_start(&waiter.0);
        waiting.await.unwrap_or_else(|_| Err("the look-up of the name was aborted".into()))
    }

    /// Joins the look-up under way, or starts a new one.
    fn join_or_start(&self, key: &LookupKey) -> PendingLookup {
        let mut owners = self.owners.lock();
        let lookups = owners.entry(key.owner.clone()).or_default();
        if let Some(entry) = lookups.names.get(&key.name) {
            return entry.waiting.clone();
        }
        let waiting = self.look_up(key.clone(), lookups.limits.clone());
        let entry = LookupEntry { waiting: waiting.clone(), stage: LookupStage::Queued };
        lookups.names.insert(key.name.clone(), entry);
        waiting
    }

    /// Starts a look-up. Once started it continues even if no delivery waits any more. A thread of the
    /// system's resolver cannot be cancelled, and must count as long as it is blocked.
    fn look_up(&self, key: LookupKey, own: OwnerLimits) -> PendingLookup {
        let (mut found, waiting) = oneshot::channel();
        let lookup = Arc::clone(&self.lookup);
        let shared_limits = (key.owner != LookupOwner::Operator).then(|| self.limits.clone());
        tokio::spawn(async move {
            let permits = tokio::select! {
                permits = acquire_permits(own, shared_limits) => permits,
                () = found.closed() => return,
            };
            let name = key.name.clone();
            let Some(_started) = key.start(&found) else { return };
            let result = match lookup.lookup(name).await {
                Ok(addresses) => Ok(addresses.into()),
                Err(error) => Err(format!("the name cannot be looked up: {error}").into()),
            };
            // Release the permits first: the name leaves the list after that, and with the last name the
            // owner's limits.
            drop(permits);
            // If no delivery waits any more, the next one looks the name up again.
            found.send(result).ok();
        });
        waiting.shared()
    }
}

/// The permits that a look-up holds.
type Permits = [Option<OwnedSemaphorePermit>; 3];

/// Acquires a permit of the owner, and then one of all owners. The latter counts as a first look-up if
/// this is the owner's only look-up, or becomes it while it waits.
async fn acquire_permits(own: OwnerLimits, shared_limits: Option<SharedLimits>) -> Permits {
    let among_own = own.all.acquire_owned().await.ok();
    let Some(SharedLimits { first, more }) = shared_limits else {
        return [among_own, None, None];
    };
    let only = async {
        let only = own.first.acquire_owned().await.ok();
        [only, first.acquire_owned().await.ok()]
    };
    let another = async { [None, more.acquire_owned().await.ok()] };
    let [only, among_all] = tokio::select! {
        biased;
        permits = only => permits,
        permits = another => permits,
    };
    [among_own, only, among_all]
}

/// One look-up in the lists.
#[derive(Clone)]
struct LookupKey {
    owners: Arc<Mutex<HashMap<LookupOwner, OwnerLookups>>>,
    owner: LookupOwner,
    name: String,
}

impl LookupKey {
    /// Marks the look-up of `found` as started, if a delivery waits for it.
    fn start(self, found: &oneshot::Sender<LookupResult>) -> Option<StartedLookup> {
        let mut owners = self.owners.lock();
        // An entry without waiting deliveries was removed; the list may have a newer one with the same
        // name.
        let listed =
            owners.get_mut(&self.owner).and_then(|lookups| lookups.names.get_mut(&self.name));
        let entry = listed.filter(|_| !found.is_closed())?;
        entry.stage = LookupStage::Started;
        drop(owners);
        Some(StartedLookup(self))
    }

    /// Removes the name from the list if its entry matches.
    fn remove_if(&self, right: impl FnOnce(&LookupEntry) -> bool) {
        let mut owners = self.owners.lock();
        let Some(lookups) = owners.get_mut(&self.owner) else { return };
        if lookups.names.get(&self.name).is_some_and(right) {
            lookups.names.remove(&self.name);
        }
        if lookups.names.is_empty() {
            owners.remove(&self.owner);
        }
    }
}

/// Removes the name from the list when its look-up ends, for any reason.
struct StartedLookup(LookupKey);

impl Drop for StartedLookup {
    fn drop(&mut self) {
        self.0.remove_if(|_| true);
    }
}

/// A waiting delivery. The last one to go removes a look-up that was not started.
struct LookupWaiter(LookupKey);

impl Drop for LookupWaiter {
    fn drop(&mut self) {
        // The list itself holds one reference.
        let unwanted = |entry: &LookupEntry| {
            entry.stage == LookupStage::Queued && entry.waiting.strong_count() == Some(1)
        };
        self.0.remove_if(unwanted);
    }
}
