//! The shells that drive the engine: two threads in production, none in simulation.
//!
//! ```text
//!   callers ──► Inbox ──► engine thread: step, write frame ──► Syncer: fdatasync ──► answers
//!                 ▲                                               │
//!                 └────────────── durable up to lsn ──────────────┘
//! ```
//!
//! The engine thread goes on encoding while the other syncs: that is the group commit. Answers
//! that must be durable leave from the syncer, in the order of their frames; it tells the engine
//! first, so whoever sees an answer finds the timer claimable.

mod background;
mod inbox;
mod run;
mod spare;
mod syncer;
mod turns;

pub(crate) use inbox::{Answer, Inbox, Request, Shares, broken_off, closed};
pub(crate) use run::{Shared, start};
pub(crate) use syncer::Waiter;
