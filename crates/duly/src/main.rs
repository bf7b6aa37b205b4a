//! The `duly` binary: the server and its command line.
//!
//! ```text
//!   main ──► cli (what was typed, checked) ──► commands/<one file each>
//!                                                │
//!              args: pieces that several share   ├─► client: HTTP to a server, problems to words
//!              output: tables, JSON, times       └─► duly-server, duly-store-embedded: in process
//! ```
//!
//! * It promises: what was typed wrong exits 2, what was refused or failed exits 1, each with one
//!   message that says what to do; everything else exits 0. A closed pipe ends it quietly.
//! * It refuses to hold logic: what a timer is stands in `duly-core`, what a server is in
//!   `duly-server`.
//!
//! Start reading at [`cli`].

mod args;
mod cli;
mod client;
mod commands;
mod failure;
mod output;

use std::process::ExitCode;

use clap::Parser;

use crate::{cli::Cli, failure::Failure};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Refused only when a provider is installed already, and then that one serves as well.
    rustls::crypto::ring::default_provider().install_default().ok();
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// What every command answers.
type Outcome = Result<(), Failure>;
