//! The command line: the tree of commands, and the function that runs each.
//!
//! Values are checked while they are parsed, with the checks of `duly-core`. So a mistake ends with exit
//! code 2 before anything is sent.

use std::{cell::OnceCell, ffi::OsString, time::Duration};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use duly_core::Millis;

#[cfg(feature = "bench")]
use crate::commands::bench;
use crate::{
    Outcome,
    args::{
        self, TimerArg,
        connection::ConnectionOptions,
        environment::{self, Unread},
    },
    commands::{
        audit, batch, cancel, cluster, config, context, dead, documents, export, get, health,
        import, key, list, metrics, namespace, pull, receive, reschedule, resume, schedule, serve,
        store, tenant, top,
    },
    failure::Failure,
    habits,
    output::{Format, Printer, note},
    runtime::block_on,
    session::Session,
};

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

/// The commands by what they are about, for the help.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Timers", &["schedule", "get", "list", "reschedule", "cancel", "fire", "forget", "batch"]),
    ("Consumers and receivers", &["lease", "settle", "receive"]),
    ("Namespaces", &["namespace", "dead", "resume", "export", "import"]),
    ("Servers", &["serve", "config", "store", "health", "cluster", "top", "metrics", "bench"]),
    ("Access", &["context", "key", "tenant", "whoami", "audit"]),
    ("Documents", &["openapi", "completions", "man", "help"]),
];

/// Returns `true` if the words of a command line, before they are parsed, name `serve`.
pub(crate) fn is_server(words: impl Iterator<Item = OsString>) -> bool {
    let mut follows_an_option = false;
    for word in words.skip(1) {
        let is_option = word.as_encoded_bytes().starts_with(b"-");
        if word == "serve" || !(is_option || follows_an_option) {
            return word == "serve";
        }
        follows_an_option = is_option;
    }
    false
}

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
        let refused = |error| habits::without_secrets(habits::with_tip(error));
        let mut matches = command().try_get_matches().map_err(refused)?;
        Self::from_arg_matches_mut(&mut matches)
    }

    /// Runs the command.
    pub(crate) fn run(self) -> Outcome {
        let GlobalOptions { connection, output, quiet, watch: _ } = self.global;
        let mut printer = Printer::new(output);
        printer.is_quiet = quiet;
        if !quiet && output == Format::Table && !matches!(self.command, Command::Serve(_)) {
            for Unread { name, meant } in environment::unread(false) {
                let cure = meant.map(|meant| format!(": did you mean {meant}?"));
                note(&format!("the variable {name} is not read{}", cure.unwrap_or_default()));
            }
        }
        let place = OnceCell::new();
        let session = || {
            let http = connection.connect()?;
            place.set(http.place()).ok();
            Ok::<_, Failure>(Session { http, printer })
        };
        let outcome = match self.command {
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
                let named = connection.server.as_ref().map(|typed| typed.url()).transpose();
                named.and_then(|named| bench::run(args, named, printer))
            }
            Command::Health(args) => block_on(async { health::run(args, &session()?).await }),
            Command::Cluster => block_on(async { cluster::run(&session()?).await }),
            Command::Top(args) => block_on(async { top::run(args, &session()?).await }),
            Command::Metrics(args) => block_on(async { metrics::run(args, &session()?).await }),
            Command::Openapi => block_on(async { documents::openapi(&session()?).await }),
            Command::Completions(args) => documents::completions(args, printer),
            Command::Man(args) => documents::man(args, &shown(), printer),
        };
        outcome.map_err(|failure| match place.get() {
            Some(place) => failure.at(place),
            None => failure,
        })
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
        "__cli-docs" => Some(|printer| documents::print_cli_reference(shown(), printer)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;

    fn error_of(words: &[&str]) -> clap::Error {
        let line = [&["duly"], words].concat();
        shown().try_get_matches_from(line).expect_err("a mistake")
    }

    #[test]
    fn a_server_is_known_before_its_command_line_is_parsed() {
        let is_server = |line: &str| is_server(line.split(' ').map(OsString::from));
        for line in ["duly serve", "duly serve --config f", "duly -q --output json serve"] {
            assert!(is_server(line), "{line}");
        }
        for line in ["duly", "duly batch serve", "duly --output json get n serve", "duly help"] {
            assert!(!is_server(line), "{line}");
        }
    }

    #[test]
    fn every_habit_is_unknown_and_its_tip_is_known() {
        for (parent, names, own) in habits::COMMANDS {
            for name in names {
                let line = [parent, *name].into_iter().filter(|it| !it.is_empty());
                let line: Vec<_> = line.collect();
                assert_eq!(error_of(&line).kind(), ErrorKind::InvalidSubcommand, "{line:?}");
                let tip = habits::of_command(name, line.iter().map(OsString::from));
                assert!(tip.is_some_and(|tip| tip.contains(own)), "{line:?}");
            }
            let all = shown();
            let mut command = &all;
            for word in own.split(' ').take_while(|word| word.chars().all(char::is_lowercase)) {
                command = command.find_subcommand(word).unwrap_or_else(|| panic!("{own}"));
            }
        }
        for (commands, names, own) in habits::ARGUMENTS {
            for name in names {
                let line = [commands.first().copied().unwrap_or("whoami"), *name];
                let error = error_of(&line);
                assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{line:?}: {error}");
                let tip = habits::of_argument(name, line.iter().map(OsString::from));
                assert!(tip.is_some_and(|tip| tip.contains(own)), "{line:?}");
            }
        }
        let tip = habits::of_command("create", ["ns", "create"].map(OsString::from));
        assert!(tip.is_some_and(|tip| tip.contains("namespace put")), "an alias");
    }

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
