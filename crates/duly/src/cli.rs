//! What can be typed: the tree of commands, and which code answers each.
//!
//! Values are checked while parsing, with the checks of `duly-core`, so that a mistake ends with
//! exit code 2 before anything is sent.

use std::future::Future;

use clap::{Parser, Subcommand};
use reqwest::Url;

use crate::{
    Outcome, args,
    client::Client,
    commands::{
        cancel, cli_docs, config, dead, fire, get, lease, list, namespace, openapi, receive,
        reschedule, resume, schedule, serve, settle, store,
    },
    failure::Failure,
    output::{Format, Printer},
};

/// Deliver this payload at that time, unless cancelled.
#[derive(Parser)]
#[command(name = "duly", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    everywhere: Everywhere,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of every command")]
struct Everywhere {
    /// The server that a command talks to
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DULY_SERVER",
        default_value = "http://127.0.0.1:3859",
        value_parser = args::values::server_url,
        hide_env_values = true
    )]
    server: Url,
    /// A table for people, or the server's answer as one JSON document
    #[arg(long, global = true, value_name = "FORMAT", default_value = "table")]
    output: Format,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Schedule(schedule::Args),
    Get(get::Args),
    List(list::Args),
    Reschedule(reschedule::Args),
    Cancel(cancel::Args),
    Fire(fire::Args),
    Lease(lease::Args),
    Settle(settle::Args),
    Namespace(namespace::Args),
    Resume(resume::Args),
    Dead(dead::Args),
    Receive(receive::Args),
    Store(store::Args),
    Config(config::Args),
    /// Print the OpenAPI document
    #[command(name = "__openapi", hide = true)]
    Openapi,
    /// Print the reference of the command line
    #[command(name = "__cli-docs", hide = true)]
    CliDocs,
}

/// What a command that calls a server works with.
pub(crate) struct Session {
    /// The server.
    pub(crate) client: Client,
    /// Where answers go.
    pub(crate) printer: Printer,
}

impl Cli {
    /// Does what was typed.
    pub(crate) fn run(self) -> Outcome {
        let Everywhere { server, output } = self.everywhere;
        let printer = Printer::new(output);
        let session = || Ok::<_, Failure>(Session { client: Client::new(server)?, printer });
        match self.command {
            Command::Serve(args) => serve::run(args, printer),
            Command::Schedule(args) => block_on(schedule::run(args, &session()?)),
            Command::Get(args) => block_on(get::run(args, &session()?)),
            Command::List(args) => block_on(list::run(args, &session()?)),
            Command::Reschedule(args) => block_on(reschedule::run(args, &session()?)),
            Command::Cancel(args) => block_on(cancel::run(args, &session()?)),
            Command::Fire(args) => block_on(fire::run(args, &session()?)),
            Command::Lease(args) => block_on(lease::run(args, &session()?)),
            Command::Settle(args) => block_on(settle::run(args, &session()?)),
            Command::Namespace(args) => block_on(namespace::run(args, &session()?)),
            Command::Resume(args) => block_on(resume::run(args, &session()?)),
            Command::Dead(args) => block_on(dead::run(args, &session()?)),
            Command::Receive(args) => block_on(receive::run(args, printer)),
            Command::Store(args) => store::run(args, printer, session),
            Command::Config(args) => config::run(args, printer),
            Command::Openapi => openapi::run(printer),
            Command::CliDocs => cli_docs::run(printer),
        }
    }
}

/// Runs a command that waits for one thing at a time.
pub(crate) fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format_args!("cannot start: {error}")))?
        .block_on(command)
}
