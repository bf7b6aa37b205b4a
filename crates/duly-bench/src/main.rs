//! `duly-bench`: measures parts of Duly on this machine and prints a report.
//!
//! It uses the allocator of the `duly` binary, so its memory and CPU figures are those of the
//! product.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{self, ExitCode},
    thread,
};

use clap::{Parser, Subcommand};
use duly_bench::{Error, engine, report::Report, webhooks};
use tokio::signal::unix::{SignalKind, signal};

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
    /// Measures the embedded engine, in process, on a real directory.
    Engine {
        #[command(flatten)]
        options: engine::Options,
        /// Also writes the whole report to this file, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Measures the webhook sink, with a receiver in another process.
    Webhooks {
        #[command(flatten)]
        options: webhooks::Options,
        /// Also writes the whole report to this file, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Runs the receiver of `webhooks`.
    #[command(hide = true)]
    Receiver,
    /// Runs a step of `engine` that needs its own process, and prints the result as JSON.
    #[command(hide = true)]
    Step {
        /// The step, as JSON.
        step: String,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().subject {
        Subject::Engine { options, json } => {
            clear_up_on_signals();
            engine::run(&options).and_then(|report| {
                show(&report, json.as_deref())?;
                report.failed.map_or(Ok(()), |failed| Err(Error::EndedEarly(failed)))
            })
        }
        Subject::Webhooks { options, json } => {
            webhooks::run(&options).and_then(|report| show(&report, json.as_deref()))
        }
        Subject::Receiver => webhooks::receive(),
        Subject::Step { step } => engine::carry_out(&step),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Removes the files of the run on SIGINT and SIGTERM, and exits.
fn clear_up_on_signals() {
    let wait = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            let mut end = signal(SignalKind::terminate())?;
            tokio::select! {
                done = tokio::signal::ctrl_c() => done,
                _ = end.recv() => Ok(()),
            }
        })
    };
    thread::spawn(move || {
        // If signals cannot be handled, an interrupted run leaves its folder on the disk.
        let waited: io::Result<()> = wait();
        if waited.is_ok() {
            eprintln!("interrupted: removing what was written");
            duly_bench::remove_on_interrupt();
            process::exit(130);
        }
    });
}

/// Prints the report, and writes it to a file if one is named.
fn show(report: &Report, json: Option<&Path>) -> Result<(), Error> {
    // A closed pipe must not prevent the JSON file.
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
