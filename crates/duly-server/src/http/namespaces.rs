//! Calls on namespaces, one file each.

pub(crate) mod activity;
pub(crate) mod delete;
pub(crate) mod forecast;
pub(crate) mod get;
pub(crate) mod patch;
pub(crate) mod put;
pub(crate) mod repair;
pub(crate) mod stats;
