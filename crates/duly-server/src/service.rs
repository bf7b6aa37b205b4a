//! The operations, without a protocol: a file for each resource.
//!
//! The functions check what a caller may do beyond the right of the operation, call the store or the node, and
//! return values or a [`crate::problem::Problem`]. The operations are methods of the admitted call
//! ([`Admitted`]). HTTP and gRPC read their messages, call these methods, and write the responses.

mod admitted;
mod app;
mod apply;
mod audit;
mod backups;
pub(crate) mod blocking;
mod bulk;
mod forget;
pub(crate) mod health;
pub(crate) mod items;
mod keys;
pub(crate) mod lists;
pub(crate) mod namespaces;
pub(crate) mod pull;
pub(crate) mod reading;
mod receivers;
mod tenants;
mod unchanged;

pub(crate) use self::{
    admitted::{Admitted, no_response},
    app::{StartupProgress, StartupState},
    receivers::CheckedCommand,
};
pub use self::{
    app::{App, ImplicitNamespaces, Limits, Parts},
    backups::{BackupLimits, Backups, MakeBackup},
};

#[cfg(test)]
mod tests;
