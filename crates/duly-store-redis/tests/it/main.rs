//! Tests against real servers, which they start as child processes.

mod conformance;
mod harness;
mod in_order;
mod model;
mod server;
