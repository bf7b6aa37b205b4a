//! The command line: the tree of commands, and the function that runs each.
//!
//! Values are checked while they are parsed, with the checks of `duly-core`. So a mistake ends with exit
//! code 2 before anything is sent.

use std::{env, ffi::OsString, future::Future, path::PathBuf};

use clap::{CommandFactory as _, Parser, Subcommand};
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "bench")]
use crate::commands::bench;
use crate::{
    Outcome,
    args::{self, TimerArg},
    commands::{
        audit, batch, cancel, cluster, config, dead, documents, export, get, health, import, key,
        list, metrics, namespace, pull, receive, reschedule, resume, schedule, serve, store, top,
    },
    failure::Failure,
    http::{Call, Http},
    output::{Format, Printer},
};

/// Deliver this payload at that time, unless cancelled.
#[derive(Parser)]
#[command(name = "duly", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of every command")]
struct GlobalOptions {
    /// The server to call; default is the variable DULY_SERVER, else http://127.0.0.1:3859
    // clap does not read the variable: it would show the option in every usage as one to be typed.
    #[arg(long, global = true, value_name = "URL", value_parser = args::values::unchecked)]
    server: Option<args::values::Unchecked>,
    /// A file in PEM with further authorities of the server's certificate; default is the variable
    /// DULY_CA_FILE
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// A file with the key to send; default is the file that the variable DULY_API_KEY_FILE names, else
    /// the key in the variable DULY_API_KEY
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Output format: a table for people, or JSON for programs, errors included
    #[arg(long, global = true, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Print only errors; the exit code reports the result
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Schedule(schedule::Args),
    /// Show a timer: its state, attempts and history
    Get(TimerArg),
    List(list::Args),
    Reschedule(reschedule::Args),
    Cancel(cancel::Args),
    /// Fire a timer now: make it due, or start its next attempt
    Fire(TimerArg),
    Batch(batch::Args),
    Lease(pull::LeaseArgs),
    Settle(pull::SettleArgs),
    #[command(visible_alias = "ns")]
    Namespace(namespace::Args),
    Resume(resume::Args),
    Dead(dead::Args),
    Export(export::Args),
    Import(import::Args),
    Receive(receive::Args),
    Key(key::Args),
    /// Show the key that the command sends, and its rights
    Whoami,
    Audit(audit::Args),
    Store(store::Args),
    Config(config::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    Health(health::Args),
    /// Show the nodes of the deployment, as the called server sees them
    Cluster,
    Top(top::Args),
    Metrics(metrics::Args),
    /// Print the OpenAPI document of the server
    Openapi,
    Completions(documents::CompletionsArgs),
    Man(documents::ManArgs),
}

/// The context of a command that calls a server.
pub(crate) struct Session {
    /// The server, over HTTP.
    pub(crate) http: Http,
    /// Prints results.
    pub(crate) printer: Printer,
}

impl Session {
    /// Makes a call, and prints its response: unchanged as JSON, or as the text for people.
    pub(crate) async fn print<T: DeserializeOwned>(
        &self,
        call: Call<'_>,
        text: impl FnOnce(T) -> String,
    ) -> Outcome {
        let response = call.send().await?;
        self.printer.document(&response.text, || Ok(text(response.parse()?)))
    }
}

impl Cli {
    /// Runs the command.
    pub(crate) fn run(self) -> Outcome {
        let GlobalOptions { server, ca_file, key_file, output, quiet } = self.global;
        let mut printer = Printer::new(output);
        printer.is_quiet = quiet;
        let session = || {
            let server = server.clone().map_or_else(args::server::from_env, |typed| typed.url())?;
            let ca_file = ca_file.or_else(|| env::var_os("DULY_CA_FILE").map(PathBuf::from));
            let key = args::key::authorization(key_file.as_deref())?;
            Ok::<_, Failure>(Session { http: Http::new(server, ca_file.as_deref(), key)?, printer })
        };
        match self.command {
            Command::Serve(args) => serve::run(args, printer),
            Command::Schedule(args) => block_on(async { schedule::run(args, &session()?).await }),
            Command::Get(args) => block_on(async { get::run(args, &session()?).await }),
            Command::List(args) => block_on(async { list::run(args, &session()?).await }),
            Command::Reschedule(args) => {
                block_on(async { reschedule::run(args, &session()?).await })
            }
            Command::Cancel(args) => block_on(async { cancel::run(args, &session()?).await }),
            Command::Fire(args) => block_on(async { get::fire(args, &session()?).await }),
            Command::Batch(args) => block_on(async { batch::run(args, &session()?).await }),
            Command::Lease(args) => block_on(async { pull::lease(args, &session()?).await }),
            Command::Settle(args) => block_on(async { pull::settle(args, &session()?).await }),
            Command::Namespace(args) => block_on(async { namespace::run(args, &session()?).await }),
            Command::Resume(args) => block_on(async { resume::run(args, &session()?).await }),
            Command::Dead(args) => block_on(async { dead::run(args, &session()?).await }),
            Command::Export(args) => block_on(async { export::run(args, &session()?).await }),
            Command::Import(args) => block_on(async { import::run(args, &session()?).await }),
            Command::Receive(args) => block_on(receive::run(args, printer)),
            Command::Key(args) => key::run(args, printer, session),
            Command::Audit(args) => block_on(async { audit::run(args, &session()?).await }),
            Command::Whoami => block_on(async { key::whoami(&session()?).await }),
            Command::Store(args) => store::run(args, printer, session),
            Command::Config(args) => config::run(args, printer),
            #[cfg(feature = "bench")]
            Command::Bench(args) => {
                let named = server.clone().map(|typed| typed.url()).transpose()?;
                bench::run(args, named, printer)
            }
            Command::Health(args) => block_on(async { health::run(args, &session()?).await }),
            Command::Cluster => block_on(async { cluster::run(&session()?).await }),
            Command::Top(args) => block_on(async { top::run(args, &session()?).await }),
            Command::Metrics(args) => block_on(async { metrics::run(args, &session()?).await }),
            Command::Openapi => block_on(async { documents::openapi(&session()?).await }),
            Command::Completions(args) => documents::completions(args, printer),
            Command::Man(args) => documents::man(args, printer),
        }
    }

    /// Returns the format of results and errors.
    pub(crate) fn format(&self) -> Format {
        self.global.output
    }
}

/// Returns `true` if a command line that could not be parsed asks for errors as JSON.
pub(crate) fn asks_for_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut is_format = false;
    arguments.into_iter().any(|argument| {
        let text = argument.to_string_lossy();
        let format = text.strip_prefix("--output=").or(is_format.then_some(&*text));
        is_format = text == "--output";
        matches!(format, Some("json" | "ndjson"))
    })
}

/// Returns the public commands, for completions, manual pages and the reference.
pub(crate) fn shown() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// Returns a command of the project's own tools. These commands are in no help, completion or manual
/// page.
pub(crate) fn hidden(name: &str) -> Option<fn(Printer) -> Outcome> {
    match name {
        "__openapi" => Some(documents::print_own_openapi),
        "__cli-docs" => Some(documents::print_cli_reference),
        _ => None,
    }
}

/// Runs a command on a single-threaded runtime.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    runtime(Builder::new_current_thread())?.block_on(command)
}

/// Starts a runtime.
pub(crate) fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::new(format_args!("cannot start the async runtime: {error}")))
}
