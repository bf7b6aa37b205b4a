//! Transports behind one trait: HTTP and gRPC to a server, and a store in this process.
//!
//! Each call names a *line*: one sequence of calls, with its own connection or on a shared one.
//! Calls of one line run one after another; lines do not wait for each other. A transport retries
//! nothing and merges nothing: each call is one request.

mod client;
pub(crate) mod grpc;
pub(crate) mod http;
mod in_process;
pub(crate) mod recording;

use std::time::Duration;

use anyhow::Result;
use duly_checker::history::SettleAnswer;
use futures::future::BoxFuture;

pub(crate) use client::Client;
pub(crate) use recording::MARK_BYTES;
pub(crate) use recording::{Ask, RecordingTransport, Taken};

/// Most timers of a page.
pub(crate) const PAGE: u32 = 1_000;

/// Way from the load generator to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// HTTP/1.1 with JSON, one connection per call in flight.
    Http,
    /// gRPC.
    Grpc,
    /// An embedded store in this process: no server, no network.
    InProcess,
}

impl TransportKind {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::InProcess => "in-process",
        }
    }
}

/// One operation of a batch, on the timer with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Schedules a new timer.
    Schedule {
        /// Number of the timer, which is its id.
        number: u64,
        /// Due time, Unix ms.
        due_ms: u64,
    },
    /// Schedules a timer and replaces an existing one.
    Replace {
        /// Number of the timer.
        number: u64,
        /// Due time, Unix ms.
        due_ms: u64,
    },
    /// Repeats the schedule call of an existing timer.
    Repeat {
        /// Number of the timer.
        number: u64,
        /// Due time of the first call, Unix ms.
        due_ms: u64,
    },
    /// Moves a timer to another due time.
    Reschedule {
        /// Number of the timer.
        number: u64,
        /// New due time, Unix ms.
        due_ms: u64,
    },
    /// Cancels a timer.
    Cancel {
        /// Number of the timer.
        number: u64,
    },
}

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The timer was created or changed.
    Written,
    /// The same timer existed already.
    Existing,
    /// The timer replaced another one.
    Replaced,
    /// The timer is cancelled.
    Cancelled,
    /// The operation was refused, with this code.
    Refused(String),
}

/// A leased firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Firing {
    /// Number of the timer; `None` if the id is not one of a run.
    pub(crate) number: Option<u64>,
    /// Token of the lease.
    pub(crate) token: String,
}

/// Verdict on a leased firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is delivered.
    Ack,
    /// It becomes a dead letter.
    DeadLetter,
}

/// Settings of a new namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// URL of the webhook destination; firings are leased if absent.
    pub(crate) url: Option<String>,
    /// Duration of a lease; the server's default if absent.
    pub(crate) lease: Option<Duration>,
}

/// A client of a server or of a store.
pub(crate) trait Transport: Send + Sync {
    /// Creates a namespace.
    fn make<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<()>>;

    /// Deletes a namespace with all its timers; a missing one counts as deleted.
    fn end<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<()>>;

    /// Returns the number of pending timers of a namespace.
    fn pending<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<u64>>;

    /// Reads the first page of the pending timers of a namespace; returns their number.
    fn list<'a>(&'a self, line: usize, namespace: &'a str) -> BoxFuture<'a, Result<usize>>;

    /// Sends operations as one call; returns one outcome for each.
    fn batch<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        operations: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>>;

    /// Leases due firings; waits up to `wait_ms` for the first.
    fn lease<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Firing>>>;

    /// Settles the firings of these leases; returns one result for each.
    fn settle<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        tokens: &'a [&'a str],
        verdict: Verdict,
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>>;
}
