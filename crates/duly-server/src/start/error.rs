//! Why a server does not start: one message each, for the person who started it.

use std::{io, net::SocketAddr, path::PathBuf};

use duly_store::Error;
use duly_store_embedded::OpenError;
use tokio::task;

use crate::config::{Origin, StoreUrl};

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store of a server that ran has ended for good: see [`EmbeddedStore::ended`].
    ///
    /// [`EmbeddedStore::ended`]: duly_store_embedded::EmbeddedStore::ended
    #[error("{0}")]
    StoreEnded(String),
    /// The port cannot be had.
    #[error("cannot listen on {address} ({key}, from {origin}): {source}{}", hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The key of the configuration that names it.
        key: &'static str,
        /// Where it comes from.
        origin: Origin,
        /// Why.
        source: io::Error,
    },
    /// The data directory cannot be opened.
    #[error("cannot open the data directory {} (store.data, from {origin}): {source}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// Why.
        source: Box<OpenError>,
    },
    /// The data directory is not there and cannot be made.
    #[error(
        "cannot make the data directory {} (store.data, from {origin}): nothing can be made in {}; \
         pass a directory on a disk with --data",
        path.display(), parent.display()
    )]
    Make {
        /// The directory.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// Where it, or a directory above it, was to be made.
        parent: PathBuf,
    },
    /// The data directory holds files of something else.
    #[error(
        "{} is no data directory (store.data, from {origin}): it holds {found:?} and no Duly store; \
         pass an empty or a new directory with --data",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// The first name in it that is none of Duly's.
        found: String,
    },
    /// The store that nodes share cannot be opened.
    #[error("cannot open the store {url} (store.url, from {origin}): {source}{}", advice(source))]
    Shared {
        /// Where it is.
        url: StoreUrl,
        /// Where that comes from.
        origin: Origin,
        /// Why.
        source: Box<duly_store_redis::OpenError>,
    },
    /// The password of the store cannot be read.
    #[error("cannot use the password in {} (store.password_file, from {origin}): {reason}", path.display())]
    StorePassword {
        /// The file.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// Why, without anything of what is in it.
        reason: String,
    },
    /// The webhook client cannot be made.
    #[error("cannot make the webhook client: {0}")]
    Sink(#[from] duly_sink::Error),
    /// The proxy's credentials cannot be read.
    #[error(
        "cannot use the proxy's credentials in {} (webhook.proxy_credentials_file, from {origin}): \
         {reason}",
        path.display()
    )]
    ProxyCredentials {
        /// The file.
        path: PathBuf,
        /// Where it comes from.
        origin: Origin,
        /// Why, without anything of what is in it.
        reason: String,
    },
    /// The store was opened and does not answer.
    #[error("the store does not answer: {0}")]
    Store(#[from] Error),
    /// A thread ended that should not.
    #[error("opening the store was cut off: {0}; start the server again")]
    Thread(#[from] task::JoinError),
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another server has this port: stop it, or choose another with --listen"
        }
        io::ErrorKind::PermissionDenied => "; choose a port from 1024 on with --listen",
        io::ErrorKind::AddrNotAvailable => {
            "; this machine does not have that address: choose one it has with --listen"
        }
        _ => "",
    }
}

/// What to do about servers that nodes share.
fn advice(error: &duly_store_redis::OpenError) -> &'static str {
    use duly_store_redis::OpenError::{
        Denied, Deployment, Empty, Format, NoRecord, NotReady, Refused, Several, Tls, Unreachable,
        Unsafe, Url, Version,
    };
    let says = |reason: &str, words: &[&str]| words.iter().any(|word| reason.contains(word));
    match error {
        Unreachable { .. } => "; start it, or correct --store",
        NotReady { reason, .. } if says(reason, &["owner of every slot", "CLUSTERDOWN"]) => {
            "; the Cluster is not whole: see `redis-cli --cluster check`"
        }
        NotReady { reason, .. } if says(reason, &["replicas"]) => {
            "; start its replicas, or correct store.min_replicas"
        }
        NotReady { .. } => "",
        Denied { reason, .. } if says(reason, &["NOAUTH", "NoAuth"]) => {
            "; put its password into a file and name that with store.password_file"
        }
        Denied { reason, .. } if says(reason, &["NOPERM", "no permissions", "NoPerm"]) => {
            "; the rights that its user needs are in docs/operate/cluster.md"
        }
        Denied { .. } => "; correct the user in store.url or the password (store.password_file)",
        Tls { .. } => {
            "; name the authority of its certificate with store.ca_file, or correct store.url"
        }
        Refused { reason, .. } if says(reason, &["cluster support disabled"]) => {
            "; it is no Cluster: use redis:// in place of redis-cluster://"
        }
        Unsafe { .. } => " (store.allow)",
        Deployment { .. } => "; correct store.url, or the name in store.deployment",
        Format { .. } => "; use the version of Duly that wrote it, or an empty database",
        Refused { .. }
        | Url(_)
        | Version { .. }
        | NoRecord { .. }
        | Several { .. }
        | Empty { .. } => "",
    }
}

#[cfg(test)]
mod tests;
