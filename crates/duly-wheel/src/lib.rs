//! Timer structures of Duly: plain memory, no clock, no I/O, no threads. Usable alone.
//!
//! The crate holds one structure, the [`Calendar`]: values ordered by due time, for millions of
//! values, of which the next ones are asked for again and again.
//!
//! ```text
//!            insert(due, value)                        pop_due(now, limit)
//!                   │                                         ▲
//!                   ▼                                         │ due order
//!   far ◄──────────────────────────────────────────────────── near
//!   ┌─────────────┐ ┌─────────────┐ ┌─────────────────────────────────────┐
//!   │ era 2^32 ms │ │ era 2^32 ms │ │ ┌────────┐ ┌────────┐ ┌───────────┐ │
//!   │ one unsorted│ │ one unsorted│ │ │2^24 ms │ │2^24 ms │ │ … 2^16 ms │ │
//!   │ bag         │ │ bag         │ │ │ bag    │ │ bag    │ │ … 2^8, 1  │ │
//!   └─────────────┘ └─────────────┘ │ └────────┘ └────────┘ └───────────┘ │
//!                                   └─────────────────────────────────────┘
//! ```
//!
//! What it promises:
//! - every `u64` of milliseconds is a valid due time and a valid `now`; a `now` that goes back or
//!   jumps ahead by decades is an ordinary `now`, because the calendar keeps no position of its own;
//! - [`Calendar::pop_due`] gives values in due order and never one later than its `now`;
//! - an insert takes constant time; empty stretches of time cost neither memory nor work;
//! - far values cost little more than their own size and four bytes.
//!
//! What it refuses to do: find or remove a value that was inserted. Cancelling a timer is the
//! caller's affair: it drops a popped value which disagrees with its own index. That is what keeps
//! values unsorted and small until shortly before they are due. There is also no order among
//! values of equal due time.
//!
//! Start reading at [`Calendar`]; then `calendar/node.rs` (how a bucket becomes finer ones) and
//! `calendar/bag.rs` (how a bucket keeps its entries).

mod calendar;

pub use calendar::Calendar;
