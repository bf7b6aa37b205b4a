//! What can be seen of a running server: metrics and logs. Names stand in
//! [`duly_core::metric_names`].

pub mod logging;
mod metrics;
pub mod operations;
mod process;
mod routes;

pub use metrics::{Metrics, Readiness};
pub use routes::{Routes, UNMATCHED};
