//! Resolving names, with every refused address taken out of the answer (S5).
//!
//! The client connects to exactly the addresses that come out of here, so there is no second
//! look-up that could answer otherwise (DNS rebinding).

use std::{io, net::IpAddr, net::SocketAddr, sync::Arc};

use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::AddressPolicy;

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

/// A look-up behind an address policy.
pub(super) struct Guarded {
    lookup: Arc<dyn Lookup>,
    addresses: AddressPolicy,
}

impl Guarded {
    pub(super) fn new(lookup: Arc<dyn Lookup>, addresses: AddressPolicy) -> Self {
        Self { lookup, addresses }
    }
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.lookup.lookup(name.as_str().to_owned());
        let addresses = self.addresses.clone();
        Box::pin(async move {
            let mut refused = None;
            let mut allowed = Vec::new();
            for ip in found.await? {
                match addresses.check(ip) {
                    // Port 0: the client puts in the port of the URL.
                    Ok(()) => allowed.push(SocketAddr::new(ip, 0)),
                    Err(why) => refused = refused.or(Some(why)),
                }
            }
            match refused {
                Some(why) if allowed.is_empty() => Err(why.into()),
                _ if allowed.is_empty() => Err("the name has no address".into()),
                _ => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}
