//! Firing: what is due goes to its webhook or to a waiting consumer, on time and fairly.
//!
//! ```text
//!   waker ── due ──┐                                      ┌──► deliver (a task per firing) ──► Sink
//!   store wakeups ─┼─► shard loop: ready ──► lanes.plan ──┤ claim            │ verdict
//!   slot freed ────┘        │                             └── Store ◄── settler (batches)
//!                           └──► pull: waiters in order ──► claim ──► lease call
//! ```
//!
//! * It promises that no lane's burst, dead receiver or backlog makes another lane late (P9): every
//!   decision is made by `lanes` from free capacity alone, and everything it holds is
//!   bounded (P10).
//! * It keeps no state that matters: whatever it forgets, the store's leases bring back.
//! * It refuses to know about HTTP.
//!
//! The decisions are pure (`lanes`, `waiters`); the loops around them are thin (`dispatch`,
//! `deliver`, `pull`, `settler`). Start reading at [`Node`], then `dispatch`.

mod allot;
mod auditor;
mod census;
mod deliver;
mod dispatch;
mod health;
mod idle;
mod lanes;
mod log_limit;
mod node;
mod nodes;
mod options;
mod phase;
mod pull;
mod record;
mod settler;
mod state;
mod supervise;
mod waker;
mod watchdog;

#[cfg(test)]
mod tests;

pub use health::{LoopHealth, NodeHealth};
pub use lanes::{Activity, BreakerState, FallbackLoad, LaneLoad};
pub use node::{Handle, Node};
pub use nodes::MemberView;
pub use options::Options;
pub use pull::{Held, LeaseRequest, Leased, OnItsWay, Room};
