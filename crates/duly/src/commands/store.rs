//! `duly store`: looks after a data directory that no server has open.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
};

use clap::Subcommand;
use duly_store_embedded::{OpenError, Progress, check, disk};

use crate::{Outcome, failure::Failure, output::Printer};

/// Look after the data directory of a server that is not running
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Read everything in a data directory and verify it; nothing is changed
    Check {
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = "./duly-data")]
        data: PathBuf,
    },
}

/// Runs it.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    let Action::Check { data } = args.action;
    printer.people_only("store check")?;
    let watched = io::stderr().is_terminal();
    let mut progress = |progress: Progress| {
        if watched {
            show(progress);
        }
    };
    let report = check::check(&data, &mut progress).map_err(|error| match error {
        OpenError::Disk(disk::Error::NotFound { .. }) => {
            Failure::new(format_args!("{error}: name the directory with --data"))
        }
        error => Failure::new(error),
    })?;
    printer.line(&report.to_string())?;
    if report.is_clean() {
        Ok(())
    } else {
        Err(Failure::new(format_args!(
            "{} is not clean: see above; restore it from a backup",
            data.display()
        )))
    }
}

/// One line that is written over; it does not matter whether anybody sees it.
fn show(progress: Progress) {
    let Progress { segments_done, segments, records, .. } = progress;
    let end = if segments_done == segments { "\n" } else { "\r" };
    let line = format!("segment {segments_done} of {segments}, {records} records{end}");
    io::stderr().write_all(line.as_bytes()).ok();
}
