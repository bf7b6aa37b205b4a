//! The server: HTTP, gRPC, configuration, telemetry.
//!
//! ```text
//!   config ──► start ──► serve ──► connection ──► http ─┬──► admission ──► service ──► Store · node
//!                                                 grpc ─┘    operations     messages
//! ```
//!
//! Every call has a row in the table of `operations`. `admission` checks the call by that row, in one order for
//! both protocols, and returns an admitted call. The operations are its methods, in `service`; `messages` converts
//! values of the store into those of `duly-api`.
//!
//! The crate checks requests, calls the store or the node, and writes responses. It does not know how
//! timers are kept or fired. These rules hold:
//!
//! 1. Every call of the contract gets a response. A refusal names the field, the value seen and the
//!    allowed values.
//! 2. Every request that the server reads has a bound.
//! 3. No web page can control a server on the machine of its reader.
//!
//! Start reading at [`http::router`]; the bodies are those of `duly-api`.

mod admission;
mod audit;
mod auth;
pub mod config;
mod connection;
mod cors;
mod counting;
mod grpc;
mod guard;
pub mod http;
mod listen;
mod memory;
mod messages;
mod operations;
mod outgoing;
mod problem;
mod repair;
mod scheduled_backups;
mod serve;
mod service;
mod start;
pub mod telemetry;
mod tenants;
#[cfg(test)]
mod tests;

pub use audit::Audit;
pub use auth::Auth;
pub use config::Config;
pub use grpc::router as grpc_router;
pub use http::openapi_json;
pub use listen::Address;
pub use repair::{repair_namespace, repair_shards};
pub use start::{Running, StartError, StartReport, open_shared, start};
