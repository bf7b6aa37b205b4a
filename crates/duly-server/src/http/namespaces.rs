//! Calls on namespaces, a file each.

pub(super) mod activity;
pub(super) mod delete;
pub(super) mod forecast;
pub(super) mod get;
pub(super) mod patch;
pub(super) mod put;
pub(super) mod stats;
