//! `duly-bench`: measures Duly on this machine and prints what it found.
//!
//! The allocator is the one of the `duly` binary, so that memory and CPU figures are the product's.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use duly_bench::{Error, engine, report::Report};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Duly on this machine.
#[derive(Parser)]
#[command(name = "duly-bench")]
struct Cli {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// The embedded engine, in process, on a real directory.
    Engine {
        #[command(flatten)]
        options: engine::Options,
        /// Also write the whole report to this file, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Open a store's folder once and print what that took, as JSON: a step of `engine`.
    #[command(hide = true)]
    Reopen {
        /// The store's folder.
        folder: PathBuf,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().subject {
        Subject::Engine { options, json } => {
            engine::run(&options).and_then(|report| show(&report, json.as_deref()))
        }
        Subject::Reopen { folder } => engine::reopen(&folder).and_then(|reopened| {
            let text = serde_json::to_string(&reopened).map_err(io::Error::from);
            text.and_then(|text| writeln!(io::stdout(), "{text}")).map_err(|source| Error::Io {
                what: "write to",
                path: "stdout".into(),
                source,
            })
        }),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report, and writes it to a file if one is named.
fn show(report: &Report, json: Option<&Path>) -> Result<(), Error> {
    // A closed pipe is no reason to lose the file.
    write!(io::stdout(), "{report}").ok();
    let Some(path) = json else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(report).map_err(io::Error::from);
    text.and_then(|text| fs::write(path, text + "\n")).map_err(|source| Error::Io {
        what: "write",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
