//! The `Sink` port: sends a firing to its receiver and reports the result.
//!
//! ```text
//!   node ── Envelope ──► Sink::deliver ──► receiver
//!        ◄── Delivery ──  Confirmed | Failed { kind, wait, health, reason } | Rejected
//! ```
//!
//! * [`Sink`] is the contract, with its numbered promises S1–S7.
//! * `cloud_event` has the attributes of a delivery, for every kind of receiver.
//! * [`http`] is the webhook sink: CloudEvents, Standard Webhooks, status rules, address filter.
//! * [`conformance`] has the checks that every sink passes.
//!
//! The crate knows nothing about stores, leases and lanes: it gets one [`Envelope`] at a time, with a
//! deadline. Start reading at [`Sink`].

mod cloud_event;
pub mod conformance;
mod envelope;
mod error;
pub mod http;
mod sink;

pub use envelope::Envelope;
pub use error::Error;
pub use sink::{Delivery, ReceiverHealth, Sink};
