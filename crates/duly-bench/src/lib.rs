//! Benchmarks of parts of Duly, and their reports.
//!
//! ```text
//!   Options ──► engine::run ──┬─ floor     the disk alone: append + fdatasync of the same bytes
//!                             └─ engine/*  one row each, on the embedded store, in process
//!                                   │
//!            workload (the requests) · usage, meter, latency (their cost)
//!                                   ▼
//!                                report: tables for people, JSON for programs
//! ```
//!
//! What must stay true:
//!
//! 1. A figure counts only work that was done. Each outcome is checked, and counts are compared
//!    with those of the store. A row with a wrong outcome is an error, not a figure.
//! 2. A figure has a baseline beside it (`floor`), measured in the same run: on a shared machine
//!    the speed depends on the other users.
//! 3. A figure has the target of the design beside it, for the number of timers (`targets`).
//! 4. A slow machine is no error. A missed target is only a word in the report.
//!
//! [`webhooks`] measures the webhook sink alone, beside plain sockets. Start reading at [`engine`].

mod clock;
pub mod engine;
mod error;
mod floor;
mod latency;
mod machine;
mod meter;
mod pages;
mod progress;
pub mod report;
mod scratch;
mod targets;
mod usage;
pub mod webhooks;
mod workload;

pub use error::{Error, Result};
pub use scratch::remove_on_interrupt;
