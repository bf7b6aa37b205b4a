//! `duly config`: checks and shows what `serve` would be configured with.

use std::path::PathBuf;

use clap::Subcommand;
use duly_server::config::{self, Source};

use crate::{Outcome, failure::Failure, output::Printer};

/// Check or show the configuration of a server
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Say whether a configuration is right
    Check(File),
    /// Show every key with its value and where it comes from
    Show(File),
}

#[derive(clap::Args)]
struct File {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    printer.people_only("config")?;
    let load = |file: File| {
        let source = Source { file: file.config, ..Source::from_env() };
        config::load(&source).map_err(Failure::new)
    };
    match args.action {
        Action::Check(file) => {
            load(file)?;
            printer.line("the configuration is right")
        }
        Action::Show(file) => printer.line(&load(file)?.show()),
    }
}
