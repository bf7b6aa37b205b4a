//! The HTTP interface against the reference store, in process: requests, responses, and that a refused
//! call changes nothing.

#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod admission;
mod attack;
mod audit_log;
mod backup;
mod batch;
mod bench;
mod beside;
mod bulk;
mod contract;
mod dead;
mod framework;
mod fuzz;
mod grpc;
mod idempotence;
mod intact;
mod limits;
mod lines;
mod loops;
mod moving;
mod namespaces;
mod openapi;
mod partial;
mod pull;
mod ranges;
mod refusals;
mod searches;
mod service;
mod sockets;
mod timers;
mod watch;
