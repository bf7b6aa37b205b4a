//! Tests against real servers, which they start as child processes.

mod conformance;
mod harness;
mod model;
mod server;
