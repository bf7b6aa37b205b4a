//! The terms of Duly and its pure logic.
//!
//! Every function in this crate takes values and returns values. The crate uses no clock, no randomness, no
//! I/O and no async runtime. It defines the terms for all other crates:
//!
//! ```text
//!   ids, time, payload, headers, destination, retry, limits     checked values
//!        │
//!   schedule::Schedule ──► timer::Timer ──► delivery id, backoff, history
//!        │                      │
//!        └── request hash       └── lifecycle::transition(state, event)   the only state table
//!                                            │
//!   operate::operate, settle::settle   the only code that decides the effect of an operation or a verdict
//! ```
//!
//! * A value that exists is valid: names, ids, times, headers and policies are checked when they are made.
//!   The error ([`Invalid`]) names the field, the value that was given, and the allowed values.
//! * The crate does not know how anything is stored or sent.
//!
//! Start reading at [`lifecycle`], then [`timer`] and [`operate`].

pub mod access;
pub mod delivery_id;
pub mod destination;
pub mod duration;
pub mod env;
pub mod error_code;
mod error_sections;
mod fixture;
mod hash_feed;
pub mod headers;
pub mod ids;
pub mod invalid;
pub mod lane_states;
pub mod lifecycle;
pub mod limits;
pub mod metric_names;
mod named_enum;
pub mod namespace;
pub mod operate;
pub mod payload;
pub mod rate;
pub mod refusal;
pub mod request_hash;
pub mod retry;
pub mod schedule;
pub mod settle;
pub mod shard;
pub mod similar_name;
pub mod time;
pub mod timer;
pub mod tombstone;
pub mod totals;
pub mod view;

pub use delivery_id::DeliveryId;
pub use destination::Destination;
pub use duration::Millis;
pub use error_code::Code;
pub use ids::{Incarnation, NamespaceName, TimerId};
pub use invalid::Invalid;
pub use lifecycle::State;
pub use namespace::Settings;
pub use payload::Payload;
pub use refusal::Refusal;
pub use retry::RetryPolicy;
pub use schedule::{Schedule, TimerSpec};
pub use time::Timestamp;
pub use timer::Timer;
pub use tombstone::Tombstone;
pub use view::TimerView;
