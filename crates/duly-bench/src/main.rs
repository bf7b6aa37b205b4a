//! `duly-bench`: measures Duly on this machine and prints what it found.
//!
//! The allocator is the one of the `duly` binary, so that memory and CPU figures are the product's.

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
    /// The embedded engine, in process, on a real directory.
    Engine {
        #[command(flatten)]
        options: engine::Options,
        /// Also write the whole report to this file, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// The webhook sink, to a receiver in a process of its own.
    Webhooks {
        #[command(flatten)]
        options: webhooks::Options,
        /// Also write the whole report to this file, as JSON.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// The receiver of `webhooks`.
    #[command(hide = true)]
    Receiver,
    /// Work of `engine` that needs a process of its own; prints what it found, as JSON.
    #[command(hide = true)]
    Step {
        /// What to do, as JSON.
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

/// Removes what is on the disk when the process is asked to stop; a run is nothing to wait for.
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
        // Without signals the folder stays when one comes, and nothing else is lost.
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
