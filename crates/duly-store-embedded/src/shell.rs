//! The shells that drive the engine: two threads in production, none in simulation.
//!
//! ```text
//!   callers ──► Inbox ──► engine thread: step, write frame ──► Syncer: fdatasync ──► replies
//!                 ▲                                               │
//!                 └────────────── durable up to lsn ──────────────┘
//! ```
//!
//! 1. The engine thread encodes further records while the other thread syncs: that is the group commit.
//! 2. Replies that must be durable leave from the syncer, in the order of their frames.
//! 3. The syncer tells the engine first. So a caller that has a reply finds the timer claimable.

mod background;
mod inbox;
mod run;
mod spare;
mod syncer;
mod turns;

pub(crate) use inbox::{Answer, Inbox, Request, Shares, broken_off, closed};
pub(crate) use run::{Shared, start};
pub(crate) use syncer::Waiter;
