//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks for as many open files as the system allows without privileges: journal segments and
/// connections each need one. Where it is refused, or too little, Duly runs with what it has
/// and says so: without files no connection is accepted and no new segment begun.
pub(crate) fn allow() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, allowed = ?limit.current, "the limit of open files stays as it is");
    }
}
