//! `duly config`: checks and shows the configuration of `serve`, and prints a file with every key.

use std::path::PathBuf;

use clap::Subcommand;
use duly_server::config::{self, Config, Flag, Origin, Source, key};
use serde_json::{Value, json};

use crate::{
    Outcome,
    failure::Failure,
    output::{Printer, warn},
};

/// Check or show the configuration of a server
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Check a configuration for a server, and report all mistakes in it
    ///
    /// Reads the file and the variables DULY_SECTION__KEY of the environment, takes the flags of `duly
    /// serve`, and checks the files that the configuration names. Nothing is started or changed. Exit
    /// code 1 if anything is wrong.
    Check(SourceArgs),
    /// Show every key with its value and its origin
    Show(SourceArgs),
    /// Print a file with every key, its meaning, bounds and default, all commented out
    Example,
}

/// The sources of a configuration, besides the environment.
#[derive(clap::Args)]
pub(super) struct SourceArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Like that of `duly serve`
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<String>,
    /// Like that of `duly serve`
    #[arg(long, value_name = "URL")]
    pub(super) store: Option<String>,
    /// Like that of `duly serve`
    #[arg(long, value_name = "ADDRESS")]
    pub(super) listen: Option<String>,
}

impl SourceArgs {
    /// Returns the source of a configuration: the file, these flags of `duly serve` and the environment.
    pub(super) fn source(self) -> Source {
        let flags = [
            ("--data", key!(store.data), self.data),
            ("--store", key!(store.url), self.store),
            ("--listen", key!(server.listen), self.listen),
        ];
        let flags = flags.into_iter().filter_map(|(flag, key, value)| {
            Some(Flag { flag: flag.to_owned(), key, value: value? })
        });
        Source { file: self.config, flags: flags.collect(), ..Source::from_env() }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    match args.action {
        Action::Check(source_args) => {
            let source = source_args.source();
            let config = config::load_with_files(&source).map_err(Failure::new)?;
            for sentence in config.unused() {
                warn(&sentence.to_string());
            }
            print_counts(&source, &config, printer)
        }
        Action::Show(source_args) => {
            let config = config::load(&source_args.source()).map_err(Failure::new)?;
            if !printer.is_json() {
                return printer.line(&config.show());
            }
            printer.json_list("keys", keys(&config))
        }
        Action::Example => {
            let example = config::example_toml();
            let document = json!({ "toml": example });
            printer.document(&document.to_string(), || Ok(example))
        }
    }
}

/// Prints the number of values from each source, so that a forgotten file or variable is noticed.
fn print_counts(source: &Source, config: &Config, printer: Printer) -> Outcome {
    let count = |is_of: fn(&Origin) -> bool| {
        config.effective().filter(|(_, effective)| is_of(&effective.origin)).count()
    };
    let from_file = count(|origin| matches!(origin, Origin::File { .. }));
    let from_environment = count(|origin| matches!(origin, Origin::Variable(_)));
    let from_flags = count(|origin| matches!(origin, Origin::Flag(_)));
    let defaults = count(|origin| *origin == Origin::Default);
    let document = json!({
        "is_right": true,
        "file": source.file.as_ref().map(|path| path.to_string_lossy()),
        "from_file": from_file,
        "from_environment": from_environment,
        "from_flags": from_flags,
        "defaults": defaults,
    });
    printer.document(&document.to_string(), || {
        let file = match &source.file {
            Some(path) => format!("{from_file} from {}", path.display()),
            None => "no file was named (--config)".to_owned(),
        };
        Ok(format!(
            "the configuration is valid: {file}, {from_environment} from the environment, \
             {from_flags} from flags, {defaults} defaults"
        ))
    })
}

/// Returns every key with its value and its origin, as JSON.
fn keys(config: &Config) -> impl Iterator<Item = Value> {
    config.effective().map(|(key, effective)| {
        let origin = match &effective.origin {
            Origin::Default => json!({ "kind": "default" }),
            Origin::File { path, line } => {
                json!({ "kind": "file", "file": path.to_string_lossy(), "line": line })
            }
            Origin::Variable(name) => json!({ "kind": "environment", "variable": name }),
            Origin::Flag(name) => json!({ "kind": "flag", "flag": name }),
        };
        json!({ "key": key.name, "value": effective.value, "origin": origin })
    })
}
