//! Resolving names, with every refused address taken out of the answer (S5).
//!
//! A connection is made to exactly the addresses that come out of here, so there is no second
//! look-up that could answer otherwise (DNS rebinding).
//!
//! The system's resolver blocks a thread for as long as a name server is silent. So one name is
//! looked up once at a time, however many deliveries wait for it, and only so many names at once:
//! what does not get its turn in time was not connected, and is tried again.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};

use super::address::AddressPolicy;

/// Look-ups that block a thread at once.
const LOOKUPS_MAX: usize = 64;
/// Names that are looked up or wait for it.
const NAMES_MAX: usize = 4096;
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

/// A look-up behind an address policy.
pub(super) struct Names {
    lookup: Arc<dyn Lookup>,
    under_way: Arc<Mutex<HashMap<String, Waiting>>>,
    turns: Arc<Semaphore>,
}

impl Names {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Self {
        let turns = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { lookup, under_way: Arc::default(), turns }
    }

    /// The addresses of a name that may be reached, with `port`.
    pub(super) async fn allowed(
        &self,
        name: &str,
        port: u16,
        policy: &AddressPolicy,
    ) -> Result<Vec<SocketAddr>, String> {
        let mut refused = None;
        let mut allowed = Vec::new();
        let found = self.all(name).await.map_err(|reason| reason.to_string())?;
        for &ip in found.iter() {
            match policy.check(ip) {
                Ok(()) => allowed.push(SocketAddr::new(ip, port)),
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
    pub(super) async fn all(&self, name: &str) -> Found {
        let waiting = {
            let mut under_way = self.under_way.lock();
            match under_way.get(name) {
                Some(waiting) => waiting.clone(),
                None if under_way.len() >= NAMES_MAX => {
                    let reason = format!(
                        "more than {NAMES_MAX} names are being looked up; is the name server slow?"
                    );
                    return Err(reason.into());
                }
                None => {
                    let waiting = self.look_up(name.to_owned());
                    under_way.insert(name.to_owned(), waiting.clone());
                    waiting
                }
            }
        };
        waiting.await.unwrap_or_else(|_| Err("the look-up of the name broke off".into()))
    }

    /// Goes on when nobody waits any more: a thread of the system's resolver cannot be called back,
    /// and has to count for as long as it is blocked.
    fn look_up(&self, name: String) -> Waiting {
        let (found, waiting) = oneshot::channel();
        let lookup = Arc::clone(&self.lookup);
        let (under_way, turns) = (Arc::clone(&self.under_way), Arc::clone(&self.turns));
        tokio::spawn(async move {
            let _gone = Gone { under_way, name: name.clone() };
            let _turn = turns.acquire_owned().await;
            let answer = match lookup.lookup(name).await {
                Ok(addresses) => Ok(addresses.into()),
                Err(error) => Err(format!("the name cannot be looked up: {error}").into()),
            };
            // Nobody waits any more: the next one asks again.
            found.send(answer).ok();
        });
        waiting.shared()
    }
}

/// Takes the name off the list, however its look-up ends.
struct Gone {
    under_way: Arc<Mutex<HashMap<String, Waiting>>>,
    name: String,
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.under_way.lock().remove(&self.name);
    }
}
