//! gRPC by a real client against a real server on loopback.

mod bounds;
mod consume;
mod namespaces;
mod raw;
mod refusals;
mod server;
mod service;
mod timers;
