//! gRPC by a real client against a real server on loopback.

mod bounds;
mod choices;
mod consume;
mod fuzz;
mod many;
mod namespaces;
mod pull;
mod raw;
mod refusals;
mod rules;
mod server;
mod service;
mod timers;
