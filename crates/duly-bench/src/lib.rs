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
//! * A figure stands beside its floor, measured in the same run, because a machine shared with others
//!   is as fast as they let it be; and beside what the design asks for at that size (`targets`).
//! * It refuses to fail for being slow: a missed target is a word in the report, not an error.
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
