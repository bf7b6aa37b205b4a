//! Histories of timers as seen from outside, and what they prove about the server.
//!
//! ```text
//!   callers, receivers ──► history::Recorder ──► history::History ──► checker::check ──► Verdict
//! ```
//!
//! What must stay true:
//!
//! 1. A [`checker::Verdict`] with findings is right. Each rule allows for calls whose response was
//!    lost, for calls that overlap, and for crashes.
//! 2. The checker knows the product only by its public API and uses none of its crates. So one
//!    mistake cannot be in both.
//! 3. The checker uses no clock, no socket and no server: all times are in the history.
//!
//! Its callers are `duly-bench`, behind `duly bench`, and `duly-testkit`, whose canaries test it.
//! Start reading at [`history`], then [`checker`].

pub mod checker;
pub mod history;
mod percentiles;

pub use percentiles::{Percentiles, histogram};
