//! What is committed is what the `.proto` files say.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod generated;
