//! `duly context`: servers that commands call by a name.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use duly_core::NamespaceName;
use reqwest::Url;
use serde_json::json;

use crate::{
    Outcome,
    args::{connection::ConnectionOptions, values},
    context::{Context, Contexts},
    failure::Failure,
    http,
    output::{Printer, Table, Tone, note, table},
};

/// Name servers, with the key, the authorities and the namespace that belong to each
///
/// Commands use the context of --context, else of the variable DULY_CONTEXT, else the one that `duly context
/// use` has chosen. With --server, or with the variable DULY_SERVER and no --context, they use none.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create or replace a context with the --server, --key-file, --cert-file and --ca-file of this command
    ///
    /// It is used with --context NAME, or everywhere after `duly context use NAME`.
    Put {
        /// The name
        #[arg(value_parser = context_name)]
        name: String,
        /// The namespace that `.` stands for in the place of a namespace
        #[arg(long, value_name = "NAMESPACE", value_parser = values::namespace)]
        namespace: Option<NamespaceName>,
    },
    /// List the contexts
    #[command(visible_alias = "ls")]
    List,
    /// Show a context
    Get {
        /// The name
        #[arg(value_parser = context_name)]
        name: String,
    },
    /// Use a context from now on, where no other is named
    Use {
        /// The name
        #[arg(value_parser = context_name)]
        name: String,
    },
    /// Remove a context; the files that it names stay
    #[command(visible_alias = "rm")]
    Delete {
        /// The name
        #[arg(value_parser = context_name)]
        name: String,
    },
}

/// Runs the command.
pub(crate) fn run(args: Args, options: &ConnectionOptions, printer: Printer) -> Outcome {
    let mut contexts = Contexts::read()?;
    match args.action {
        Action::Put { name, namespace } => {
            let Some(server) = &options.server else {
                return Err(Failure::usage(
                    "a context needs the address of a server: --server URL",
                ));
            };
            let context = Context {
                server: server.url()?.to_string(),
                key_file: absolute(options.key_file.as_deref())?,
                cert_file: absolute(options.cert_file.as_deref())?,
                ca_file: absolute(options.ca_file.as_deref())?,
                namespace: namespace.map(|name| name.to_string()),
            };
            contexts.contexts.insert(name.clone(), context);
            let how = if contexts.current.as_ref() == Some(&name) {
                "it is used wherever no other server is named".to_owned()
            } else {
                format!("`duly context use {name}` uses it from then on, --context {name} once")
            };
            let text = format!("context {name} is saved: {how}\n");
            contexts.write()?;
            note_of_variable();
            printer.document(&json!({ "saved": name }).to_string(), || Ok(text))
        }
        Action::List => {
            let document = json!(contexts).to_string();
            printer.document(&document, || {
                let mut table = Table::new(&["used", "name", "server", "key file", "namespace"]);
                for (name, context) in &contexts.contexts {
                    let mark = if contexts.current.as_ref() == Some(name) { "*" } else { "" };
                    let cells = [
                        mark.to_owned(),
                        name.clone(),
                        shown_server(&context.server),
                        shown(context.key_file.as_ref()),
                        context.namespace.clone().unwrap_or_default(),
                    ];
                    table.row(Tone::Plain, cells);
                }
                Ok(table.text(printer.screen))
            })
        }
        Action::Get { name } => {
            let context = contexts.get(&name)?;
            printer.document(&json!(context).to_string(), || {
                let pairs = [
                    ("name", name),
                    ("server", shown_server(&context.server)),
                    ("key file", shown(context.key_file.as_ref())),
                    ("certificate", shown(context.cert_file.as_ref())),
                    ("authorities", shown(context.ca_file.as_ref())),
                    ("namespace", context.namespace.clone().unwrap_or_default()),
                ];
                let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
                let pairs = pairs.map(|(name, value)| (name.to_owned(), value));
                Ok(table::of_pairs(printer.screen, pairs))
            })
        }
        Action::Use { name } => {
            contexts.get(&name)?;
            contexts.current = Some(name.clone());
            contexts.write()?;
            note_of_variable();
            printer.document(&json!({ "used": name }).to_string(), || {
                Ok(format!("context {name} is used from now on\n"))
            })
        }
        Action::Delete { name } => {
            contexts.get(&name)?;
            contexts.contexts.remove(&name);
            let was_used = contexts.current.as_ref() == Some(&name);
            contexts.current = contexts.current.filter(|current| *current != name);
            contexts.write()?;
            if was_used {
                note("no context is used now: `duly context use` chooses one");
            }
            printer.document(&json!({ "deleted": name }).to_string(), || {
                Ok(format!("context {name} is deleted\n"))
            })
        }
    }
}

/// Notes that a variable keeps commands from using a context.
fn note_of_variable() {
    if std::env::var_os("DULY_SERVER").is_some_and(|value| !value.is_empty()) {
        note("the variable DULY_SERVER is set: commands use a context only with --context");
    }
}

/// Parses the name of a context.
fn context_name(text: &str) -> Result<String, String> {
    let is_name = (1..=100).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("it must be 1 to 100 of A-Z a-z 0-9 - _ .".to_owned())
    }
}

/// Returns the address of a server without a password, which someone may have written into the file.
fn shown_server(server: &str) -> String {
    Url::parse(server).map_or_else(|_| server.to_owned(), |url| http::shown(&url))
}

/// Returns a path as text; empty for none.
fn shown(path: Option<&PathBuf>) -> String {
    path.map(|path| path.display().to_string()).unwrap_or_default()
}

/// Returns the absolute path of a file, which must exist.
fn absolute(path: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let found = std::fs::canonicalize(path);
    found.map(Some).map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))
}
