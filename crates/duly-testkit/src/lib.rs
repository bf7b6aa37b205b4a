//! Development only: a real `duly serve` under test, and the judge of what it did.
//!
//! ```text
//!   torture / measure ──HTTP──► process::Server (a child, killed by pid)
//!        │ every call, every delivery, every kill
//!        ▼
//!   history::History ──────────► checker::check ──► Verdict   (pure)
//!        ▲
//!   model: a server in memory with a planted bug  (the canaries)
//! ```
//!
//! * It promises that a [`checker::Verdict`] which objects is right: each rule allows for calls
//!   whose answer was lost, for calls that overlap, and for crashes.
//! * It knows the product by its public contract only: of its crates none but the judge and the load
//!   generator's own tools are used here, so a mistake cannot be made twice in the same way.
//! * It refuses to be shipped.
//!
//! Start reading at [`history`], then [`checker`].

pub use duly_checker::{checker, history};
pub use duly_load::{clock, process, wire};

pub mod api;
pub mod measure;
pub mod model;
pub mod torture;
