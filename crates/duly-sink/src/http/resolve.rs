//! Resolving names, with every refused address taken out of the answer (S5).
//!
//! A connection is made to exactly the addresses that come out of here, so there is no second
//! look-up that could answer otherwise (DNS rebinding).
//!
//! The system's resolver blocks a thread for as long as a name server is silent, and names are chosen
//! by those who schedule. So look-ups are shared, queued and bounded within a namespace: each has a few
//! at once, all of them together have more, and names that nobody answers hold up only the namespace
//! that uses them. The first of a namespace's look-ups at once has turns apart from the others, so that
//! a few namespaces with many silent names do not hold up those with one. A name is looked up once at a time for all deliveries of its namespace; one that
//! does not get its turn in time was not connected and is tried again, and its look-up is not begun
//! for nobody. The proxy's name is the operator's and waits for no namespace.
//!
//! What is listed is waited for by an attempt under way or blocks a thread, so nothing else bounds it.

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

/// Look-ups for all namespaces that block a thread at once, apart from one for each.
const LOOKUPS_MAX: usize = 64;
/// Namespaces that have one under way, at once.
const FIRST_LOOKUPS_MAX: usize = 128;
/// Those for one of them.
const LOOKUPS_PER_ASKER_MAX: usize = 8;
/// Addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// A source of addresses for names.
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of `name`, in the order in which they are to be tried.
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

/// For whom names are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Asker {
    /// A namespace, whose callers choose the names.
    Namespace(NamespaceName),
    /// The operator, whose names do not wait for those of namespaces.
    Operator,
}

/// A look-up behind an address policy.
pub(super) struct Names {
    lookup: Arc<dyn Lookup>,
    askers: Arc<Mutex<HashMap<Asker, Asked>>>,
    turns: OfAll,
}

/// The turns of all namespaces.
#[derive(Debug, Clone)]
struct OfAll {
    first: Arc<Semaphore>,
    more: Arc<Semaphore>,
}

/// The turns of one asker.
#[derive(Debug, Clone)]
struct Own {
    all: Arc<Semaphore>,
    first: Arc<Semaphore>,
}

/// What one asker wants to know.
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
    /// A thread may be blocked for it, and cannot be called back.
    Begun,
}

impl Names {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Self {
        let first = Arc::new(Semaphore::new(FIRST_LOOKUPS_MAX));
        let more = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup, askers: Arc::default(), turns: OfAll { first, more } }
    }

    /// The addresses of a name that may be reached, with `port`.
    pub(super) async fn allowed(
        &self,
        asker: Asker,
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

    /// Every address of a name.
    pub(super) async fn all(&self, asker: Asker, name: &str) -> Found {
        let key = Key { askers: Arc::clone(&self.askers), asker, name: name.to_owned() };
        // Dropped last: it looks whether anybody else waits.
        let waiter = Waiter(key);
        let waiting = self.join(&waiter.0);
        waiting.await.unwrap_or_else(|_| Err("the look-up of the name broke off".into()))
    }

    /// Waits for the look-up under way, or for a new one.
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

    /// Once begun it goes on when nobody waits any more: a thread of the system's resolver cannot be
    /// called back, and has to count for as long as it is blocked.
    fn look_up(&self, key: Key, own: Own) -> Waiting {
        let (mut found, waiting) = oneshot::channel();
        let lookup = Arc::clone(&self.lookup);
        let of_all = (key.asker != Asker::Operator).then(|| self.turns.clone());
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
            // Before the name leaves the list, and its asker's turns with the last name.
            drop(turn);
            // Nobody waits any more: the next one asks again.
            found.send(answer).ok();
        });
        waiting.shared()
    }
}

/// What is held while a look-up is under way.
type Turn = [Option<OwnedSemaphorePermit>; 3];

/// A turn among the asker's own look-ups, and then among those of all: among the first ones where it
/// is the asker's only one, or becomes it while it waits.
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

/// One look-up on the lists.
#[derive(Clone)]
struct Key {
    askers: Arc<Mutex<HashMap<Asker, Asked>>>,
    asker: Asker,
    name: String,
}

impl Key {
    /// Marks the look-up that `found` is for as begun, if somebody waits for it.
    fn begin(self, found: &oneshot::Sender<Found>) -> Option<Begun> {
        let mut askers = self.askers.lock();
        // What nobody waits for was taken off the list, which may have a newer one of the same name.
        let listed = askers.get_mut(&self.asker).and_then(|asked| asked.names.get_mut(&self.name));
        let entry = listed.filter(|_| !found.is_closed())?;
        entry.stage = Stage::Begun;
        drop(askers);
        Some(Begun(self))
    }

    /// Takes the name off the list where that is `right`.
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

/// Takes the name off the list, however its look-up ends.
struct Begun(Key);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.remove_if(|_| true);
    }
}

/// One who waits. The last one to go takes a look-up that was not begun with it.
struct Waiter(Key);

impl Drop for Waiter {
    fn drop(&mut self) {
        // The list itself holds one.
        let unwanted =
            |entry: &Entry| entry.stage == Stage::Queued && entry.waiting.strong_count() == Some(1);
        self.0.remove_if(unwanted);
    }
}
