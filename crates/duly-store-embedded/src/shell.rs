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

use std::thread::JoinHandle;

mod background;
mod engine_loop;
mod fair_queue;
mod inbox;

mod spare;
mod syncer;

pub(crate) use engine_loop::{EngineShared, start};
pub(crate) use inbox::{Inbox, ReplyAt, Request, Slices, closed, ended_before_reply};

pub(crate) use syncer::Waiter;

/// Waits for a thread, and logs if it panicked.
pub(crate) fn join(thread: Option<JoinHandle<()>>, name: &str) {
    if thread.is_some_and(|thread| thread.join().is_err()) {
        tracing::error!("the {name} thread panicked");
    }
}
