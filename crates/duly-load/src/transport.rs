//! The ways to speak to a server, behind one trait.
//!
//! A call goes over a *line*: calls of one line come one after another, lines do not wait for each
//! other. Nothing is repeated and nothing is put together: a call is what was asked for.

pub mod grpc;
pub mod http;
mod speaker;
mod witness;

use std::time::Duration;

use anyhow::Result;
use duly_checker::history::SettleAnswer;
use futures::future::BoxFuture;

pub use speaker::Speaker;
pub(crate) use witness::MARK_BYTES;
pub use witness::{Ask, Last, Taken, Witness, mark_of, marked};

/// One operation of a batch, on the timer with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new timer.
    Schedule {
        /// Its number, which is its id.
        number: u64,
        /// When, Unix ms.
        due_ms: u64,
    },
    /// One in the place of what is there.
    Replace {
        /// Its number.
        number: u64,
        /// When, Unix ms.
        due_ms: u64,
    },
    /// No more.
    Cancel {
        /// Its number.
        number: u64,
    },
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A new timer.
    Created,
    /// It was there already.
    Existing,
    /// It took the place of another.
    Replaced,
    /// It is cancelled.
    Cancelled,
    /// It was refused, with this code.
    Refused(String),
}

/// A leased firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The timer; `None` where the id is none of a run.
    pub number: Option<u64>,
    /// Names the lease.
    pub token: String,
}

/// How a namespace is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Webhooks go here; firings are leased when absent.
    pub url: Option<String>,
    /// How long a lease is; as the server has it when absent.
    pub lease: Option<Duration>,
}

/// A server, spoken to.
pub trait Transport: Send + Sync {
    /// Makes a namespace.
    fn make<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<()>>;

    /// Ends it with all that is in it; one that is not there has ended.
    fn end<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<()>>;

    /// How many timers are pending in it.
    fn pending<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<u64>>;

    /// Sends operations together; answers one outcome for each.
    fn batch<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        operations: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>>;

    /// Leases what is due, waiting so long for the first.
    fn lease<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Firing>>>;

    /// Acknowledges the firings of these leases; answers what became of each.
    fn settle<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        tokens: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>>;
}
