//! `duly config`: checks and shows what `serve` would be configured with, and prints the file that
//! has everything in it.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use clap::Subcommand;
use duly_server::config::{self, Config, Flag, Origin, Source, key};
use serde_json::{Value, json};

use crate::{
    Outcome,
    failure::Failure,
    output::{
        Printer,
        terminal::{Screen, Tone},
    },
};

/// Check or show the configuration of a server
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Say whether a server would take a configuration, or all that is wrong with it
    ///
    /// Reads the file and the variables DULY_SECTION__KEY of the environment, takes the flags of
    /// `duly serve`, and looks at the files that the configuration names. Nothing is started or
    /// changed. Exit code 1 if anything is wrong.
    Check(Places),
    /// Show every key with its value and where it comes from
    Show(Places),
    /// Print a file with every key, its meaning, bounds and default, all commented out
    Example,
}

/// The places that a configuration comes from, besides the environment.
#[derive(clap::Args)]
struct Places {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As of `duly serve`
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// As of `duly serve`
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// As of `duly serve`
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

impl Places {
    fn source(self) -> Source {
        let data = self.data.map(|value| ("--data", key!(store.data), value));
        let listen = self.listen.map(|value| ("--listen", key!(server.listen), value));
        let store = self.store.map(|value| ("--store", key!(store.url), value));
        let flags = [data, store, listen].into_iter().flatten();
        let flags = flags.map(|(flag, key, value)| Flag { flag: flag.to_owned(), key, value });
        Source { file: self.config, flags: flags.collect(), ..Source::from_env() }
    }
}

/// Runs it.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    match args.action {
        Action::Check(places) => {
            let source = places.source();
            let config = config::load_with_files(&source).map_err(Failure::new)?;
            for sentence in config.unused() {
                let label = Screen::stderr().paint(Tone::Warning, "warning:");
                // There is nowhere else to say it.
                writeln!(io::stderr(), "{label} {sentence}").ok();
            }
            let counts = Counts::of(&source, &config);
            printer.document(&counts.document().to_string(), || Ok(counts.verdict()))
        }
        Action::Show(places) => {
            let config = config::load(&places.source()).map_err(Failure::new)?;
            if !printer.is_json() {
                return printer.line(&config.show());
            }
            let keys: Vec<_> = keys(&config).map(|key| key.to_string()).collect();
            printer.json_list("keys", keys.iter().map(String::as_str))
        }
        Action::Example => {
            let example = config::example_toml();
            let document = json!({ "toml": example });
            printer.document(&document.to_string(), || Ok(example))
        }
    }
}

/// How much of a right configuration was said by whom: what was forgotten is seen there.
struct Counts {
    file: Option<PathBuf>,
    from_file: usize,
    from_environment: usize,
    from_flags: usize,
    defaults: usize,
}

impl Counts {
    fn of(source: &Source, config: &Config) -> Self {
        let count = |is_of: fn(&Origin) -> bool| {
            config.effective().filter(|(_, effective)| is_of(&effective.origin)).count()
        };
        Self {
            file: source.file.clone(),
            from_file: count(|origin| matches!(origin, Origin::File { .. })),
            from_environment: count(|origin| matches!(origin, Origin::Variable(_))),
            from_flags: count(|origin| matches!(origin, Origin::Flag(_))),
            defaults: count(|origin| *origin == Origin::Default),
        }
    }

    /// For people.
    fn verdict(&self) -> String {
        let Self { file, from_file, from_environment, from_flags, defaults } = self;
        let file = match file {
            Some(path) => format!("{from_file} from {}", path.display()),
            None => "no file was named (--config)".to_owned(),
        };
        format!(
            "the configuration is right: {file}, {from_environment} from the environment, \
             {from_flags} from flags, {defaults} defaults"
        )
    }

    /// For programs.
    fn document(&self) -> Value {
        json!({
            "is_right": true,
            "file": self.file.as_ref().map(|path| path.to_string_lossy()),
            "from_file": self.from_file,
            "from_environment": self.from_environment,
            "from_flags": self.from_flags,
            "defaults": self.defaults,
        })
    }
}

/// Every key with its value and where it comes from, for programs.
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
