//! The command line: the tree of commands, and the function that runs each.
//!
//! Values are checked while they are parsed, with the checks of `duly-core`. So a mistake ends with exit
//! code 2 before anything is sent.

use std::{
    env,
    ffi::OsString,
    future::Future,
    path::PathBuf,
    pin::{Pin, pin},
    time::Duration,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::CompletionCandidate;
use duly_api::namespace::ListNamespacesResponse;
use duly_core::Millis;
use reqwest::Method;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};

#[cfg(feature = "bench")]
use crate::commands::bench;
use crate::{
    Outcome,
    args::{self, TimerArg},
    commands::{
        audit, batch, cancel, cluster, config, context, dead, documents, export, get, health,
        import, key, list, metrics, namespace, pull, receive, reschedule, resume, schedule, serve,
        store, tenant, top,
    },
    context::{self as selected, select},
    failure::Failure,
    http::{Call, Http},
    output::{Format, Printer},
};

/// The variable in which a shell asks for completions.
pub(crate) const COMPLETE: &str = "DULY_COMPLETE";
/// Longest wait for the server while a shell completes a name.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(1);
/// Shortest interval of `--watch`.
const WATCH_MIN: Millis = Millis::from_ms(100);

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
    #[command(flatten)]
    connection: ConnectionOptions,
    /// Output format: a table for people, or JSON for programs, errors included
    #[arg(long, global = true, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Print only errors; the exit code reports the result
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Repeat a command that only reads at an interval until Ctrl-C; without a value every 2s
    #[arg(
        long,
        global = true,
        value_name = "INTERVAL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2s",
        value_parser = args::values::duration
    )]
    watch: Option<Millis>,
}

/// Options that select a server, and how it is called.
#[derive(clap::Args)]
pub(crate) struct ConnectionOptions {
    /// The server to call; default is the variable DULY_SERVER, else that of the context, else
    /// http://127.0.0.1:3859
    // clap does not read the variable: it would show the option in every usage as one to be typed.
    #[arg(long, global = true, value_name = "URL", value_parser = args::values::unchecked)]
    pub(crate) server: Option<args::values::Unchecked>,
    /// A context of `duly context`: a server with its key, authorities and namespace
    #[arg(long, global = true, value_name = "NAME", conflicts_with = "server")]
    context: Option<String>,
    /// A file in PEM with further authorities of the server's certificate; default is the variable
    /// DULY_CA_FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// A file with the key, or the token, to send; default is the file that the variable
    /// DULY_API_KEY_FILE names, else the key in the variable DULY_API_KEY
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// A file in PEM with a certificate of your own and its private key; default is the variable
    /// DULY_CERT_FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) cert_file: Option<PathBuf>,
}

impl ConnectionOptions {
    /// Returns a client of the selected server.
    fn connect(&self) -> Result<Http, Failure> {
        let of_variable =
            |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let selected = select(self.context.as_deref(), self.server.is_some())?;
        // The key of another server, in a variable, must not be sent to the server of a context.
        let reads_variables = selected.is_none();
        let (server, key_file, cert_file, ca_file) = match selected {
            Some(context) => (
                args::server::of_context(&context.server)?,
                self.key_file.clone().or(context.key_file),
                self.cert_file.clone().or(context.cert_file),
                self.ca_file.clone().or(context.ca_file),
            ),
            None => (
                self.server.as_ref().map_or_else(args::server::from_env, |typed| typed.url())?,
                self.key_file.clone().or_else(|| of_variable(args::key::FILE)),
                self.cert_file.clone().or_else(|| of_variable("DULY_CERT_FILE")),
                self.ca_file.clone().or_else(|| of_variable("DULY_CA_FILE")),
            ),
        };
        let key = args::key::authorization(key_file.as_deref(), reads_variables)?;
        Http::new(server, [ca_file.as_deref(), cert_file.as_deref()], key)
    }
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Args),
    Schedule(schedule::Args),
    /// Show a timer: its state, attempts and history
    Get(TimerArg),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Reschedule(reschedule::Args),
    Cancel(cancel::Args),
    /// Fire a timer now: make it due, or start its next attempt
    Fire(TimerArg),
    /// Remove all that is left of an ended timer: its tombstone and its dead letters
    Forget(TimerArg),
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
    Tenant(tenant::Args),
    /// Show the key that the command sends, its rights, and its tenant
    Whoami,
    Audit(audit::Args),
    Store(store::Args),
    Config(config::Args),
    Context(context::Args),
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

/// The commands by what they are about, for the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Timers", &["schedule", "get", "list", "reschedule", "cancel", "fire", "forget", "batch"]),
    ("Consumers and receivers", &["lease", "settle", "receive"]),
    ("Namespaces", &["namespace", "dead", "resume", "export", "import"]),
    ("Servers", &["serve", "config", "store", "health", "cluster", "top", "metrics", "bench"]),
    ("Access", &["context", "key", "tenant", "whoami", "audit"]),
    ("Documents", &["openapi", "completions", "man", "help"]),
];

/// Returns the command line with its help in groups.
fn command() -> clap::Command {
    let command = Cli::command();
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        template.push_str(&format!("\n{title}:\n"));
        for name in names {
            let about = match command.find_subcommand(name) {
                Some(found) => found.get_about().map(ToString::to_string).unwrap_or_default(),
                None if *name == "help" => "Print this, or the help of a command".to_owned(),
                // A command of a feature that is left out.
                None => continue,
            };
            template.push_str(&format!("  {name:<11}  {about}\n"));
        }
    }
    template.push_str("\nOptions of every command:\n{options}\n");
    command.help_template(template)
}

impl Cli {
    /// Parses the command line of this process.
    pub(crate) fn read() -> clap::error::Result<Self> {
        let mut matches = command().try_get_matches()?;
        Self::from_arg_matches_mut(&mut matches)
    }

    /// Runs the command.
    pub(crate) fn run(self) -> Outcome {
        let GlobalOptions { connection, output, quiet, watch: _ } = self.global;
        let mut printer = Printer::new(output);
        printer.is_quiet = quiet;
        let session = || Ok::<_, Failure>(Session { http: connection.connect()?, printer });
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
            Command::Forget(args) => block_on(async { get::forget(args, &session()?).await }),
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
            Command::Tenant(args) => block_on(async { tenant::run(args, &session()?).await }),
            Command::Audit(args) => block_on(async { audit::run(args, &session()?).await }),
            Command::Whoami => block_on(async { key::whoami(&session()?).await }),
            Command::Store(args) => store::run(args, printer, session),
            Command::Config(args) => config::run(args, printer),
            Command::Context(args) => context::run(args, &connection, printer),
            #[cfg(feature = "bench")]
            Command::Bench(args) => {
                let named = connection.server.as_ref().map(|typed| typed.url()).transpose()?;
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

    /// Returns the interval at which the command is repeated, if it was asked for.
    ///
    /// # Errors
    /// When the command does not only read.
    pub(crate) fn watched(&self) -> Result<Option<Duration>, Failure> {
        let Some(interval) = self.global.watch else { return Ok(None) };
        let is_read = match &self.command {
            Command::Get(_)
            | Command::List(_)
            | Command::Whoami
            | Command::Health(_)
            | Command::Cluster => true,
            Command::Namespace(args) => args.only_reads(),
            Command::Dead(args) => args.only_reads(),
            Command::Key(args) => args.only_reads(),
            Command::Tenant(args) => args.only_reads(),
            _ => false,
        };
        if !is_read {
            return Err(Failure::usage(
                "--watch repeats a command that only reads: get, list, whoami, health, cluster, namespace list, \
                 get, stats and forecast, dead list, key list and get, tenant list and get; `duly top` and `duly audit --follow` \
                 repeat by themselves",
            ));
        }
        if interval < WATCH_MIN {
            return Err(Failure::usage(format_args!("--watch must be at least {WATCH_MIN}")));
        }
        Ok(Some(interval.to_std()))
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

/// Returns the names of the namespaces of the selected server, for completions; none if it does not reply at
/// once.
pub(crate) fn completed_namespaces() -> Vec<CompletionCandidate> {
    let (context, server) = selected::named_on_the_command_line();
    let connection = ConnectionOptions {
        server: server.map(args::values::Unchecked),
        context,
        ca_file: None,
        key_file: None,
        cert_file: None,
    };
    let names = block_on(async {
        let http = connection.connect()?;
        let call =
            http.service(Method::GET, &["namespaces"]).query(&[("limit", "1000".to_owned())]);
        let response = tokio::time::timeout(COMPLETION_TIMEOUT, call.send()).await;
        let page: ListNamespacesResponse =
            response.map_err(|_| Failure::new("no response in time"))??.parse()?;
        Ok(page.namespaces.into_iter().map(|namespace| namespace.name))
    });
    names.into_iter().flatten().map(CompletionCandidate::new).collect()
}

/// Returns the public commands, for completions, manual pages and the reference.
pub(crate) fn shown() -> clap::Command {
    let mut command = command();
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
    // One type for the futures of all commands: the runtime is compiled once, not for each of them.
    let command: Pin<&mut dyn Future<Output = Result<T, Failure>>> = pin!(command);
    runtime(Builder::new_current_thread())?.block_on(command)
}

/// Starts a runtime.
pub(crate) fn runtime(mut builder: Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built.map_err(|error| Failure::new(format_args!("cannot start the async runtime: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.retain(|name| *name != "help" && (cfg!(feature = "bench") || *name != "bench"));
        grouped.sort_unstable();
        let command = command();
        let mut commands: Vec<&str> =
            command.get_subcommands().map(clap::Command::get_name).collect();
        commands.sort_unstable();
        assert_eq!(grouped, commands);
    }
}
