//! The server: HTTP, gRPC, configuration, telemetry.
//!
//! ```text
//!   config ──► start ──► serve (connections) ──► http (router, handlers) ──► Store · node
//!                                                 grpc (services)
//!                                                 messages (values of the store as duly-api has them)
//!                                                 telemetry (metrics, logs)
//! ```
//!
//! * It promises that every call of the contract is answered, and everything refused says which
//!   field, what was seen and what is allowed; that every request it reads has a bound;
//!   that no web page can drive a server on its reader's machine.
//! * It refuses to know how timers are kept or fired: it checks, asks the store or the node, and
//!   writes the answer.
//!
//! Start reading at [`http::router`]; the bodies are those of `duly-api`.

pub mod config;
mod grpc;
pub mod http;
mod messages;
mod near;
mod problem;
mod serve;
mod start;
pub mod telemetry;
#[cfg(test)]
mod world;

pub use config::Config;
pub use http::openapi_json;
pub use start::{Running, StartError, StartReport, start};
