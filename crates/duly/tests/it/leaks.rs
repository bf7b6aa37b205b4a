//! Secrets of callers: searched for in everything that a server and its commands leave behind.

use std::{fs, path::Path};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{Process, Ran, duly, run, text};

/// Returns the files below a directory, with their content.
fn files(directory: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push((text(&path).to_owned(), fs::read(&path).expect("a file")));
        }
    }
}

/// Returns the part of a key that must not be anywhere.
fn secret(key: &str) -> String {
    let rest = key.trim().strip_prefix("duly_").and_then(|rest| rest.split_once('_'));
    let (_id, rest) = rest.expect("an id");
    // A secret may contain the separator.
    let (secret, _checksum) = rest.rsplit_once('_').expect("a checksum");
    assert!(secret.len() > 40, "{} characters", secret.len());
    secret.to_owned()
}

#[test]
fn no_secret_of_a_caller_is_left_anywhere() {
    let directory = TempDir::new().expect("a temporary directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    let keys = TempDir::new().expect("a temporary directory");
    let key_file = |name: &str| text(&keys.path().join(name)).to_owned();
    let keep = |name: &str, key: &str| fs::write(key_file(name), key).expect("written");
    let admin = run(&["key", "create", "ops", "--admin", "--data", &path("data")]).ok();
    keep("ops", &admin);
    fs::create_dir(path("backups")).expect("made");
    let mut command = duly();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &path("data")]);
    command.env("DULY_LOG__LEVEL", "trace").env("DULY_AUDIT__FILE", path("audit.jsonl"));
    command.env("DULY_AUDIT__LEVEL", "all").env("DULY_STORE__BACKUP_DIR", path("backups"));
    let mut process = Process::of(command);
    let (url, opening) = process.address();
    let with = |key: &str, arguments: &[&str]| -> Ran {
        run(&[arguments, &["--server", &url, "--key-file", &key_file(key)]].concat())
    };
    let create =
        ["key", "create", "orders", "--allow", "producer,namespace", "--namespace", "orders*"];
    let orders = with("ops", &create).ok();
    keep("orders", &orders);
    let id = orders.split('_').nth(1).expect("an id").to_owned();
    let rotated = with("ops", &["key", "rotate", &id, "--keep-old", "1h"]).ok();
    keep("rotated", &rotated);
    let unknown = run(&["key", "generate"]).ok();
    keep("unknown", &unknown);
    let mut printed = String::new();
    for key in ["orders", "rotated"] {
        with(key, &["schedule", "orders", key, "--in", "1h", "--payload", "{}"]).ok();
        printed += &with(key, &["namespace", "pause", "orders"]).refused(1);
        printed += &with(key, &["whoami"]).ok();
    }
    printed += &with("unknown", &["whoami"]).refused(1);
    for arguments in [
        &["key", "list"][..],
        &["key", "list", "--output", "json"],
        &["audit"],
        &["metrics"],
        &["cluster"],
        &["export", "orders", "--to", "-"],
        &["store", "backup", &path("backups/one")],
    ] {
        printed += &with("ops", arguments).ok();
    }
    let process_list = fs::read(format!("/proc/{}/cmdline", process.id())).expect("a process");
    process.signal(Signal::TERM);
    let (status, log) = process.ended();
    assert_eq!(status.code(), Some(0));
    assert!(log.contains("TRACE"), "the log has every level");
    let mut places = vec![
        ("the log".to_owned(), log.into_bytes()),
        ("the opening".to_owned(), opening.join("\n").into_bytes()),
        ("what commands print".to_owned(), printed.into_bytes()),
        ("the process list".to_owned(), process_list),
    ];
    files(directory.path(), &mut places);
    assert!(places.iter().any(|(place, _)| place.ends_with("KEYS")), "keys are stored");
    for key in [&admin, &orders, &rotated, &unknown] {
        let secret = secret(key);
        for (place, content) in &places {
            let is_there = content.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!is_there, "a secret is in {place}");
        }
    }
}
