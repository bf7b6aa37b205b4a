//! `duly-bench`: measures Duly on this machine and prints what it found.
//!
//! The allocator is the one of the `duly` binary, so that memory and CPU figures are the product's.

use std::{fs, io::Write as _, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use duly_bench::{engine, report::Report};

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
}

fn main() -> ExitCode {
    let Subject::Engine { options, json } = Cli::parse().subject;
    let report = match engine::run(&options) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    // A closed pipe is no reason to lose the file.
    write!(std::io::stdout(), "{report}").ok();
    match json.map(|path| (write_json(&report, &path), path)) {
        Some((Err(error), path)) => {
            eprintln!("error: cannot write {}: {error}", path.display());
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn write_json(report: &Report, path: &PathBuf) -> std::io::Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
