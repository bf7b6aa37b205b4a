//! Load generators and their reports.
//!
//! ```text
//!   Options ──► engine::run ──┬─ floor     the disk alone: append + fdatasync of the same bytes
//!                             └─ engine/*  one row each, on the embedded store, in process
//!                                   │
//!            workload (what is sent) · usage, meter, latency (what it cost)
//!                                   ▼
//!                                report: tables for people, JSON for programs
//! ```
//!
//! * It promises that a figure is of work that was done: every outcome is looked at, counts are
//!   compared with what the store says, and a row that is not right is an error, not a figure.
//! * It refuses to judge: targets and verdicts are for who reads the report. The floor of the disk
//!   stands in the same report, because a machine shared with others is as fast as they let it be.
//!
//! Start reading at [`engine`].

mod clock;
pub mod engine;
mod error;
mod floor;
mod latency;
mod machine;
mod meter;
pub mod report;
mod usage;
mod workload;

pub use error::{Error, Result};
