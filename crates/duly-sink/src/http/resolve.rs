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
const LOOKUPS_PER_ASKER_MAX: usize = 8;
/// Most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// The source of addresses for names.
pub trait Lookup: Send + Sync + 'static {
    /// Returns the addresses of `name`, in the order in which they should be tried.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The system's own resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Lookup for System {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

type Found = Result<Arc<[IpAddr]>, Arc<str>>;
type Waiting = Shared<oneshot::Receiver<Found>>;

/// The party for which names are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LookupOwner {
    /// A namespace, whose callers choose the names.
    Namespace(NamespaceName),
    /// The operator, whose names do not wait for those of namespaces.
    Operator,
}

/// A resolver with an address policy.
pub(super) struct Names {
    lookup: Arc<dyn Lookup>,
    askers: Arc<Mutex<HashMap<LookupOwner, Asked>>>,
    turns: OfAll,
}

/// The limits of all namespaces together.
#[derive(Debug, Clone)]
struct OfAll {
    first: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

/// The limits of one asker.
#[derive(Debug, Clone)]
struct Own {
    all: Arc<Semaphore>,
    first: Arc<Semaphore>,
}

/// The look-ups of one asker.
struct Asked {
    turns: Own,
    names: HashMap<String, Entry>,
}

impl Default for Asked {
    fn default() -> Self {
        let all = Arc::new(Semaphore::new(LOOKUPS_PER_ASKER_MAX));
        let first = Arc::new(Semaphore::new(1));
        Self { turns: Own { all, first }, names: HashMap::new() }
    }
}

struct Entry {
    waiting: Waiting,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Queued,
    /// A thread may be blocked for it, which cannot be cancelled.
    Begun,
}

impl Names {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Self {
        let first = Arc::new(Semaphore::new(FIRST_LOOKUPS_MAX));
        let more = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup, askers: Arc::default(), turns: OfAll { first, more } }
    }

    /// Returns the addresses of a name that may be reached, with `port`.
    pub(super) async fn allowed(
        &self,
        asker: LookupOwner,
        name: &str,
        port: u16,
        policy: &AddressPolicy,
    ) -> Result<Vec<SocketAddr>, String> {
        let mut refused = None;
        let mut allowed = Vec::new();
        let found = self.all(asker, name).await.map_err(|reason| reason.to_string())?;
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
    pub(super) async fn all(&self, asker: LookupOwner, name: &str) -> Found {
        let key = Key { askers: Arc::clone(&self.askers), asker, name: name.to_owned() };
        // Dropped last: it checks whether another delivery waits.
        let waiter = Waiter(key);
        let waiting = self.join(&waiter.0);
        waiting.await.unwrap_or_else(|_| Err("the look-up of the name broke off".into()))
    }

    /// Joins the look-up under way, or starts a new one.
    fn join(&self, key: &Key) -> Waiting {
        let mut askers = self.askers.lock();
        let asked = askers.entry(key.asker.clone()).or_default();
        if let Some(entry) = asked.names.get(&key.name) {
            return entry.waiting.clone();
        }
        let waiting = self.look_up(key.clone(), asked.turns.clone());
        let entry = Entry { waiting: waiting.clone(), stage: Stage::Queued };
        asked.names.insert(key.name.clone(), entry);
        waiting
    }

    /// Starts a look-up. Once started it continues even if no delivery waits any more. A thread of the
    /// system's resolver cannot be cancelled, and must count as long as it is blocked.
    fn look_up(&self, key: Key, own: Own) -> Waiting {
        let (mut found, waiting) = oneshot::channel();
        let lookup = Arc::clone(&self.lookup);
        let of_all = (key.asker != LookupOwner::Operator).then(|| self.turns.clone());
        tokio::spawn(async move {
            let turn = tokio::select! {
                turn = turn(own, of_all) => turn,
                () = found.closed() => return,
            };
            let name = key.name.clone();
            let Some(_begun) = key.begin(&found) else { return };
            let answer = match lookup.lookup(name).await {
                Ok(addresses) => Ok(addresses.into()),
                Err(error) => Err(format!("the name cannot be looked up: {error}").into()),
            };
            // Release the permits first: the name leaves the list after that, and with the last name the
            // asker's limits.
            drop(turn);
            // If no delivery waits any more, the next one looks the name up again.
            found.send(answer).ok();
        });
        waiting.shared()
    }
}

/// The permits that a look-up holds.
type Turn = [Option<OwnedSemaphorePermit>; 3];

/// Acquires a permit of the asker, and then one of all askers. The latter counts as a first look-up if
/// this is the asker's only look-up, or becomes it while it waits.
async fn turn(own: Own, of_all: Option<OfAll>) -> Turn {
    let among_own = own.all.acquire_owned().await.ok();
    let Some(OfAll { first, more }) = of_all else {
        return [among_own, None, None];
    };
    let only = async {
        let only = own.first.acquire_owned().await.ok();
        [only, first.acquire_owned().await.ok()]
    };
    let another = async { [None, more.acquire_owned().await.ok()] };
    let [only, among_all] = tokio::select! {
        biased;
        turn = only => turn,
        turn = another => turn,
    };
    [among_own, only, among_all]
}

/// One look-up in the lists.
#[derive(Clone)]
struct Key {
    askers: Arc<Mutex<HashMap<LookupOwner, Asked>>>,
    asker: LookupOwner,
    name: String,
}

impl Key {
    /// Marks the look-up of `found` as started, if a delivery waits for it.
    fn begin(self, found: &oneshot::Sender<Found>) -> Option<Begun> {
        let mut askers = self.askers.lock();
        // An entry without waiting deliveries was removed; the list may have a newer one with the same
        // name.
        let listed = askers.get_mut(&self.asker).and_then(|asked| asked.names.get_mut(&self.name));
        let entry = listed.filter(|_| !found.is_closed())?;
        entry.stage = Stage::Begun;
        drop(askers);
        Some(Begun(self))
    }

    /// Removes the name from the list if its entry matches.
    fn remove_if(&self, right: impl FnOnce(&Entry) -> bool) {
        let mut askers = self.askers.lock();
        let Some(asked) = askers.get_mut(&self.asker) else { return };
        if asked.names.get(&self.name).is_some_and(right) {
            asked.names.remove(&self.name);
        }
        if asked.names.is_empty() {
            askers.remove(&self.asker);
        }
    }
}

/// Removes the name from the list when its look-up ends, for any reason.
struct Begun(Key);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.remove_if(|_| true);
    }
}

/// A waiting delivery. The last one to go removes a look-up that was not started.
struct Waiter(Key);

impl Drop for Waiter {
    fn drop(&mut self) {
        // The list itself holds one reference.
        let unwanted =
            |entry: &Entry| entry.stage == Stage::Queued && entry.waiting.strong_count() == Some(1);
        self.0.remove_if(unwanted);
    }
}
