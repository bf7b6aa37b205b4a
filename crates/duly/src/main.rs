//! The `duly` binary: the server and its command line.
//!
//! ```text
//!   main ──► cli (parses and checks arguments) ──► commands/<one file each>
//!                                                 │
//!              args: parts that several share     ├─► http: a server's responses, printed unchanged
//!              output: tables, JSON, times        │
//!                                                 └─► duly-server, duly-store-embedded: in process
//! ```
//!
//! What must stay true:
//!
//! 1. Exit codes: 2 for an invalid command line, 1 for a refusal or failure, 74 for a server whose store has
//!    ended. Everything else exits with 0.
//! 2. Each failure prints one message with the next step, as JSON if JSON output was requested. (If the store
//!    has ended, the message is the last line of the log.)
//! 3. A closed pipe ends the process silently.
//! 4. Text from elsewhere never controls the terminal.
//! 5. This crate has no logic of timers, which is in `duly-core`, and none of servers, which is in
//!    `duly-server`.
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
    failure::Failure,
    output::{Format, Printer},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let first = env::args_os().nth(1).and_then(|name| name.into_string().ok());
    if let Some(command) = first.and_then(|name| cli::hidden(&name)) {
        return ended(command(Printer::new(Format::Table)), Format::Table);
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && cli::asks_for_json(env::args_os()) => {
            return failure::report_usage(&error);
        }
        Err(error) => error.exit(),
    };
    // This fails only if a provider is already installed, which works as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    let format = cli.format();
    ended(cli.run(), format)
}

fn ended(outcome: Outcome, format: Format) -> ExitCode {
    outcome.map_or_else(|failure| failure.report(format), |()| ExitCode::SUCCESS)
}

/// The result of every command.
type Outcome = Result<(), Failure>;
