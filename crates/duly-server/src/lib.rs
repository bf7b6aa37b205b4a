//! The server: HTTP, gRPC, configuration, telemetry.
//!
//! ```text
//!   config ──► start ──► serve ──► connection ──► http (router, handlers) ──► Store · node
//!                                                 grpc (services)
//!                                                 messages (values of the store as duly-api has them)
//!                                                 telemetry (metrics, logs)
//! ```
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

mod audit;
mod auth;
mod call;
pub mod config;
mod connection;
mod grpc;
pub mod http;
mod listen;
mod messages;
mod problem;
mod repair;
mod scheduled_backups;
mod serve;
mod similar_name;
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
