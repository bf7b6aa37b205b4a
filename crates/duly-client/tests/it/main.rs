//! Tests of the client against a real server, against a scripted server, and over a connection that is
//! cut on purpose.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod batching;
mod callers;
mod calls;
mod consumer;
mod dedup;
mod examples;
mod many;
mod proxy;
mod repeats;
mod script;
mod server;
mod table;
