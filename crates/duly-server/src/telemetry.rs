//! Metrics and logs of a running server. The names of metrics are in [`duly_core::metric_names`].

pub mod logging;
mod metrics;
pub(crate) mod operations;
mod process;
mod routes;

pub use metrics::{Metrics, Readiness};
pub use routes::{Routes, UNMATCHED};
