//! `duly config`: checks and shows what `serve` would be configured with, and prints the file that
//! has everything in it.

use std::path::PathBuf;

use clap::Subcommand;
use duly_server::config::{self, Config, Flag, Origin, Source};

use crate::{Outcome, failure::Failure, output::Printer};

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
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
}

impl Places {
    fn source(self) -> Source {
        let data = self.data.map(|value| ("--data", "store.data", value));
        let listen = self.listen.map(|value| ("--listen", "server.listen", value));
        let flags = [data, listen].into_iter().flatten();
        let flags = flags.map(|(flag, key, value)| Flag { flag: flag.to_owned(), key, value });
        Source { file: self.config, flags: flags.collect(), ..Source::from_env() }
    }
}

/// Runs it.
pub(crate) fn run(args: Args, printer: Printer) -> Outcome {
    printer.people_only("config")?;
    match args.action {
        Action::Check(places) => {
            let source = places.source();
            let config = config::load_with_files(&source).map_err(Failure::new)?;
            printer.line(&verdict(&source, &config))
        }
        Action::Show(places) => {
            printer.line(&config::load(&places.source()).map_err(Failure::new)?.show())
        }
        Action::Example => printer.line(&config::example_toml()),
    }
}

/// That all is right, and how much of it was said by whom: what was forgotten is seen there.
fn verdict(source: &Source, config: &Config) -> String {
    let count = |is_of: fn(&Origin) -> bool| {
        config.effective().filter(|(_, effective)| is_of(&effective.origin)).count()
    };
    let file = match &source.file {
        Some(path) => {
            let keys = count(|origin| matches!(origin, Origin::File { .. }));
            format!("{keys} from {}", path.display())
        }
        None => "no file was named (--config)".to_owned(),
    };
    format!(
        "the configuration is right: {file}, {} from the environment, {} from flags, {} defaults",
        count(|origin| matches!(origin, Origin::Variable(_))),
        count(|origin| matches!(origin, Origin::Flag(_))),
        count(|origin| *origin == Origin::Default),
    )
}
