//! The reasons for which a server does not start, each with one message for the operator.

use std::{io, path::PathBuf};

use duly_core::error_code::Retry;
use duly_store::Error;
use duly_store_embedded::{OpenError, disk};
use tokio::task;

use crate::{
    config::{Origin, StoreUrl},
    listen::Address,
};

/// The reason for which a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store of a running server has ended for good: see [`EmbeddedStore::ended`].
    ///
    /// [`EmbeddedStore::ended`]: duly_store_embedded::EmbeddedStore::ended
    #[error("{0}")]
    StoreEnded(String),
    /// The port cannot be bound.
    #[error("cannot listen on {address} ({key}, from {origin}): {source}{}", hint(address, source))]
    Listen {
        /// The address.
        address: Address,
        /// The configuration key of the address.
        key: &'static str,
        /// The origin of the address.
        origin: Origin,
        /// The error of the system.
        source: io::Error,
    },
    /// The data directory cannot be opened.
    #[error("cannot open the data directory {} (store.data, from {origin}): {source}{}", path.display(), space_hint(source))]
    Open {
        /// The directory.
        path: PathBuf,
        /// The origin of the path.
        origin: Origin,
        /// The error of the store.
        source: Box<OpenError>,
    },
    /// The data directory does not exist and cannot be created.
    #[error(
        "cannot create the data directory {} (store.data, from {origin}): nothing can be created \
         in {}; pass a directory on a disk with --data",
        path.display(), parent.display()
    )]
    Make {
        /// The directory.
        path: PathBuf,
        /// The origin of the path.
        origin: Origin,
        /// The nearest existing directory above it, where it was to be created.
        parent: PathBuf,
    },
    /// The data directory holds files of another program.
    #[error(
        "{} is no data directory (store.data, from {origin}): it holds {found:?} and no Duly store; \
         pass an empty or a new directory with --data",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The origin of the path.
        origin: Origin,
        /// The first name in the directory that is not one of Duly's.
        found: String,
    },
    /// The shared store cannot be opened.
    #[error("cannot open the store {url} (store.url, from {origin}): {source}{}", advice(source))]
    Shared {
        /// The URL of the store.
        url: StoreUrl,
        /// The origin of the URL.
        origin: Origin,
        /// The error of the store.
        source: Box<duly_store_redis::OpenError>,
    },
    /// A file that the configuration names cannot be used.
    #[error("cannot use the {what} in {} ({key}, from {origin}): {reason}", path.display())]
    File {
        /// The content of the file.
        what: &'static str,
        /// The key of the configuration that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The origin of the path.
        origin: Origin,
        /// The reason, without any content of the file.
        reason: String,
    },
    /// The export of traces cannot be started.
    #[error("cannot send spans to tracing.otlp_endpoint: {0}")]
    Traces(String),
    /// The webhook client cannot be created.
    #[error("cannot create the webhook client: {0}")]
    Sink(#[from] duly_sink::Error),
    /// The store was opened and does not respond.
    #[error("the store does not respond: {0}")]
    Store(#[from] Error),
    /// A blocking task panicked or was cancelled.
    #[error("opening the store was interrupted: {0}; start the server again")]
    Thread(#[from] task::JoinError),
}

impl StartError {
    /// Returns if and when the same step of the start can succeed without a change of settings.
    pub(super) fn retry(&self) -> Retry {
        match self {
            Self::Shared { source, .. } => source.retry(),
            Self::Store(error) => error.retry(),
            _ => Retry::Never,
        }
    }
}

fn hint(address: &Address, error: &io::Error) -> &'static str {
    match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, Address::Tcp(_)) => {
            "; another server has this port: stop it, or choose another with --listen"
        }
        (io::ErrorKind::AddrInUse, Address::Unix(_)) => {
            "; another server has this socket, or the file is no socket: stop that server, or \
             choose another path with --listen"
        }
        (io::ErrorKind::PermissionDenied, Address::Tcp(_)) => {
            "; choose a port from 1024 on with --listen"
        }
        (io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound, Address::Unix(_)) => {
            "; choose a path in a directory that exists and that the server may write to"
        }
        (io::ErrorKind::AddrNotAvailable, _) => {
            "; this machine does not have that address: choose one it has with --listen"
        }
        _ => "",
    }
}

/// Returns a further remedy for a full volume.
fn space_hint(error: &OpenError) -> &'static str {
    match error {
        OpenError::Disk(disk::Error::NoSpace { .. }) => {
            ". The journal takes one segment of store.segment_bytes at once: set less for a small volume, such as \
             DULY_STORE__SEGMENT_BYTES=4MiB"
        }
        _ => "",
    }
}

/// Returns a remedy for an error of the shared store.
fn advice(error: &duly_store_redis::OpenError) -> &'static str {
    use duly_store_redis::OpenError::{
        Denied, Deployment, Empty, Features, Format, NoRecord, NotReady, Refused, Several, Tls,
        Unreachable, Unsafe, Url, Version,
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
        Features { .. } | Format { .. } => {
            "; use the version of Duly that wrote it, or an empty database"
        }
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
