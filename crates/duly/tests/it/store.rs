//! `duly store`.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::{
    harness::{DEADLINE, Process, Ran, Server, duly, run, shell, text},
    tools::are_there,
};

#[test]
fn a_directory_is_checked_when_no_server_has_it_open() {
    let mut server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    let data = server.data();
    let message = run(&["store", "check", "--data", text(&data)]).refused(1);
    assert!(message.contains(text(&data)), "{message}");
    server.process.signal(Signal::TERM);
    assert!(server.process.ended().0.success());
    let report = run(&["store", "check", "--data", text(&data)]).ok();
    assert!(report.contains("clean"), "{report}");
    let report = run(&["store", "check", "--data", text(&data), "--output", "json"]).json();
    assert_eq!((&report["is_clean"], &report["data"]), (&true.into(), &text(&data).into()));
    assert_eq!(report["namespaces"][0]["pending"], 1);
}

#[test]
fn check_of_no_data_directory_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for path in [directory.path().join("missing"), directory.path().to_owned()] {
        let message = run(&["store", "check", "--data", text(&path)]).refused(1);
        assert!(message.contains(text(directory.path())), "{message}");
    }
    assert_eq!(directory.path().read_dir().expect("readable").count(), 0, "nothing touched");
}

#[test]
fn restore_of_no_backup_names_the_option() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    for from in [directory.path().join("missing"), directory.path().to_owned()] {
        let args = ["store", "restore", "--from", text(&from), "--data", text(&data)];
        let message = run(&args).refused(1);
        assert!(message.contains("with --from") && !message.contains("--data"), "{message}");
        assert!(message.contains(text(directory.path())), "{message}");
    }
    assert_eq!(directory.path().read_dir().expect("readable").count(), 0, "nothing touched");
}

/// Starts a server that may make backups below its own temporary directory, with a timer that is long
/// due.
fn backing_up(directory: &std::path::Path) -> (Process, String) {
    let data = directory.join("data");
    let backups = directory.join("backups");
    let mut command = duly();
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data", text(&data)])
        .env("DULY_STORE__BACKUP_DIR", &backups);
    let mut process = Process::of(command);
    let (address, _) = process.address();
    (process, address)
}

fn at(server: &str, args: &[&str]) -> Ran {
    let mut all = vec!["--server", server];
    all.extend(args);
    run(&all)
}

#[test]
fn a_backup_of_a_running_server_is_restored_paused_and_resumed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (process, server) = backing_up(directory.path());
    for namespace in ["one", "two"] {
        at(&server, &["schedule", namespace, "t", "--in", "1ms"]).ok();
    }
    at(&server, &["schedule", "one", "later", "--in", "1h"]).ok();
    let backup = directory.path().join("backups/first");
    let said = at(&server, &["store", "backup", text(&backup)]).ok();
    assert!(said.contains("backed up") && said.contains(text(&backup)), "{said}");
    let refused = at(&server, &["store", "backup", text(&backup)]).refused(1);
    assert!(refused.contains("is not empty"), "{refused}");
    let refused = at(&server, &["store", "backup", "/tmp/elsewhere"]).refused(1);
    assert!(refused.contains("store.backup_dir"), "{refused}");
    // A kill without warning; the backup does not need its source.
    process.signal(Signal::KILL);
    drop(process);
    let source = directory.path().join("data");
    let report = run(&["store", "check", "--data", text(&source)]).ok();
    assert!(report.contains("clean") && report.contains("namespace"), "{report}");

    let data = directory.path().join("restored");
    let said = run(&["store", "restore", "--from", text(&backup), "--data", text(&data)]).ok();
    assert!(said.contains("paused") && said.contains("duly resume --all"), "{said}");
    let again = run(&["store", "restore", "--from", text(&backup), "--data", text(&data)]);
    assert!(again.refused(1).contains("is not empty"));
    let another = directory.path().join("another");
    let restore = ["store", "restore", "--from", text(&backup), "--data", text(&another)];
    let restored = run(&[&restore[..], &["--output", "json"]].concat()).json();
    assert_eq!((&restored["path"], &restored["paused"]), (&text(&another).into(), &true.into()));
    let report = run(&["store", "check", "--data", text(&data)]).ok();
    assert!(report.contains("clean") && report.contains("one (paused)"), "{report}");

    let mut process = Process::start(&["serve", "--listen", "127.0.0.1:0", "--data", text(&data)]);
    let (server, _) = process.address();
    for namespace in ["one", "two"] {
        let leased = at(&server, &["--output", "json", "lease", namespace]).json();
        assert_eq!(leased["firings"].as_array().map(Vec::len), Some(0), "{leased}");
    }
    let refused = at(&server, &["resume"]).refused(2);
    assert!(refused.contains("--all"), "{refused}");
    // In the first namespace overdue timers become dead letters, but for one above its limit.
    at(&server, &["namespace", "put", "one", "--max-dead", "1"]).ok();
    at(&server, &["schedule", "one", "second", "--in", "0"]).ok();
    let refused = at(&server, &["resume", "--all", "--overdue", "dead"]).refused(1);
    for part in ["limits.namespace.max_dead", "1 were dead-lettered"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(at(&server, &["--output", "json", "get", "one", "t"]).json()["state"], "dead");
    assert_eq!(at(&server, &["--output", "json", "get", "one", "second"]).json()["state"], "due");
    at(&server, &["dead", "redrive", "one", "--id", "t", "--delay", "1h"]).ok();
    at(&server, &["namespace", "put", "one", "--max-dead", "3"]).ok();
    at(&server, &["namespace", "resume", "two"]).ok();
    let resumed = at(&server, &["--output", "json", "resume", "--all", "--overdue", "dead"]).json();
    assert_eq!(resumed, serde_json::json!({ "resumed": ["one"], "dead_lettered": 2 }));
    let letter = at(&server, &["--output", "json", "get", "one", "t"]).json();
    assert_eq!((&letter["state"], &letter["dead_reason"]), (&"dead".into(), &"overdue".into()));
    at(&server, &["dead", "redrive", "one", "--id", "t"]).ok();
    for namespace in ["one", "two"] {
        at(&server, &["namespace", "pause", namespace]).ok();
    }
    let resumed = at(&server, &["--output", "json", "resume", "--all"]).json();
    assert_eq!(resumed, serde_json::json!({ "resumed": ["one", "two"] }));
    for namespace in ["one", "two"] {
        let leased = at(&server, &["--output", "json", "lease", namespace]).json();
        assert_eq!(leased["firings"].as_array().map(Vec::len), Some(1), "{leased}");
    }
    assert!(at(&server, &["resume", "--all"]).ok().contains("none was paused"));
}

/// `--overdue fire` is the default: nothing becomes a dead letter.
#[test]
fn overdue_timers_fire_after_a_restore_with_overdue_fire() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (process, server) = backing_up(directory.path());
    for namespace in ["one", "two"] {
        at(&server, &["schedule", namespace, "due", "--in", "1ms"]).ok();
        at(&server, &["schedule", namespace, "later", "--in", "1h"]).ok();
    }
    let backup = directory.path().join("backups/first");
    at(&server, &["store", "backup", text(&backup)]).ok();
    drop(process);
    let data = directory.path().join("restored");
    run(&["store", "restore", "--from", text(&backup), "--data", text(&data)]).ok();
    let mut process = Process::start(&["serve", "--listen", "127.0.0.1:0", "--data", text(&data)]);
    let (server, _) = process.address();
    let refused = at(&server, &["resume", "--all", "--overdue", "later"]).refused(2);
    assert!(refused.contains("fire") && refused.contains("dead"), "{refused}");
    let lease = |namespace| at(&server, &["--output", "json", "lease", namespace]).json();
    for namespace in ["one", "two"] {
        assert_eq!(lease(namespace)["firings"].as_array().map(Vec::len), Some(0), "paused");
    }
    let resumed = at(&server, &["--output", "json", "resume", "--all", "--overdue", "fire"]).json();
    assert_eq!(resumed, serde_json::json!({ "resumed": ["one", "two"] }));
    for namespace in ["one", "two"] {
        let leased = lease(namespace);
        let firings = leased["firings"].as_array().expect("an array");
        let ids: Vec<_> = firings.iter().map(|firing| &firing["id"]).collect();
        assert_eq!(ids, ["due"], "{leased}");
        let stats = at(&server, &["--output", "json", "namespace", "stats", namespace]).json();
        assert_eq!((&stats["dead"], &stats["scheduled"]), (&0.into(), &1.into()), "{stats}");
    }
}

#[test]
fn damage_is_shown_and_ends_with_exit_code_1() {
    let mut server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    let data = server.data();
    server.process.signal(Signal::TERM);
    assert!(server.process.ended().0.success());
    let segment = data.join("journal/0000000000000001.log");
    let mut bytes = std::fs::read(&segment).expect("a segment");
    bytes[20] ^= 1;
    std::fs::write(&segment, bytes).expect("written");
    let ran = run(&["store", "check", "--data", text(&data)]);
    let shown = ran.stdout.clone();
    let message = ran.refused(1);
    assert!(message.contains("is damaged") && message.contains("store restore"), "{message}");
    assert!(shown.contains("DAMAGED") && shown.contains("at byte 0"), "{shown}");
    let ran = run(&["store", "check", "--data", text(&data), "--output", "json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let problem: serde_json::Value = serde_json::from_str(&ran.stderr).expect("JSON");
    assert_eq!((&report["is_clean"], &problem["code"]), (&false.into(), &"damaged".into()));
    assert_eq!(report["findings"][0]["offset_bytes"], 0);
}

/// Returns the shell script of a section of the page about backups.
fn script(heading: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/backup.md");
    let page = fs::read_to_string(page).expect("the page is committed");
    let section =
        page.split(&format!("\n## {heading}\n")).nth(1).expect("the page has the section");
    let script = section.split("```sh\n").nth(1).expect("the section has a script");
    script.split("```").next().expect("the script ends").to_owned()
}

/// Runs a script of the page, with the paths of the test in place of those of the page.
fn run_script(script: &str, replaced: &[(&str, &str)]) -> Ran {
    let script = replaced.iter().fold(script.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from} in {text}");
        text.replace(from, to)
    });
    let binaries = Path::new(env!("CARGO_BIN_EXE_duly")).parent().expect("a folder");
    let path = format!("{}:{}", text(binaries), std::env::var("PATH").expect("a path"));
    shell(&script).env("PATH", path).output().expect("sh starts").into()
}

#[test]
fn the_restore_drill_of_the_page_works() {
    if !are_there("the restore drill", &["rsync", "curl"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let start = |every: &[(&str, &str)]| {
        let mut command = duly();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", text(&path("data"))]);
        command.env("DULY_STORE__BACKUP_DIR", path("backups")).envs(every.iter().copied());
        let mut process = Process::of(command);
        let (server, _) = process.address();
        (process, server)
    };
    let (first, server) = start(&[]);
    at(&server, &["schedule", "orders", "one", "--in", "1h"]).ok();
    at(&server, &["schedule", "orders", "two", "--in", "0s"]).ok();
    drop(first);
    let (second, _) = start(&[("DULY_STORE__BACKUP_EVERY", "10m")]);
    let backups = path("backups");
    let made = || fs::read_dir(&backups).into_iter().flatten().flatten().map(|it| it.path());
    let began = Instant::now();
    let backup = loop {
        if let Some(backup) = made().find(|backup| backup.join("MANIFEST").exists()) {
            break backup;
        }
        assert!(began.elapsed() < DEADLINE, "the first backup is made at the start");
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(second);

    let copies = path("srv");
    fs::create_dir_all(&copies).expect("made");
    run_script(
        &script("Copy a backup to another machine"),
        &[
            ("/var/lib/duly/backups", text(&backups)),
            ("backup.example.com:/srv/duly", text(&copies)),
        ],
    )
    .ok();
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("free").port();
    let drill = script("Restore drill");
    let replaced = [("/srv/duly", text(&copies)), ("3999", &port.to_string())];
    let shown = run_script(&drill, &replaced).ok();
    for part in ["verdict         clean", "2 pending", "orders", "paused"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    // A backup whose last bytes are missing fails the drill, and says so.
    let journal = copies.join(backup.file_name().expect("a name")).join("journal");
    let segment = fs::read_dir(&journal).expect("read").next().expect("a segment").expect("read");
    let bytes = fs::read(segment.path()).expect("read");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("data");
    fs::write(segment.path(), [&bytes[..end - 200], &vec![0; bytes.len() - end + 200]].concat())
        .expect("written");
    let failed = run_script(&drill, &replaced);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("verdict         DAMAGED"), "{failed:?}");
}
