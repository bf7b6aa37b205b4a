//! Development tools: they run a real `duly serve` under test and check its history.
//!
//! ```text
//!   torture ──HTTP──► process::Server (a child, killed by pid)
//!        │ every call, every delivery, every kill
//!        ▼
//!   history::History ──────────► checker::check ──► Verdict   (pure)
//!        ▲
//!   model: a server in memory with a planted bug  (the canaries)
//! ```
//!
//! What must stay true:
//!
//! 1. A [`checker::Verdict`] with findings is right. Each rule allows for calls whose response was
//!    lost, for calls that overlap, and for crashes.
//! 2. The tools know the product only by its public API. Of its crates they use only the checker
//!    and the load generator's own tools. So one mistake cannot be in both.
//! 3. This crate is never shipped.
//!
//! Start reading at [`history`], then [`checker`].

pub use duly_bench::{clock, process, wire};
pub use duly_checker::{checker, history};

pub mod api;
pub mod model;
pub mod torture;
