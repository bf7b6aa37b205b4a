//! The limit of open files of the process, and the connections that it allows.
//!
//! 1. The store has priority. It needs a file for each segment and sorted run, and a few more at times.
//! 2. Attempts and idle connections to receivers come next.
//! 3. Connections get the rest of the limit, but at least a quarter of it.
//! 4. The store also opens some descriptors at the start and keeps them.

use std::{fs, path::Path};

use duly_server::config::Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files of the process itself and of a small store: the standard ones, those of the runtime, those
/// of probes, those that the store keeps, and its first files.
const RESERVED_FILES: u64 = 384;
/// Divisor of the limit: connections get at least this part of it. A server without connections is of no
/// use.
const CONNECTIONS_DIVISOR_MAX: u64 = 4;
/// Directories of a store whose files stay open.
const STORE_DIRS: [&str; 2] = ["journal", "runs"];

/// Raises the limit of open files as far as the system allows without privileges: journal segments and
/// connections each need one. If the system refuses, Duly continues with the current limit.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(
            %error,
            allowed = ?limit.current,
            "cannot raise the limit of open files; continuing with the current one"
        );
    }
}

/// A limit that allows fewer connections than are configured.
#[derive(Debug)]
pub(crate) struct ConnectionsLowered {
    allowed: u64,
    granted: u64,
    configured: u64,
}

impl ConnectionsLowered {
    /// Logs a warning. Called after the server has started, since a failure to start is more important.
    pub(crate) fn warn(&self) {
        let Self { allowed, granted, configured } = self;
        tracing::warn!(
            allowed,
            connections_max = granted,
            configured,
            "the limit of open files is too low for the configuration; accepting fewer \
             connections: raise the limit (`ulimit -n`, `LimitNOFILE`), or lower \
             server.connections_max"
        );
    }
}

/// Lowers the connections of a configuration to the number that the limit allows, and with them the
/// lease calls that may wait.
pub(crate) fn limit_connections(config: &mut Config) -> Option<ConnectionsLowered> {
    let allowed = getrlimit(Resource::Nofile).current?;
    let store_files = config.store.data_dir().map_or(0, files_of);
    let wanted = config.server.connections_max.get();
    let attempts = config.delivery.workers_max.get() + config.webhook.idle_max.get();
    let granted = connections(allowed, attempts, store_files);
    if granted >= wanted {
        return None;
    }
    config.server.connections_max.lower_to(granted);
    // The configuration has the same rule: waiting lease calls leave a quarter of the connections free.
    config.delivery.pull_waiters_max.lower_to(granted * 3 / 4);
    Some(ConnectionsLowered { allowed, granted, configured: wanted })
}

/// Returns the connections that a limit allows, if the store grows to twice its files.
fn connections(allowed: u64, attempts: u64, store_files: u64) -> u64 {
    let others = RESERVED_FILES + attempts + 2 * store_files;
    allowed.saturating_sub(others).max(allowed / CONNECTIONS_DIVISOR_MAX).max(1)
}

/// Returns the number of files of a store that stay open; 0 for a store that does not exist yet.
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
            // At least a quarter.
            (1_024, 2_048, 0, 256),
            (262_144, 2_048, 200_000, 65_536),
            (3, 0, 0, 1),
        ] {
            let granted = connections(allowed, attempts, store_files);
            assert_eq!(granted, expected, "{allowed} {attempts} {store_files}");
        }
    }
}
