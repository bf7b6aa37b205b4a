//! The commands, one file each.
//!
//! Commands that call a server work alike: the arguments become one request, and the response becomes a
//! table or stays JSON. `serve`, `store`, `config`, `completions` and `man` work in this process;
//! `receive` is a small server itself.

pub(crate) mod audit;
pub(crate) mod batch;
#[cfg(feature = "bench")]
pub(crate) mod bench;
pub(crate) mod cancel;
pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod dead;
pub(crate) mod documents;
pub(crate) mod export;
pub(crate) mod get;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod line_format;
pub(crate) mod list;
pub(crate) mod metrics;
pub(crate) mod namespace;
pub(crate) mod pull;
pub(crate) mod receive;
pub(crate) mod reschedule;
pub(crate) mod resume;
pub(crate) mod schedule;
pub(crate) mod serve;
pub(crate) mod store;
pub(crate) mod tenant;
pub(crate) mod top;
