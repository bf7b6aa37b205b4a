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
mod configured;
mod context;
mod failure;
mod habits;
mod http;
mod open_files;
mod output;
mod place;
mod runtime;
mod service_manager;
mod session;

use std::{
    env,
    io::{self, IsTerminal as _},
    process::ExitCode,
    thread,
    time::Duration,
};

use clap_complete::CompleteEnv;

use crate::{
    cli::Cli,
    commands::{documents, serve},
    failure::Failure,
    output::{Format, Printer},
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if cli::is_server(env::args_os()) {
        serve::receive_hang_ups();
    }
    let first = env::args_os().nth(1).and_then(|name| name.into_string().ok());
    if let Some(command) = first.and_then(|name| cli::hidden(&name)) {
        return ended(command(Printer::new(Format::Table)), Format::Table);
    }
    // This fails only if a provider is already installed, which works as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    CompleteEnv::with_factory(cli::shown).var(documents::COMPLETE).complete();
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && cli::asks_for_json(env::args_os()) => {
            return output::report_usage(&error);
        }
        Err(error) => error.exit(),
    };
    let format = cli.format();
    match cli.watched() {
        Ok(None) => ended(cli.run(), format),
        Ok(Some(interval)) => watch(cli, interval),
        Err(failure) => failure.report(format),
    }
}

/// Repeats a command until the process or the reader of its output ends. A failed call is shown, and the command
/// repeated all the same: a server may restart.
fn watch(mut cli: Cli, interval: Duration) -> ExitCode {
    loop {
        let format = cli.format();
        if format == Format::Table && io::stdout().is_terminal() {
            print!("\x1b[2J\x1b[H");
        }
        match cli.run() {
            Ok(()) => {}
            Err(failure) if failure.is_final() => return failure.report(format),
            Err(failure) => drop(failure.report(format)),
        }
        thread::sleep(interval);
        cli = match Cli::read() {
            Ok(cli) => cli,
            Err(error) => error.exit(),
        };
    }
}

fn ended(outcome: Outcome, format: Format) -> ExitCode {
    outcome.map_or_else(|failure| failure.report(format), |()| ExitCode::SUCCESS)
}

/// The result of every command.
type Outcome = Result<(), Failure>;
