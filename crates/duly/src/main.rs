//! The `duly` binary: the server and its command line.
//!
//! ```text
//!   main ──► cli (what was typed, checked) ──► commands/<one file each>
//!                                                │
//!              args: pieces that several share   ├─► http: a server's replies, printed as they came
//!              output: tables, JSON, times       │
//!                                                └─► duly-server, duly-store-embedded: in process
//! ```
//!
//! * It promises: what was typed wrong exits 2, what was refused or failed exits 1, a server whose store
//!   has ended exits 74, each with one message that says what to do, as JSON where JSON was asked
//!   for; everything else exits 0. A closed pipe ends it quietly. Nothing that comes from elsewhere
//!   drives the terminal.
//! * It refuses to hold logic: what a timer is stands in `duly-core`, what a server is in
//!   `duly-server`.
//!
//! Start reading at [`cli`].

mod args;
mod cli;
mod commands;
mod failure;
mod http;
mod open_files;
mod output;

use std::{env, process::ExitCode};

use clap::Parser;

use crate::{
    cli::Cli,
    failure::{Failure, Reader},
    output::{Format, Loudness, Printer},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let first = env::args_os().nth(1).and_then(|name| name.into_string().ok());
    if let Some(command) = first.and_then(|name| cli::hidden(&name)) {
        return ended(command(Printer::new(Format::Table, Loudness::Normal)), Reader::Person);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && cli::reader_of(env::args_os()) == Reader::Program => {
            return failure::report_usage(&error);
        }
        Err(error) => error.exit(),
    };
    // Refused only when a provider is installed already, and then that one serves as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    let reader = cli.reader();
    ended(cli.run(), reader)
}

fn ended(outcome: Outcome, reader: Reader) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(reader),
    }
}

/// What every command answers.
type Outcome = Result<(), Failure>;
