//! Load generator for a running server, so that any user can repeat the figures.
//!
//! ```text
//!   subject ──► offer (pace: intended time of each send) ──► transport: HTTP or gRPC ──► server
//!      │           │ latency from the intended time                   ▲
//!      │           ▼                                                  │
//!      │        recorder, ledger ◄────────── drain: lease, settle ────┘
//!      ▼
//!   report: table, JSON, plot; baselines of the machine beside
//! ```
//!
//! For `mixed` and `recovery`, in which changes and firings race, a recording client (`judge`)
//! replaces the ledger: it keeps the whole history, and `duly-checker` judges it.
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

pub mod clock;
mod drain;
mod fairness;
pub mod floor;
mod guard;
mod judge;
mod ledger;
mod offer;
mod options;
mod own;
mod pace;
pub mod plot;
pub mod process;
pub mod receiver;
mod recorder;
mod report;
mod run;
mod stop;
mod subject;
mod table;
mod target;
pub mod transport;
pub mod usage;
pub mod wire;

pub use duly_checker::Percentiles;
pub use fairness::Fairness;
pub use guard::{Owner, Refusal};
pub use ledger::{Counts, Ledger};
pub use options::{Floors, Options, Place, Pull, Subject, TransportKind, Unused};
pub use report::{Report, Series};
pub use run::{Watcher, run};
pub use stop::{Stop, Stopper};
pub use table::Table;
