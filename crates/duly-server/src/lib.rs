//! The server: HTTP interface, wire format, configuration, telemetry.
//!
//! ```text
//!   config ──► start ──► serve (connections) ──► http (router, handlers) ──► Store · node
//!                                                 wire (bodies in and out)
//!                                                 telemetry (metrics, logs)
//! ```
//!
//! * It promises that every call of the contract is answered, and everything refused says which
//!   field, what was seen and what is allowed; that every request it reads has a bound;
//!   that no web page can drive a server on its reader's machine.
//! * It refuses to know how timers are kept or fired: it checks, asks the store or the node, and
//!   writes the answer.
//!
//! Start reading at [`http::router`], then [`wire`].

pub mod config;
mod grpc;
pub mod http;
mod near;
mod serve;
mod start;
pub mod telemetry;
mod messages;
#[cfg(test)]
mod world;

pub use config::Config;
pub use http::openapi_json;
pub use start::{Running, StartError, StartReport, start};
