//! Constructors and setters for callers that are written in Rust.
//!
//! 1. A setter takes a message and returns it changed. Its name is `with_` and the name of the field:
//!    `prost` gives the bare name to a getter.
//! 2. A setter checks nothing. The server checks the whole message. An invalid time or duration is sent
//!    as a value that the server refuses.
//!
//! ```
//! # use std::time::Duration;
//! # use duly_api::Schedule;
//! let close = Schedule::after(Duration::from_secs(1800)).with_id("order:1").with_text("close it");
//! assert_eq!(close.id(), "order:1");
//! ```

mod lease;
mod operation;
mod payload;
mod policy;
mod schedule;
mod selection;
