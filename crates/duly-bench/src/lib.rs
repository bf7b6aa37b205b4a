//! Load generator for a server, or for a store in this process, so that any user can repeat the
//! figures.
//!
//! ```text
//!   subject ──► offer (pace: intended time of each send) ──► transport: HTTP, gRPC ──► server
//!      │           │                                                  │   or in process ──► store
//!      │           │ latency from the intended time                   ▲
//!      │           ▼                                                  │
//!      │        recorder, ledger ◄────────── drain: lease, settle ────┘
//!      ▼
//!   report: table, JSON, plot; baselines of the machine beside
//! ```
//!
//! For `mixed` and `recovery`, in which changes and firings race, a recording client (`recording_client`)
//! replaces the ledger: it keeps the whole history, and `duly-checker` checks it.
//!
//! What must stay true:
//!
//! 1. The load is an open loop. Each send has its intended time before the run begins, and its
//!    latency counts from that time. So the latency includes the wait of every send that a stalled
//!    server delays.
//! 2. Every timer is counted by its number: acknowledged, fired, fired twice, early, lost.
//! 3. Everything that grows has a limit: the timers of a run, the calls in flight, the seconds.
//! 4. Nothing hides latency: there are no retries, no cache, and only the requested batches.
//!
//! `duly bench` is its caller; `duly-testkit` uses its tools. Start reading at [`run`].

mod baseline;
pub mod clock;
mod drain;
mod fairness;
mod guard;
mod ledger;
mod offer;
mod options;
mod own_server;
mod pace;
mod page_cache;
pub mod plot;
pub mod process;
mod receiver;
mod recorder;
mod recording_client;
mod report;
mod run;
mod stop;
mod subject;
mod table;
mod target;
mod transport;
mod usage;
pub mod wire;

pub use guard::{Owner, Refusal};
pub use options::{Baselines, Delivery, Options, Place, Subject, Unused};
pub use report::Report;
pub use run::{Watcher, run};
pub use stop::{Stop, Stopper};
pub use transport::TransportKind;
