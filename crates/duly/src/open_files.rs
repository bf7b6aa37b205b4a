//! How many files the process may have open, and what of them is for connections.
//!
//! The store comes first: it needs a file for each segment and run, and a few more at each moment. So
//! connections get what is left of the limit when the store, and attempts with their idle receivers,
//! have their part. Besides, the store keeps descriptors of its own open from the start.

use std::{fs, path::Path};

use duly_server::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files of the process itself and of a small store: standard ones, the runtime's, those of probes,
/// those that the store keeps, and its first files.
const BESIDES: u64 = 384;
/// Connections get this part of the limit at least; a server that takes no call is of no use.
const CONNECTIONS_PART_MIN: u64 = 4;
/// Directories of a store whose files stay open.
const STORE_DIRS: [&str; 2] = ["journal", "runs"];

/// Asks for as many open files as the system allows without privileges: journal segments and
/// connections each need one. Where it is refused, Duly runs with what it has.
pub(crate) fn allow() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, allowed = ?limit.current, "the limit of open files stays as it is");
    }
}

/// A limit that leaves fewer connections than are configured.
#[derive(Debug)]
pub(crate) struct TooFew {
    allowed: u64,
    left: u64,
    configured: u64,
}

impl TooFew {
    /// Says so, once the server has started: before that there may be worse to say.
    pub(crate) fn warn(&self) {
        let Self { allowed, left, configured } = self;
        tracing::warn!(
            allowed,
            connections_max = left,
            configured,
            "the process may open fewer files than the configuration can need, so it takes fewer \
             connections: raise its limit (`ulimit -n`, `LimitNOFILE`), or lower \
             server.connections_max"
        );
    }
}

/// Lowers the connections of a configuration to what the limit leaves for them, and the lease calls
/// that may wait with them.
pub(crate) fn fit(config: &mut Config) -> Option<TooFew> {
    let allowed = getrlimit(Resource::Nofile).current?;
    let store_files = if config.store.url.is_some() { 0 } else { files_of(&config.store.data) };
    let wanted = config.server.connections_max.get();
    let attempts = config.delivery.workers_max.get() + config.webhook.idle_max.get();
    let left = connections(allowed, attempts, store_files);
    if left >= wanted {
        return None;
    }
    config.server.connections_max.lower_to(left);
    // As for a configuration: waiting calls leave a quarter of the connections.
    config.delivery.pull_waiters_max.lower_to(left * 3 / 4);
    Some(TooFew { allowed, left, configured: wanted })
}

/// Connections that a limit leaves: the store may grow to twice the files that it has.
fn connections(allowed: u64, attempts: u64, store_files: u64) -> u64 {
    let others = BESIDES + attempts + 2 * store_files;
    allowed.saturating_sub(others).max(allowed / CONNECTIONS_PART_MIN).max(1)
}

/// Files of a store that stay open; none of one that is not there yet.
fn files_of(data: &Path) -> u64 {
    let count = |dir| fs::read_dir(data.join(dir)).map_or(0, |names| names.count() as u64);
    STORE_DIRS.into_iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::connections;

    #[test]
    fn connections_get_what_the_store_and_attempts_leave() {
        for (allowed, attempts, store_files, expected) in [
            (262_144, 2_048, 0, 259_712),
            (20_000, 2_048, 1_000, 15_568),
            (4_000, 2_048, 0, 1_568),
            // A quarter at least.
            (1_024, 2_048, 0, 256),
            (262_144, 2_048, 200_000, 65_536),
            (3, 0, 0, 1),
        ] {
            let left = connections(allowed, attempts, store_files);
            assert_eq!(left, expected, "{allowed} {attempts} {store_files}");
        }
    }
}
