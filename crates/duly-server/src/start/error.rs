//! Why a server does not start: one message each, for the person who started it.

use std::{io, net::SocketAddr, path::PathBuf};

use duly_store::Error;
use duly_store_embedded::OpenError;
use tokio::task;

use crate::config::Origin;

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The port cannot be had.
    #[error("cannot listen on {address} (server.listen, from {origin}): {source}{}", hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
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

#[cfg(test)]
mod tests;
