//! The delivery engine: sends due firings to webhooks and to consumers, on time and fairly.
//!
//! ```text
//!   waker ── due ──┐                                      ┌──► deliver (a task per firing) ──► Sink
//!   store wakeups ─┼─► shard loop: ready ──► lanes.plan ──┤ claim            │ verdict
//!   slot freed ────┘        │                             └── Store ◄── settler (batches)
//!                           └──► pull: waiters in order ──► claim ──► lease call
//! ```
//!
//! How it works: each shard has a loop (`dispatch`) that polls the store for lanes with due firings.
//! `lanes` decides how many firings each lane may claim. `deliver` makes the attempts, `pull` serves
//! lease calls, and `settler` writes the verdicts to the store in batches. The decisions are pure
//! (`lanes`, `waiters`); the loops around them are thin.
//!
//! What stays true:
//!
//! 1. A burst, a dead receiver or a backlog of one lane does not make another lane late (P9): `lanes`
//!    decides from free capacity alone.
//! 2. Everything that the node holds in memory is bounded (P10).
//! 3. The node keeps no state that must survive: when it stops or is evicted, its leases are ended and the
//!    firings are due again.
//! 4. This crate knows nothing about HTTP.
//!
//! Start reading at [`Node`], then `dispatch`.

mod auditor;
mod deliver;
mod dispatch;
mod health;
mod idle_namespaces;
mod lane_metrics;
mod lanes;
mod log_limit;
mod node;
mod nodes;
mod options;
mod phase;
mod pull;
mod quota_loop;
mod reasons;
mod recorder;
mod settler;
mod state;
mod traces;
mod waker;
mod watchdog;

#[cfg(test)]
mod tests;

pub use health::{LoopHealth, NodeHealth};
pub use lanes::{BreakerState, FallbackLoad, LaneActivity, LaneLoad};
pub use node::{Handle, Node};
pub use nodes::MemberView;
pub use options::Options;
pub use pull::{LeaseMemory, LeaseRequest, Leased, PendingReply, StreamLeases};
pub use reasons::ReasonLimit;
pub use traces::{TimerSpan, Traces};
