//! Tips for habits of other programs: arguments and commands that Duly has under another name.
//!
//! clap itself finds typing errors. This table has words that are no typing errors: `serve --port`, `duly rm`.

use std::{env, ffi::OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Arguments of other programs: the commands that they are typed with, the argument, and Duly's own. No command stands
/// for every command.
pub(crate) const ARGUMENTS: [(&[&str], &[&str], &str); 15] = [
    (&["serve", "receive"], &["--port", "-p"], "--listen 127.0.0.1:PORT"),
    (&["serve", "receive"], &["--host", "--bind", "--address", "--addr"], "--listen ADDRESS:PORT"),
    (
        &["serve"],
        &["--log-level", "--loglevel", "--log", "--verbose", "-v", "--debug"],
        "the variable DULY_LOG__LEVEL=debug, or level in the section [log] of the file of --config",
    ),
    (&["serve"], &["--data-dir", "--dir", "--db", "-d"], "--data DIR"),
    (&["serve"], &["--redis", "--redis-url", "--database-url"], "--store redis://HOST:PORT"),
    (&["schedule", "reschedule"], &["--delay", "--after", "--ttl"], "--in DURATION"),
    (&["schedule", "reschedule"], &["--due-at", "--due", "--time", "--when"], "--at TIME"),
    (
        &["schedule", "reschedule"],
        &["--body", "--data", "--message", "--json", "-d"],
        "--payload JSON, --payload-text or --payload-file",
    ),
    (
        &["schedule", "reschedule", "namespace"],
        &["--webhook", "--target", "--destination"],
        "--url URL",
    ),
    (
        &["schedule", "get", "cancel", "fire", "reschedule", "forget"],
        &["--id", "--name"],
        "the id itself, behind the namespace: duly get NAMESPACE ID",
    ),
    (
        &[],
        &["--namespace", "-n", "--ns"],
        "the namespace itself, in front of the id: duly get NAMESPACE ID",
    ),
    (&[], &["--host", "--url", "--endpoint", "--address", "-s"], "--server URL"),
    (&[], &["--key", "--api-key", "--token", "--password"], "--key-file FILE"),
    (&[], &["--json", "--format", "-o"], "--output json"),
    (&[], &["--verbose", "-v", "--debug", "--log-level"], "--output json, which has every field"),
];

/// Commands of other programs: the command that they are typed below, the word, and Duly's own.
pub(crate) const COMMANDS: [(&str, &[&str], &str); 24] = [
    ("", &["rm", "remove", "delete", "del", "unschedule"], "cancel NAMESPACE ID"),
    ("", &["add", "create", "new", "set", "put", "enqueue"], "schedule NAMESPACE --in 10s"),
    ("", &["update", "edit", "move", "change"], "reschedule NAMESPACE ID"),
    ("", &["show", "describe", "inspect", "view"], "get NAMESPACE ID"),
    ("", &["ps", "search", "find"], "list NAMESPACE"),
    ("", &["trigger"], "fire NAMESPACE ID"),
    ("", &["run", "start", "server", "up", "daemon"], "serve"),
    ("", &["ack", "nack", "complete", "extend"], "settle NAMESPACE TOKEN --ack"),
    ("", &["poll", "consume", "pop", "dequeue"], "lease NAMESPACE"),
    ("", &["status", "ping", "info"], "health"),
    ("", &["login", "auth", "use"], "context use NAME"),
    ("", &["dlq", "failed"], "dead list NAMESPACE"),
    ("", &["stats"], "namespace stats NAMESPACE"),
    ("", &["pause"], "namespace pause NAMESPACE"),
    ("", &["backup"], "store backup"),
    ("namespace", &["create", "add", "new"], "namespace put NAMESPACE"),
    ("namespace", &["update", "edit", "change"], "namespace set NAMESPACE"),
    ("namespace", &["show", "describe", "info"], "namespace get NAMESPACE"),
    ("dead", &["retry", "replay", "requeue"], "dead redrive NAMESPACE"),
    ("dead", &["delete", "remove", "rm", "clear"], "dead purge NAMESPACE"),
    ("key", &["add", "new"], "key create NAME"),
    ("key", &["revoke", "remove"], "key disable ID"),
    ("context", &["add", "create", "set", "new"], "context put NAME --server URL"),
    ("context", &["switch", "select"], "context use NAME"),
];

/// Adds the tip for a habit to the error of a command line.
pub(crate) fn with_tip(mut error: clap::Error) -> clap::Error {
    let typed = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => typed(ContextKind::InvalidArg)
            .and_then(|argument| of_argument(&argument, env::args_os().skip(1))),
        ErrorKind::InvalidSubcommand => typed(ContextKind::InvalidSubcommand)
            .and_then(|name| of_command(&name, env::args_os().skip(1))),
        _ => None,
    };
    if let Some(tip) = tip {
        // The tips of clap are words that look alike.
        for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
            error.remove(kind);
        }
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
    error
}

/// Returns the error without the parts of its value that may be a secret, as in a URL.
pub(crate) fn without_secrets(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        if let Some(ContextValue::String(typed)) = error.get(kind) {
            let shown = duly_server::config::without_secrets(typed);
            error.insert(kind, ContextValue::String(shown));
        }
    }
    error
}

/// Returns the tip for an argument of another program.
pub(crate) fn of_argument(
    argument: &str,
    line: impl IntoIterator<Item = OsString>,
) -> Option<String> {
    let name = argument.split('=').next().unwrap_or(argument);
    let line: Vec<_> = line.into_iter().collect();
    let fits = |commands: &[&str]| {
        commands.is_empty()
            || commands.iter().any(|command| line.iter().any(|word| word == command))
    };
    let mut found =
        ARGUMENTS.iter().filter(|(commands, names, _)| names.contains(&name) && fits(commands));
    found.next().map(|(.., own)| format!("here it is {own}"))
}

/// Returns the tip for a command of another program.
pub(crate) fn of_command(name: &str, line: impl IntoIterator<Item = OsString>) -> Option<String> {
    let named = |word: OsString| if word == "ns" { OsString::from("namespace") } else { word };
    let before: Vec<_> = line.into_iter().take_while(|word| word != name).map(named).collect();
    let mut parents = COMMANDS.iter().map(|(parent, ..)| *parent);
    let parent = parents.find(|parent| before.iter().any(|word| word == parent)).unwrap_or("");
    let found = COMMANDS.iter().find(|(of, names, _)| *of == parent && names.contains(&name));
    found.map(|(.., own)| format!("here it is `duly {own}`"))
}
