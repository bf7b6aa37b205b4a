//! `duly export` and `import`: namespaces move between two servers.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{DEADLINE, Process, Ran, Server, file_of, receiver, text};

const PRETTY: &str = "{\n  \"b\": 1.0,\n  \"a\": [ ]\n}";

/// A file in a directory of its own.
struct Place {
    file: PathBuf,
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        Self { file: directory.path().join("orders.ndjson"), directory }
    }

    fn name(&self) -> &str {
        text(&self.file)
    }

    fn lines(&self) -> Vec<String> {
        let all = fs::read_to_string(&self.file).expect("it was written");
        all.lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &[String]) {
        fs::write(&self.file, lines.join("\n")).expect("written");
    }
}

fn lease(server: &Server, more: &[&str]) -> Value {
    let args = [&["lease", "orders", "--wait", "20s"], more].concat();
    server.json(&args)["firings"][0].clone()
}

/// Starts a server with a timer in every state; returns the token of the one in flight.
fn filled() -> (Server, String) {
    let server = Server::start();
    let retry = ["--retry-delays", "1h,2h"];
    for (id, verdict) in [
        ("retrying", Some(&["--retry", "--reason", "busy"][..])),
        ("dead", Some(&["--dead", "--reason", "no such customer"])),
        ("finished", Some(&["--ack"])),
        ("in_flight", None),
    ] {
        server.run(&[&["schedule", "orders", id, "--in", "0"], &retry[..]].concat()).ok();
        let token =
            lease(&server, &["--lease", "1h"])["token"].as_str().expect("a firing").to_owned();
        match verdict {
            Some(verdict) => {
                server.run(&[&["settle", "orders", &token], verdict].concat()).ok();
            }
            None => {
                let far = ["schedule", "orders", "far", "--in", "1h", "--payload", PRETTY];
                server.run(&far).ok();
                for id in ["cancelled", "gone"] {
                    server.run(&["schedule", "orders", id, "--in", "2h"]).ok();
                }
                server.run(&["cancel", "orders", "cancelled"]).ok();
                return (server, token);
            }
        }
    }
    unreachable!("one stays in flight");
}

fn export(server: &Server, place: &Place, more: &[&str]) -> Ran {
    server.run(&[&["export", "orders", "--to", place.name()], more].concat())
}

fn import(server: &Server, place: &Place, more: &[&str]) -> Ran {
    server.run(&[&["import", place.name()], more].concat())
}

#[test]
fn an_export_to_a_device_is_written_to_it() {
    let server = Server::start();
    server.run(&["schedule", "orders", "x", "--in", "1h"]).ok();
    for more in [&[][..], &["--force"]] {
        // A name of its own, so that no error could replace the device.
        let directory = tempfile::tempdir().expect("a temporary directory");
        let device = directory.path().join("device");
        std::os::unix::fs::symlink("/dev/null", &device).expect("linked");
        let args = ["export", "orders", "-q", "--to", text(&device)];
        server.run(&[&args[..], more].concat()).ok();
        assert!(device.is_symlink(), "it was not replaced");
    }
}

#[test]
fn p7_a_namespace_is_drained_and_moves_whole() {
    let (old, token) = filled();
    let place = Place::new();
    let message = export(&old, &place, &["--drain", "--drain-timeout", "0"]).refused(1);
    assert!(message.contains("1 firing of orders still in flight"), "{message}");
    assert_eq!(
        fs::read_dir(place.directory.path()).expect("readable").count(),
        0,
        "nothing is left"
    );
    assert_eq!(old.json(&["namespace", "get", "orders"])["paused"], true);
    old.run(&["settle", "orders", &token, "--retry", "--after", "0"]).ok();

    let ran = export(&old, &place, &["--drain"]);
    assert_eq!(ran.stderr, "", "at rest: nothing to warn of");
    let said = ran.ok();
    assert!(said.contains("orders  4 timers and 1 dead letter exported; it is paused"), "{said}");
    assert_eq!(place.lines().len(), 8);
    assert_eq!(fs::read_dir(place.directory.path()).expect("readable").count(), 1);

    let new = Server::start();
    let message = import(&new, &place, &[]);
    assert!(message.stdout.contains(":1: there is no namespace orders here"), "{message:?}");
    message.refused(1);
    assert_eq!(new.json(&["namespace", "list"])["namespaces"], json!([]));
    let said = import(&new, &place, &["--create-namespaces"]).ok();
    assert!(said.contains("5 imported, 0 existing\n"), "{said}");
    for id in ["far", "gone", "retrying", "dead", "in_flight"] {
        let args = ["get", "orders", id];
        assert_eq!(new.json(&args), old.json(&args), "{id}");
    }
    let raw = new.run(&["get", "orders", "far", "--output", "json"]).ok();
    assert!(raw.contains(PRETTY), "byte for byte: {raw}");

    // It continues there, and nothing fires here.
    let firing = lease(&new, &[]);
    let (there, here) = (old.json(&["get", "orders", "in_flight"]), firing);
    assert_eq!((&here["id"], &here["attempt"]), (&json!("in_flight"), &json!(2)));
    assert_eq!(here["delivery_id"], there["delivery_id"]);
    new.run(&["dead", "redrive", "orders", "--id", "dead"]).ok();
    let letter = lease(&new, &[]);
    assert_eq!(letter["delivery_id"], old.json(&["get", "orders", "dead"])["delivery_id"]);
    assert_eq!(old.json(&["lease", "orders"])["paused"], true);
}

#[test]
fn p4_repeated_import_keeps_cancelled_timers_cancelled() {
    let (old, _) = filled();
    let place = Place::new();
    let ran = export(&old, &place, &[]);
    assert!(ran.stderr.starts_with("warning: orders is not paused"), "{ran:?}");
    ran.ok();
    let new = Server::start();
    // A truncated file: it has the beginning and no end.
    let whole = place.lines();
    place.write(&whole[..3]);
    let message = import(&new, &place, &["--create-namespaces"]).refused(1);
    assert!(message.contains("ends after line 3 without its last line"), "{message}");
    assert_eq!(new.json(&["namespace", "list"])["namespaces"], json!([]), "nothing is imported");
    let cut = whole[..3].join("\n");
    let ran = new.run_with_stdin(&["import", "-", "--create-namespaces"], cut.as_bytes());
    assert!(ran.stdout.contains(":3: the export of orders ends here"), "{ran:?}");
    assert!(ran.stdout.contains("2 imported"), "{ran:?}");
    assert!(ran.refused(1).contains("it is truncated"), "reported at the end");
    place.write(&whole);
    let said = import(&new, &place, &[]).ok();
    assert!(said.contains("3 imported, 2 existing"), "{said}");
    new.run(&["cancel", "orders", "gone"]).ok();
    let all = || {
        let listed = ["list", "orders", "--all"];
        let totals = new.json(&["namespace", "stats", "orders"])["totals"].clone();
        (new.json(&listed), new.json(&["dead", "list", "orders"]), totals)
    };
    let before = all();
    let summary = new.json(&["import", place.name()]);
    let expected = json!({"imported": 0, "existing": 4, "cancelled": 1, "failed": 0, "skipped": 0});
    assert_eq!(summary["summary"], expected);
    assert_eq!(all(), before, "nothing changed");
    assert_eq!(new.json(&["get", "orders", "gone"])["state"], "cancelled");
}

#[test]
fn damaged_lines_are_numbered_and_the_import_continues() {
    let (old, _) = filled();
    let place = Place::new();
    export(&old, &place, &[]).ok();
    // As an older version wrote it, without a checksum.
    let mut lines = place.lines();
    lines.pop();
    let end = lines.last_mut().expect("the end of the namespace");
    *end = end.replace(",\"trailer\":true", "");
    lines[1].truncate(20);
    lines[2] = lines[2].replacen("\"revision\":1", "\"revision\":0", 1);
    lines.insert(3, String::new());
    lines.insert(4, r#"{"nonsense":1}"#.to_owned());
    place.write(&lines);
    let new = Server::start();
    let ran = import(&new, &place, &["--create-namespaces"]);
    assert!(ran.stderr.contains("has no checksum, since an older version"), "{ran:?}");
    let name = place.name();
    for start in [
        format!("{name}:2: not a line of an export"),
        format!("{name}:3: revision must be an integer from 1"),
        format!("{name}:5: not a line of an export"),
    ] {
        assert!(ran.stdout.lines().any(|line| line.starts_with(&start)), "{start}: {ran:?}");
    }
    assert!(ran.stdout.contains("3 imported, 0 existing, 4 failed"), "one too many: {ran:?}");
    assert_eq!(ran.code, Some(1));
    let ran = new.run(&["--output", "json", "import", name]);
    let answers: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let numbers: Vec<_> = answers.iter().filter_map(|answer| answer["line"].as_u64()).collect();
    assert_eq!(numbers, [2, 5, 3, 9]);
    assert_eq!(answers[0]["error"]["code"], "damaged_line");
    assert_eq!(answers[2]["error"]["code"], "invalid_argument");
}

#[test]
fn p11_a_file_that_was_changed_is_refused_whole() {
    let (old, _) = filled();
    let place = Place::new();
    export(&old, &place, &[]).ok();
    let (whole, new) = (place.lines(), Server::start());
    let changed = |change: fn(&mut Vec<String>)| {
        let mut lines = whole.clone();
        change(&mut lines);
        lines
    };
    for (lines, cause) in [
        (
            changed(|lines| lines[1] = lines[1].replacen(r#""id":""#, r#""id":"x"#, 1)),
            "was changed",
        ),
        (changed(|lines| drop(lines.remove(2))), "missing or doubled"),
        (changed(|lines| lines.insert(2, lines[1].clone())), "missing or doubled"),
        (changed(|lines| lines[2].truncate(20)), "line 3 is not a line of an export"),
        (changed(|lines| lines.truncate(7)), "truncated"),
        (Vec::new(), "it is empty"),
        (vec![String::new(), " ".to_owned()], "it is empty"),
    ] {
        place.write(&lines);
        let message = import(&new, &place, &["--create-namespaces"]).refused(1);
        assert!(message.contains(cause) && message.contains("Nothing was imported"), "{message}");
        assert!(message.contains("export again"), "the remedy: {message}");
        assert_eq!(new.json(&["namespace", "list"])["namespaces"], json!([]), "{cause}");
    }
    let lines =
        changed(|lines| lines[1] = lines[1].replacen(r#""id":""#, r#""id":"x"#, 1)).join("\n");
    let ran = new.run_with_stdin(&["import", "-", "--create-namespaces"], lines.as_bytes());
    assert!(ran.stdout.contains("5 imported"), "{ran:?}");
    assert!(ran.refused(1).contains("stdin is not as it was exported"), "reported at the end");
}

#[test]
fn p11_a_file_that_was_cut_is_refused_whole() {
    let (old, _) = filled();
    let place = Place::new();
    export(&old, &place, &[]).ok();
    let (whole, new) = (fs::read(&place.file).expect("it was written"), Server::start());
    let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(end, _)| end);
    // Behind each line but the last, and within each line.
    let cuts: Vec<_> =
        ends.flat_map(|end| [end - 9, end + 1]).filter(|cut| *cut < whole.len()).collect();
    assert_eq!(cuts.len(), 2 * 8 - 1);
    for cut in cuts {
        fs::write(&place.file, &whole[..cut]).expect("written");
        let message = import(&new, &place, &["--create-namespaces"]).refused(1);
        assert!(message.contains("Nothing was imported"), "{cut}: {message}");
        let args = ["import", "-", "--create-namespaces"];
        let ran = Server::start().run_with_stdin(&args, &whole[..cut]);
        let (counted, message) = (ran.stdout.clone(), ran.refused(1));
        assert!(message.contains("stdin is not as it was exported"), "{cut}: {message}");
        assert!(counted.contains(" imported, "), "{cut}: {counted}");
    }
    assert_eq!(new.json(&["namespace", "list"])["namespaces"], json!([]));
}

#[test]
fn an_export_replaces_no_file_without_force() {
    let (server, place) = (Server::start(), Place::new());
    fs::write(&place.file, "precious").expect("written");
    let args = ["export", "--all", "--to", place.name()];
    let message = server.run(&args).refused(1);
    assert!(message.contains(place.name()) && message.contains("--force"), "{message}");
    assert_eq!(place.lines(), ["precious"]);
    server.run(&[&args[..], &["--force"]].concat()).ok();
    assert!(place.lines()[0].starts_with("{\"trailer\""), "{:?}", place.lines());
}

#[test]
fn an_import_of_operations_names_the_other_command() {
    let (server, place) = (Server::start(), Place::new());
    place.write(&[r#"{"schedule":{"id":"a","delay":"1h"}}"#.to_owned()]);
    let message = import(&server, &place, &["--create-namespaces"]).refused(1);
    let input = fs::read(&place.file).expect("it was written");
    for message in [message, server.run_with_stdin(&["import", "-"], &input).refused(1)] {
        assert!(
            message.contains("line 1 of") && message.contains("`duly batch NAMESPACE"),
            "{message}"
        );
        assert!(message.contains("Nothing was imported"), "{message}");
    }
}

#[test]
fn an_export_with_a_byte_order_mark_is_whole() {
    let (old, _) = filled();
    let place = Place::new();
    export(&old, &place, &[]).ok();
    let marked = [&b"\xef\xbb\xbf"[..], &fs::read(&place.file).expect("it was written")].concat();
    fs::write(&place.file, &marked).expect("written");
    assert!(import(&Server::start(), &place, &["--create-namespaces"]).ok().contains("5 imported"));
    fs::write(&place.file, b"\xff\xfe{\0").expect("written");
    let message = import(&Server::start(), &place, &[]).refused(1);
    assert!(message.contains("UTF-16") && message.contains("save it as UTF-8"), "{message}");
}

#[test]
fn import_keeps_the_name_and_lists_unexported_settings() {
    let (old, _) = filled();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let secret = file_of(secret);
    let secret = text(secret.path());
    old.run(&["namespace", "secret", "set", "orders", "--file", secret]).ok();
    old.run(&["namespace", "set", "orders", "--weight", "7"]).ok();
    let place = Place::new();
    let exported = old.json(&["export", "--all", "--to", place.name()]);
    assert_eq!(exported["namespaces"][0]["timers"], 4);
    let mode = fs::metadata(&place.file).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds secrets");
    let new = Server::start();
    let message = import(&new, &place, &["--namespace", "shop"]).refused(1);
    assert!(message.contains("delivery ids depend on it"), "{message}");
    let create = ["--create-namespaces", "--namespace", "orders"];
    let said = import(&new, &place, &create).ok();
    assert!(said.contains("duly namespace secret set orders"), "{said}");
    assert_eq!(new.json(&["namespace", "get", "orders"])["weight"], 7);
    new.run(&["namespace", "secret", "set", "orders", "--file", secret]).ok();
    let said = import(&new, &place, &create).ok();
    assert!(!said.contains("secret") && said.contains("keeps its settings"), "{said}");
}

#[test]
fn moved_webhook_is_delivered_with_its_credentials() {
    let (old, new) = (Server::start(), Server::start());
    let (url, heads) = receiver();
    let headers = json!({"authorization": "Bearer s3cret"});
    let settings = json!({"destination": {"http": {"url": url, "headers": headers}}}).to_string();
    let put = ["namespace", "put", "orders", "--file", "-"];
    old.run_with_stdin(&put, settings.as_bytes()).ok();
    old.run(&["namespace", "pause", "orders"]).ok();
    old.run(&["schedule", "orders", "x", "--in", "0"]).ok();
    let place = Place::new();
    export(&old, &place, &["--drain"]).ok();
    import(&new, &place, &["--create-namespaces"]).ok();
    let head = heads.recv_timeout(DEADLINE).expect("it is delivered");
    assert!(head.contains("authorization: bearer s3cret"), "{head}");
    let delivery_id = old.json(&["get", "orders", "x"])["delivery_id"].clone();
    let delivery_id = delivery_id.as_str().expect("it has one").to_lowercase();
    assert!(head.contains(&format!("webhook-id: {delivery_id}")), "{head}");
}

#[test]
fn an_export_that_is_interrupted_leaves_no_secrets_behind() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (old, _) = filled();
        let place = Place::new();
        let mut waiting = waiting_export(&old, &place);
        waiting.signal(signal);
        let (status, stderr) = waiting.ended();
        assert_eq!(status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("interrupted"), "{stderr}");
        assert_eq!(fs::read_dir(place.directory.path()).expect("readable").count(), 0);
    }
}

/// Starts an export that waits for a firing in flight, and has begun its file.
fn waiting_export(old: &Server, place: &Place) -> Process {
    let args = ["export", "orders", "--to", place.name(), "--drain", "--drain-timeout", "1h"];
    let waiting = Process::of(old.command(&args));
    old.until(&["namespace", "get", "orders"], |namespace| namespace["paused"] == true);
    assert_eq!(fs::read_dir(place.directory.path()).expect("readable").count(), 1, "it is begun");
    waiting
}

#[test]
fn the_next_export_removes_what_a_killed_one_left() {
    let (old, _) = filled();
    let place = Place::new();
    let mut waiting = waiting_export(&old, &place);
    let other = Server::start();
    // A file in use stays.
    other.run(&["export", "--all", "--to", place.name()]).ok();
    assert_eq!(fs::read_dir(place.directory.path()).expect("readable").count(), 2);
    waiting.signal(Signal::KILL);
    waiting.ended();
    let said = other.run(&["export", "--all", "--to", place.name(), "--force"]);
    assert!(said.stderr.contains("an export that was killed left it"), "{said:?}");
    assert_eq!(fs::read_dir(place.directory.path()).expect("readable").count(), 1);
}

#[test]
fn an_export_names_what_a_killed_one_beside_it_left() {
    let (old, _) = filled();
    let place = Place::new();
    let [left, other] =
        ["july.1.part", "pump.2.part"].map(|name| place.directory.path().join(name));
    fs::write(&left, "{\"namespace\":{\"name\":\"orders\"").expect("written");
    fs::write(&other, "a part of a pump").expect("written");
    let said = old.run(&["export", "--all", "--to", place.name()]);
    assert!(said.stderr.contains(text(&left)) && said.stderr.contains("remove it"), "{said:?}");
    assert!(!said.stderr.contains("pump"), "{said:?}");
    assert!(left.exists() && other.exists(), "they may belong to others");
}

#[test]
fn one_namespace_that_fails_does_not_block_the_others() {
    let old = Server::start();
    for (namespace, count) in [("first", 1), ("second", 1_500), ("third", 2)] {
        let operations: String = (0..count)
            .map(|n| format!("{{\"schedule\":{{\"id\":\"t{n}\",\"delay\":\"1h\"}}}}\n"))
            .collect();
        old.run_with_stdin(&["batch", namespace], operations.as_bytes()).ok();
    }
    let place = Place::new();
    old.run(&["export", "--all", "--drain", "--to", place.name()]).ok();
    assert_eq!(place.lines().len(), 3 * 2 + 1_503 + 1);
    let new = Server::start();
    for name in ["first", "second"] {
        new.run(&["namespace", "put", name]).ok();
    }
    let ran = import(&new, &place, &[]);
    let third = format!("{}:1506: there is no namespace third here", place.name());
    assert!(ran.stdout.starts_with(&third), "{ran:?}");
    assert!(ran.stdout.contains("1501 imported, 0 existing, 2 not sent, 1 failed"), "{ran:?}");
    ran.refused(1);
    assert_eq!(new.json(&["namespace", "stats", "second"])["pending"], 1_500);
    let said = import(&new, &place, &["--create-namespaces"]).ok();
    assert!(said.contains("2 imported, 1501 existing"), "{said}");
}

#[test]
fn an_export_goes_through_a_pipe() {
    let (old, _) = filled();
    let lines = old.run(&["export", "orders", "--to", "-"]).ok();
    let ran = old.run(&["export", "orders", "--to", "-", "--drain", "--drain-timeout", "0"]);
    assert_eq!(ran.stdout, "", "{ran:?}");
    let last: Vec<Value> = lines
        .lines()
        .skip(6)
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    let end = json!({"namespace": "orders", "timers": 4, "dead": 1, "trailer": true});
    assert_eq!(last[0], json!({ "end": end }));
    assert_eq!(last[1]["trailer"]["lines"], 7);
    let new = Server::start();
    let ran = new.run_with_stdin(&["import", "-", "--create-namespaces"], lines.as_bytes());
    assert!(ran.ok().starts_with("stdin: 5 imported"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let message = old.run(&["export", "orders", "--to", text(directory.path())]).refused(1);
    assert!(message.contains("it is a directory"), "{message}");
    old.run(&["export", "--to", "-"]).refused(2);
    let message = old.run(&["export", "nobody", "--to", "-"]).refused(1);
    assert!(message.contains("there is no namespace"), "{message}");
}
