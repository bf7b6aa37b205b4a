//! `duly store`: checks, copies and restores a data directory.
//!
//! `check` and `restore` work on directories that no server has open; `backup` asks the server that
//! has it open, and `repair` one that keeps its timers on Redis.

mod backup;
mod check;
mod repair;
mod restore;

use std::path::PathBuf;

use clap::Subcommand;

use crate::{Outcome, cli::Session, cli::block_on, failure::Failure, open_files, output::Printer};

/// Check, back up and restore data directories
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Read everything in a data directory and verify it; nothing is changed
    ///
    /// No server may have it open. Exit code 1 if anything is damaged; what a crash leaves is not.
    Check {
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = "./duly-data")]
        data: PathBuf,
    },
    /// Have the running server copy its store into another directory
    ///
    /// The server goes on working. The directory must be empty or new, and below the server's
    /// `store.backup_dir`. On the same file system nearly all of it is hard links.
    Backup {
        /// The directory, on the server's machine
        path: PathBuf,
    },
    /// Have shards of a store on Redis take calls again, and accept what they have lost
    ///
    /// A shard that was emptied gets its marker and the settings of namespaces from the other shards; its
    /// timers are gone. A shard that came back with older data is confirmed. Restore the server from a
    /// backup first if you have one.
    Repair {
        /// Numbers of the shards, as the error names them
        #[arg(long = "shard", value_name = "N,…", required = true, value_delimiter = ',')]
        shards: Vec<u16>,
    },
    /// Make a data directory from a backup, with every namespace paused
    ///
    /// The backup stays as it is. Nothing fires from the restored directory before its namespaces are
    /// resumed: `duly resume --all`, or one by one; with `--overdue dead` what is due by then becomes
    /// dead letters.
    Restore {
        /// The backup
        #[arg(long, value_name = "BACKUP")]
        from: PathBuf,
        /// The data directory; it must be empty or new
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

/// Runs it.
pub(crate) fn run(
    args: Args,
    printer: Printer,
    session: impl FnOnce() -> Result<Session, Failure>,
) -> Outcome {
    open_files::allow();
    match args.action {
        Action::Check { data } => check::run(&data, printer),
        Action::Backup { path } => block_on(backup::run(&path, &session()?)),
        Action::Repair { shards } => block_on(repair::run(&shards, &session()?)),
        Action::Restore { from, data } => restore::run(&from, &data, printer),
    }
}
