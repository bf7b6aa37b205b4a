//! Keys of callers: from the first administrator to a restore, with the commands of an operator.

use std::{fs, path::Path};

use duly_client::{Client, duly_api::v1::WhoamiResponse};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::harness::{Process, Ran, duly, run, text};

struct Deployment {
    directory: TempDir,
    server: Option<(Process, String)>,
}

impl Deployment {
    fn new() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory"), server: None }
    }

    fn path(&self, name: &str) -> String {
        text(&self.directory.path().join(name)).to_owned()
    }

    /// Creates a key with the command, and keeps it in a file of this name.
    fn keep(&self, name: &str, created: Ran) -> String {
        let path = self.path(name);
        fs::write(&path, created.ok()).expect("written");
        path
    }

    fn start(&mut self, data: &str, settings: &[(&str, &str)]) -> String {
        let mut command = duly();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", &self.path(data)]);
        command.envs(settings.iter().copied());
        let mut process = Process::of(command);
        let (url, _) = process.address();
        self.server = Some((process, url.clone()));
        url
    }

    fn stop(&mut self) {
        let (mut process, _) = self.server.take().expect("a running server");
        process.signal(Signal::TERM);
        assert_eq!(process.ended().0.code(), Some(0));
    }

    /// Runs a command at the server with the key in a file.
    fn with(&self, key: &str, arguments: &[&str]) -> Ran {
        let (_, url) = self.server.as_ref().expect("a running server");
        run(&[arguments, &["--server", url, "--key-file", key]].concat())
    }
}

/// Returns the caller with this key, as the server knows it over gRPC.
fn whoami(url: &str, key: &str) -> WhoamiResponse {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = Client::builder(url).token(key.trim()).build().expect("a client");
        client.whoami().await.expect("a caller")
    })
}

#[test]
fn from_the_first_administrator_to_a_revoked_key() {
    let mut at = Deployment::new();
    let data = at.path("data");
    // The data directory does not exist yet.
    let ops = at.keep("ops", run(&["key", "create", "ops", "--admin", "--data", &data]));
    let url = at.start("data", &[]);
    let message = run(&["get", "orders", "x", "--server", &url]).refused(1);
    assert!(message.contains("unauthenticated") && message.contains("--key-file"), "{message}");
    let create =
        ["key", "create", "shop", "--allow", "producer,namespace", "--namespace", "orders*"];
    let shop = at.keep("shop", at.with(&ops, &create));
    at.with(&shop, &["schedule", "orders", "x", "--in", "1h"]).ok();
    let message = at.with(&shop, &["schedule", "billing", "x", "--in", "1h"]).refused(1);
    assert!(message.contains("billing") && message.contains("orders*"), "{message}");
    let message = at.with(&shop, &["namespace", "pause", "orders"]).refused(1);
    assert!(message.contains("\"operate\""), "{message}");
    let who = at.with(&shop, &["whoami", "--output", "json"]).json();
    let id = who["key"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(who["key"]["name"], "shop");
    let by_grpc = whoami(&url, &fs::read_to_string(&shop).expect("a key")).key.expect("a key");
    assert_eq!((by_grpc.id, by_grpc.name), (id.clone(), "shop".into()));
    assert_eq!(json!(by_grpc.actions), who["key"]["actions"]);
    assert_eq!(json!(by_grpc.namespaces), who["key"]["namespaces"]);
    // Keys, and that they are required, survive a restart.
    at.stop();
    at.start("data", &[]);
    at.with(&shop, &["get", "orders", "x"]).ok();
    let newer = at.keep("newer", at.with(&ops, &["key", "rotate", &id, "--keep-old", "1h"]));
    at.with(&shop, &["whoami"]).ok();
    at.with(&newer, &["whoami"]).ok();
    let listed = at.with(&ops, &["key", "ls"]).ok();
    assert!(listed.contains("shop") && !listed.contains("duly_"), "{listed}");
    at.with(&ops, &["key", "delete", &id]).ok();
    for key in [&shop, &newer] {
        assert!(at.with(key, &["whoami"]).refused(1).contains("unauthenticated"));
    }
    let message = run(&["key", "create", "x", "--admin", "--data", &data]).refused(1);
    assert!(message.contains("no running server"), "{message}");
}

#[test]
fn the_audit_log_names_who_did_what() {
    let mut at = Deployment::new();
    let (data, log) = (at.path("data"), at.path("audit.jsonl"));
    let ops = at.keep("ops", run(&["key", "create", "ops", "--admin", "--data", &data]));
    at.start("data", &[("DULY_AUDIT__FILE", &log)]);
    at.with(&ops, &["namespace", "put", "orders"]).ok();
    at.with(&ops, &["schedule", "orders", "x", "--in", "1h"]).ok();
    let shown = || at.with(&ops, &["audit"]).ok();
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while !shown().contains("orders") {
        assert!(std::time::Instant::now() < deadline, "{}", shown());
    }
    let shown = shown();
    assert!(shown.contains("put_namespace") && shown.contains("127.0.0.1"), "{shown}");
    assert!(!shown.contains("schedule_timer"), "only what administrators do: {shown}");
    at.stop();
    let lines = fs::read_to_string(&log).expect("the log");
    assert_eq!(lines.lines().count(), 2, "{lines}");
    // What was done survives a restart.
    at.start("data", &[]);
    assert_eq!(at.with(&ops, &["audit"]).ok(), shown);
    at.stop();
    let mut command = duly();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    command.env("DULY_AUDIT__FILE", at.path("none/audit.jsonl"));
    let message = Ran::from(command.output().expect("duly starts")).refused(1);
    assert!(message.contains("audit.file") && message.contains("none/audit.jsonl"), "{message}");
}

#[test]
fn the_root_key_makes_the_first_administrator() {
    let mut at = Deployment::new();
    let root = at.keep("root", run(&["key", "generate"]));
    let file = fs::read_to_string(&root).expect("read");
    fs::write(&root, format!("{}x", file.trim_end())).expect("written");
    let mut command = duly();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &at.path("data")]);
    command.env("DULY_AUTH__MODE", "keys").env("DULY_AUTH__ROOT_KEY_FILE", &root);
    let message = Ran::from(command.output().expect("duly starts")).refused(1);
    assert!(message.contains("auth.root_key_file") && !message.contains(file.trim()), "{message}");
    fs::write(&root, file).expect("written");
    let settings = [("DULY_AUTH__MODE", "keys"), ("DULY_AUTH__ROOT_KEY_FILE", root.as_str())];
    let url = at.start("data", &settings);
    let message = run(&["whoami", "--server", &url]).refused(1);
    assert!(message.contains("unauthenticated"), "{message}");
    let ops = at.keep("ops", at.with(&root, &["key", "create", "ops", "--admin"]));
    assert!(at.with(&root, &["whoami"]).refused(1).contains("unauthenticated"));
    at.with(&ops, &["whoami"]).ok();
}

#[test]
fn restored_keys_need_a_confirmation() {
    let mut at = Deployment::new();
    let data = at.path("data");
    let ops = at.keep("ops", run(&["key", "create", "ops", "--admin", "--data", &data]));
    let backups = at.path("backups");
    fs::create_dir(&backups).expect("made");
    at.start("data", &[("DULY_STORE__BACKUP_DIR", &backups)]);
    let backup = text(&Path::new(&backups).join("one")).to_owned();
    at.with(&ops, &["store", "backup", &backup]).ok();
    at.stop();
    let restored = at.path("restored");
    run(&["store", "restore", "--from", &backup, "--data", &restored]).ok();
    at.start("restored", &[]);
    assert!(at.with(&ops, &["whoami"]).refused(1).contains("unauthenticated"));
    at.stop();
    run(&["key", "confirm", "--data", &restored]).ok();
    at.start("restored", &[]);
    at.with(&ops, &["whoami"]).ok();
}

#[test]
fn a_certificate_and_keys_open_other_addresses() {
    let at = Deployment::new();
    let (certificate, key) = (at.path("server.pem"), at.path("server.key"));
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    fs::write(&certificate, made.cert.pem()).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let data = at.path("data");
    let ops = at.keep("ops", run(&["key", "create", "ops", "--admin", "--data", &data]));
    let server = |mode: &str| {
        let mut command = duly();
        command.args(["serve", "--listen", "0.0.0.0:0", "--data", &data]);
        command.env("DULY_TLS__CERTIFICATE_FILE", &certificate).env("DULY_TLS__KEY_FILE", &key);
        command.env("DULY_AUTH__MODE", mode);
        command
    };
    let message = Ran::from(server("").output().expect("duly starts")).refused(1);
    assert!(message.contains("auth.mode") && message.contains("auth.external"), "{message}");
    let mut process = Process::of(server("keys"));
    let (url, _) = process.address();
    let url = url.replace("0.0.0.0", "127.0.0.1");
    let call = |key: &[&str]| {
        run(&[&["whoami", "--server", &url, "--ca-file", &certificate], key].concat())
    };
    assert!(call(&[]).refused(1).contains("unauthenticated"));
    call(&["--key-file", &ops]).ok();
}
