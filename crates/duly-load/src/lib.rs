//! A load generator for a running server, for anybody who wants to see the figures again.
//!
//! ```text
//!   subject ──► offer (pace: when each send is meant to go) ──► transport: HTTP or gRPC ──► server
//!      │           │ latency from the intended time                   ▲
//!      │           ▼                                                  │
//!      │        recorder, ledger ◄────────── drain: lease, settle ────┘
//!      ▼
//!   report: table, JSON, picture; floors of the machine beside
//! ```
//!
//! Where changes and firings race (`mixed`, `recovery`) the judge stands in the place of the ledger: it
//! keeps the whole history and has `duly-checker` say what that proves.
//!
//! * It promises an open loop: a send has its time before the run begins, and its latency counts from
//!   then, so a server that stands still is charged with all that waited for it.
//! * Every timer is counted by its number: acknowledged, fired, twice, early, lost.
//! * What grows has a limit: the timers of a run, the calls under way, the seconds.
//! * It refuses to hide latency: no retries, no cache, no batches but those that were asked for.
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
