//! Tests that the committed code matches the `.proto` files, and that clients of the snapshot still
//! work.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod contract;
mod generated;
mod model;
