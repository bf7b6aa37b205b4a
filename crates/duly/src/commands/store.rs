//! `duly store`: checks, backs up, restores and repairs stores.
//!
//! 1. `check` and `restore` work on directories that no server has open.
//! 2. `backup` calls the server that has the directory open.
//! 3. `repair` calls a server that keeps its timers on Redis.

mod backup;
mod check;
mod repair;
mod restore;

use std::path::PathBuf;

use clap::Subcommand;

use crate::{Outcome, cli::Session, cli::block_on, failure::Failure, open_files, output::Printer};

/// Check, back up, restore and repair stores
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Read and verify everything in a data directory; nothing is changed
    ///
    /// No server may have it open. Exit code 1 if anything is damaged; the leftovers of a crash are no
    /// damage.
    Check {
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = "./duly-data")]
        data: PathBuf,
    },
    /// Copy the store of the running server into another directory
    ///
    /// The server continues to work. The directory must be empty or new, and below the server's
    /// `store.backup_dir`. On the same file system nearly all files are hard links.
    Backup {
        /// The directory, on the server's machine
        path: PathBuf,
    },
    /// Return shards of a store on Redis to service, and accept the loss of their data
    ///
    /// A shard that was emptied gets its marker and the settings of namespaces from the other shards;
    /// its timers are gone. A shard that came back with older data is confirmed. Restore the Redis
    /// server from a backup first if you have one.
    Repair {
        /// Numbers of the shards, as in the error
        #[arg(long = "shard", value_name = "N,…", required = true, value_delimiter = ',')]
        shards: Vec<u16>,
    },
    /// Create a data directory from a backup, with every namespace paused
    ///
    /// The backup is not changed. Nothing fires from the restored directory until its namespaces are
    /// resumed: `duly resume --all`, or one by one. With `--overdue dead` the timers that are due by
    /// then become dead letters.
    Restore {
        /// The backup
        #[arg(long, value_name = "BACKUP")]
        from: PathBuf,
        /// The data directory; it must be empty or new
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(
    args: Args,
    printer: Printer,
    session: impl FnOnce() -> Result<Session, Failure>,
) -> Outcome {
    open_files::raise_limit();
    match args.action {
        Action::Check { data } => check::run(&data, printer),
        Action::Backup { path } => block_on(backup::run(&path, &session()?)),
        Action::Repair { shards } => block_on(repair::run(&shards, &session()?)),
        Action::Restore { from, data } => restore::run(&from, &data, printer),
    }
}
