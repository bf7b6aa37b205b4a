//! The `Store` port: the only owner of a timer's state.
//!
//! ```text
//!    access layer ── apply, get, list, stats, namespaces ──┐
//!                                                          ▼
//!                                              ┌────────────────────┐
//!    lanes, pull ── ready, claim, settle ────► │ Store (this trait) │
//!                                              └────────────────────┘
//!                                        memory · embedded · (Redis, PostgreSQL)
//! ```
//!
//! * [`Store`] combines the parts of the port, and has its numbered promises: [`Timers`], [`Namespaces`] and
//!   [`AccessStore`] in every store, and [`AuditStore`], [`Deployment`] and [`Backups`] in a store that has
//!   them. `docs/adr/0001-the-store-port.md` shows for each call how a Redis script and a PostgreSQL statement
//!   would implement it.
//! * [`memory`] is the reference store: plain maps, no durability. Model tests compare the other stores with
//!   it.
//! * [`Sharded`] presents all shards of a store as one: it groups by shard, calls the shards, and merges.
//! * [`conformance`] is the test suite that every store passes unchanged. Each test names the promise that
//!   it proves. It and [`memory`] are there with the feature `conformance`.
//!
//! The port does not know about sockets, HTTP or fairness between lanes. Start reading at [`Store`].

pub mod access;
pub mod audit;
pub mod backup;
pub mod claim;
pub mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod deployment;
pub mod error;
pub mod forecast;
#[cfg(feature = "conformance")]
pub mod memory;
pub mod namespaces;
pub mod query;
#[cfg(feature = "conformance")]
mod random;
pub mod settle;
mod sharded;
mod store;
mod tail;
mod timers;
pub mod token;

pub use access::{AccessChange, AccessRecords, AccessStore, ChangeOrigin, RestoreState};
pub use audit::{AuditEntries, AuditEntry, AuditId, AuditStore};
pub use backup::{BackupError, BackupReport, Backups};
pub use claim::{
    ClaimRequest, Claimed, Firing, Lane, LaneClaim, MemberId, Owner, Ready, ReadyCursor, ReadyLane,
};
pub use command::{Answer, Command, Operation, Outcome};
pub use deployment::{AccessRemedy, Coordinators, Deployment, Repaired};
pub use duly_core::refusal::{Limit, Refusal};
pub use error::{Error, Result, StoreFuture};
pub use forecast::{Forecast, ForecastRequest};
pub use namespaces::Namespaces;
pub use query::{Health, ListRequest, Page, Stats, TimerView};
pub use settle::{SettleOutcome, SettleVerdict, Settlement};
pub use sharded::{Partial, Sharded};
pub use store::Store;
pub use tail::Tail;
pub use timers::Timers;
pub use token::Token;
