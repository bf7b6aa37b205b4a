//! What happened to timers, as seen from outside, and what it proves about the server.
//!
//! ```text
//!   callers, receivers ──► history::Recorder ──► history::History ──► checker::check ──► Verdict
//! ```
//!
//! * It promises that a [`checker::Verdict`] which objects is right: each rule allows for calls
//!   whose answer was lost, for calls that overlap, and for crashes.
//! * It knows the product by its public contract only and uses none of its crates, so a mistake
//!   cannot be made twice in the same way.
//! * It refuses to look at a clock, a socket or a server: times are in the history.
//!
//! Its callers are `duly-load`, behind `duly bench`, and `duly-testkit`, whose canaries test it. Start
//! reading at [`history`], then [`checker`].

pub mod checker;
pub mod history;
mod percentiles;

pub use percentiles::{Percentiles, histogram};
