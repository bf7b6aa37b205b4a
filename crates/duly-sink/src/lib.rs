//! The `Sink` port: handing a firing to the far side, and saying honestly what became of it.
//!
//! ```text
//!   node ── Envelope ──► Sink::deliver ──► far side
//!        ◄── Delivery ──  Confirmed | Failed { kind, wait, reason } | Rejected
//! ```
//!
//! * [`Sink`] is the contract, with its numbered promises S1–S7.
//! * [`http`] is the webhook sink: CloudEvents, Standard Webhooks, status rules, address filter.
//! * [`conformance`] holds the checks that every sink passes.
//!
//! The crate refuses to know about stores, leases and lanes: it sees one [`Envelope`] at a time and
//! a deadline. Start reading at [`Sink`].

pub mod conformance;
mod envelope;
mod error;
pub mod http;
mod sink;

pub use envelope::Envelope;
pub use error::Error;
pub use sink::{Delivery, Sink};
