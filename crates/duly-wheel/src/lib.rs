//! Timer structures of Duly: plain memory, no clock, no I/O, no threads. Usable alone.
//!
//! The crate holds one structure, the [`Calendar`]. It keeps millions of values ordered by due time, for
//! callers that repeatedly take the next ones.
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
//! It promises:
//! 1. Every `u64` of milliseconds is a valid due time and a valid `now`. A `now` that goes back, or
//!    jumps ahead by decades, is an ordinary `now`: the calendar keeps no position of its own.
//! 2. [`Calendar::pop_due`] returns values in due order and never one later than its `now`.
//! 3. An insert takes constant time. Empty stretches of time cost neither memory nor work.
//! 4. A far value costs little more than its own size and four bytes.
//!
//! It cannot find or remove a value that was inserted. To cancel a timer, the caller drops a popped
//! value that disagrees with its own index. That is what keeps values unsorted and small until shortly
//! before they are due. There is also no order among values of equal due time.
//!
//! Start reading at [`Calendar`]; then `calendar/node.rs` (how a bucket becomes finer ones) and
//! `calendar/bag.rs` (how a bucket keeps its entries).

mod calendar;

pub use calendar::Calendar;
