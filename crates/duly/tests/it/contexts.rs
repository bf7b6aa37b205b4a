//! Contexts: several servers with a name, a key and a namespace each.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use tempfile::TempDir;

use crate::harness::{Process, Ran, Server, duly, duly_without_umask, run, text};

/// Commands with a file of contexts of their own.
struct Contexts(TempDir);

impl Contexts {
    fn new() -> Self {
        Self(TempDir::new().expect("a temporary directory"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = duly();
        command.args(arguments).env("DULY_CONTEXTS", self.0.path().join("duly/contexts.toml"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.command(arguments).output().expect("duly starts").into()
    }

    fn path(&self, name: &str) -> String {
        text(&self.0.path().join(name)).to_owned()
    }
}

/// Starts a server with an administrator, whose key is kept in the file `ops`.
fn keyed(at: &Contexts) -> (Process, String) {
    let (data, ops) = (at.path("data"), at.path("ops"));
    let key = run(&["key", "create", "ops", "--admin", "--data", &data]).ok();
    fs::write(&ops, key).expect("written");
    let mut process = Process::start(&["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    let (url, _) = process.address();
    (process, url)
}

#[test]
fn a_context_has_a_server_a_key_and_a_namespace() {
    let at = Contexts::new();
    let (_process, url) = keyed(&at);
    let open = Server::start();
    let ops = at.path("ops");
    let put =
        ["context", "put", "prod", "--server", &url, "--key-file", &ops, "--namespace", "orders"];
    let saved = at.run(&put).ok();
    assert!(
        saved.contains("`duly context use prod`") && saved.contains("--context prod"),
        "{saved}"
    );
    at.run(&["context", "put", "dev", "--server", &open.url, "--namespace", "tests"]).ok();
    let message = at.run(&["schedule", ".", "x", "--in", "1h"]).refused(2);
    assert!(message.contains("no context with one is used"), "none is used by itself: {message}");
    at.run(&["context", "use", "prod"]).ok();
    assert!(at.run(&put).ok().contains("wherever no other server is named"));
    at.run(&["schedule", ".", "x", "--in", "1h"]).ok();
    assert_eq!(at.run(&["get", "orders", "x", "--output", "json"]).json()["id"], "x");
    at.run(&["schedule", ".", "y", "--in", "1h", "--context", "dev"]).ok();
    assert_eq!(open.json(&["get", "tests", "y"])["id"], "y");
    at.run(&["context", "use", "dev"]).ok();
    at.run(&["get", ".", "y"]).ok();
    let of_variable = at.command(&["get", ".", "x"]).env("DULY_CONTEXT", "prod").output();
    Ran::from(of_variable.expect("duly starts")).ok();
    let listed = at.run(&["context", "ls"]).ok();
    assert!(
        listed.contains("prod") && listed.contains("orders") && !listed.contains("duly_"),
        "{listed}"
    );
    at.run(&["context", "rm", "prod"]).ok();
    let message = at.run(&["get", ".", "x", "--context", "prod"]).refused(2);
    assert!(message.contains("no context \"prod\"") && message.contains("dev"), "{message}");
}

#[test]
fn the_key_of_a_context_goes_to_its_server_alone() {
    let at = Contexts::new();
    let (_process, url) = keyed(&at);
    let ops = at.path("ops");
    at.run(&["context", "put", "prod", "--server", &url, "--key-file", &ops]).ok();
    at.run(&["context", "use", "prod"]).ok();
    at.run(&["whoami"]).ok();
    // The same server by its address: without the key of the context.
    for command in [at.command(&["whoami", "--server", &url]), {
        let mut command = at.command(&["whoami"]);
        command.env("DULY_SERVER", &url);
        command
    }] {
        let mut command = command;
        let ran = Ran::from(command.output().expect("duly starts"));
        assert!(ran.refused(1).contains("unauthenticated"));
    }
    // A key in a variable does not go to the server of a context.
    let key = fs::read_to_string(&ops).expect("read");
    at.run(&["context", "put", "bare", "--server", &url]).ok();
    let mut command = at.command(&["whoami", "--context", "bare"]);
    let ran = Ran::from(command.env("DULY_API_KEY", key.trim()).output().expect("duly starts"));
    assert!(ran.refused(1).contains("unauthenticated"));
    let message = at.run(&["whoami", "--context", "bare", "--server", &url]).refused(2);
    assert!(message.contains("--context"), "{message}");
}

#[test]
fn errors_and_results_of_destroying_name_server_and_context() {
    let (at, server) = (Contexts::new(), Server::start());
    let address = server.url.clone();
    let url = address.as_str();
    at.run(&["context", "put", "prod", "--server", url]).ok();
    let message = at.run(&["get", "orders", "x", "--context", "prod"]).refused(1);
    assert!(message.contains(&format!("\n  server: {url} (context prod)\n")), "{message}");
    let message = server.run(&["get", "orders", "x"]).refused(1);
    assert!(message.ends_with(&format!("\n  server: {url}\n")), "{message}");
    for (args, result) in [
        (&["cancel", "orders", "--all"][..], "1 timer cancelled"),
        (&["dead", "overdue", "orders"], "0 dead letters created"),
        (&["dead", "purge", "orders", "--all"], "0 purged"),
        (&["namespace", "delete", "orders"], "orders  deleted"),
    ] {
        if args[0] == "cancel" {
            server.run(&["schedule", "orders", "x", "--in", "1h"]).ok();
        }
        let done = at.run(&[args, &["--context", "prod"]].concat()).ok();
        assert!(done.contains(result), "{done}");
        assert!(done.trim_end().ends_with(&format!("at {url} (context prod)")), "{args:?}: {done}");
    }
    // A server that is not there is named once.
    drop(server);
    let message = at.run(&["get", "orders", "x", "--context", "prod"]).refused(1);
    assert_eq!(message.matches(url).count(), 1, "{message}");
    assert!(message.contains("context: prod"), "{message}");
}

#[test]
fn mistakes_name_their_remedy() {
    let at = Contexts::new();
    let message = at.run(&["context", "put", "prod"]).refused(2);
    assert!(message.contains("--server URL"), "{message}");
    let message = at.run(&["get", ".", "x"]).refused(2);
    assert!(message.contains("duly context put"), "{message}");
    let put = ["context", "put", "prod", "--server", "http://127.0.0.1:1", "--key-file", "/none"];
    assert!(at.run(&put).refused(2).contains("/none"));
    fs::create_dir_all(at.0.path().join("duly")).expect("made");
    fs::write(at.path("duly/contexts.toml"), "contexts = 1").expect("written");
    let message = at.run(&["context", "ls"]).refused(2);
    assert!(message.contains("contexts.toml"), "{message}");
}

#[test]
fn watch_repeats_only_commands_that_read() {
    let server = Server::start();
    server.run(&["schedule", "orders", "x", "--in", "1h"]).ok();
    let mut command = server.command(&["get", "orders", "x", "--watch=100ms", "--output", "json"]);
    let mut process = Process::of({
        command.args::<[&str; 0], _>([]);
        command
    });
    for _ in 0..3 {
        while !process.line().contains("\"id\"") {}
    }
    let message = server.run(&["cancel", "orders", "x", "--watch"]).refused(2);
    assert!(message.contains("only reads"), "{message}");
    assert!(server.run(&["health", "--watch=1ms"]).refused(2).contains("100ms"));
}

#[test]
fn only_its_user_can_read_the_file_of_contexts() {
    let at = Contexts::new();
    for _ in 0..2 {
        let mut command = duly_without_umask();
        command.env("DULY_CONTEXTS", at.0.path().join("duly/contexts.toml"));
        command.args(["context", "put", "dev", "--server", "http://127.0.0.1:1"]);
        Ran::from(command.output().expect("duly starts")).ok();
        let mode = |name: &str| {
            fs::metadata(at.path(name)).expect("it is there").permissions().mode() & 0o777
        };
        assert_eq!((mode("duly"), mode("duly/contexts.toml")), (0o700, 0o600));
    }
}

#[test]
fn a_file_of_contexts_that_every_user_can_replace_is_refused() {
    let at = Contexts::new();
    let run = |args: &[&str]| {
        let mut command = duly_without_umask();
        command.env("DULY_CONTEXTS", at.0.path().join("duly/contexts.toml"));
        Ran::from(command.args(args).output().expect("duly starts"))
    };
    let put = ["context", "put", "dev", "--server", "http://127.0.0.1:1"];
    run(&put).ok();
    let chmod = |name: &str, mode| {
        fs::set_permissions(at.path(name), fs::Permissions::from_mode(mode)).expect("ours");
    };
    for (name, mode, usual) in [("duly", 0o777, 0o700), ("duly/contexts.toml", 0o666, 0o600)] {
        chmod(name, mode);
        for args in [&put[..], &["context", "list"], &["--context", "dev", "health"]] {
            let refused = run(args);
            assert_ne!(refused.code, Some(0), "{args:?}");
            assert!(refused.stderr.contains("chmod o-w"), "{args:?}: {}", refused.stderr);
        }
        chmod(name, usual);
    }
    // Others may add files to a folder with the sticky bit, and replace none.
    chmod("duly", 0o1777);
    run(&put).ok();
}
