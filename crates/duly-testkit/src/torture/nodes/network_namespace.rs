//! A network namespace. A thread that enters it creates sockets and processes in it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpSocket;

use crate::wire::{Here, Network};

/// A network namespace, held open.
#[derive(Debug, Clone)]
pub(super) struct NetworkNamespace(Arc<File>);

impl NetworkNamespace {
    /// Opens a namespace by its name for `ip netns`.
    pub(super) fn open(name: &str) -> io::Result<Self> {
        Ok(Self(Arc::new(File::open(format!("/run/netns/{name}"))?)))
    }

    /// Runs `work` on a thread inside the namespace, so its sockets and processes belong to this
    /// network. A panic of `work` becomes an error.
    pub(super) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            let panicked = |_| Err(io::Error::other("the work in the namespace panicked"));
            inside.join().unwrap_or_else(panicked)
        })
    }
}

impl Network for NetworkNamespace {
    fn socket(&self, to: SocketAddr) -> io::Result<TcpSocket> {
        self.enter(|| Here.socket(to))?
    }

    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        self.enter(|| command.spawn())?
    }
}
