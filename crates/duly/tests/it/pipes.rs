//! Output for programs: JSON everywhere, NDJSON, errors, closed pipes, `--quiet`.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::harness::{Process, Ran, Server, duly, run, text};

/// Returns the one line of JSON on stderr of a command that failed with this exit code.
#[track_caller]
fn problem(ran: &Ran, code: i32) -> Value {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    serde_json::from_str(&ran.stderr).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn errors_are_json_with_output_json() {
    let server = Server::start();
    for format in ["json", "ndjson"] {
        let refused = server.run(&["--output", format, "get", "n", "x"]);
        let refused = problem(&refused, 1);
        assert_eq!((&refused["code"], &refused["status"]), (&"not_found".into(), &404.into()));
        assert!(refused["detail"].is_string());
    }
    for args in [
        &["get", "n", "--output", "json"][..],
        &["--output=json", "list", "n", "--limt", "5"],
        &["reschedule", "n", "x", "--output", "ndjson"],
        &["--output", "json", "schedule", "n", "--in", "5 s"],
    ] {
        let refused = problem(&run(args), 2);
        assert_eq!(refused["code"], "usage", "{args:?}");
        let detail = refused["detail"].as_str().expect("a detail");
        assert!(!detail.is_empty() && !detail.contains('\u{1b}'), "{detail}");
    }
    let nobody = run(&["--server", "http://127.0.0.1:9", "get", "n", "x", "--output", "json"]);
    assert_eq!(problem(&nobody, 1)["code"], "unreachable");
    let lost = server.run(&["schedule", "n", "x", "--in", "1h", "--output", "json"]);
    assert_eq!(lost.code, Some(0));
    let lost = server.run(&["settle", "n", "nonsense", "--ack", "--output", "json"]);
    assert_eq!(problem(&lost, 1)["code"], "not_settled");
}

#[test]
fn every_command_prints_json() {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pages = directory.path().join("man1");
    let moved = directory.path().join("moved");
    for args in [
        &["schedule", "n", "x", "--in", "1h"][..],
        &["get", "n", "x"],
        &["list", "n"],
        &["list", "n", "--all"],
        &["reschedule", "n", "x", "--in", "2h"],
        &["fire", "n", "x"],
        &["cancel", "n", "x"],
        &["lease", "n"],
        &["cancel", "n", "--all"],
        &["batch", "n"],
        &["namespace", "put", "m"],
        &["namespace", "set", "m", "--weight", "2"],
        &["namespace", "get", "m"],
        &["namespace", "list"],
        &["namespace", "pause", "m"],
        &["namespace", "resume", "m"],
        &["namespace", "stats", "m"],
        &["namespace", "lanes", "m"],
        &["namespace", "forecast", "m"],
        &["namespace", "secret", "new"],
        &["namespace", "secret", "list", "m"],
        &["namespace", "secret", "clear", "m"],
        &["namespace", "delete", "m"],
        &["resume", "--all"],
        &["dead", "list", "n"],
        &["dead", "redrive", "n", "--all"],
        &["dead", "purge", "n", "--all"],
        &["dead", "overdue", "n"],
        &["export", "n", "--to", text(&moved)],
        &["import", text(&moved)],
        &["health"],
        &["metrics"],
        &["openapi"],
        &["completions", "bash"],
        &["man", "--dir", text(&pages)],
    ] {
        for format in ["json", "ndjson"] {
            let ran = server.run(&[&["--output", format], args].concat());
            // A change that was made in the first format is refused or has no effect in the second one.
            if format == "ndjson" && ran.code == Some(1) {
                problem(&ran, 1);
                continue;
            }
            let is_unchanged = format == "ndjson" && ran.code == Some(3);
            let printed = if is_unchanged { ran.unchanged() } else { ran.ok() };
            if format == "json" && args[0] != "batch" {
                serde_json::from_str::<Value>(&printed)
                    .unwrap_or_else(|error| panic!("{args:?}: {error}: {printed}"));
            }
            if format == "ndjson" {
                for line in printed.lines() {
                    serde_json::from_str::<Value>(line)
                        .unwrap_or_else(|error| panic!("{args:?}: {error}: {line}"));
                }
            }
        }
    }
}

#[test]
fn lists_are_lines_of_json() {
    let server = Server::start();
    for n in 0..5 {
        // A payload keeps its text, including line ends.
        let schedule =
            ["schedule", "n", &format!("t{n}"), "--in", "1h", "--payload", "{\"a\":\n1}"];
        server.run(&schedule).ok();
    }
    let ids = |printed: &str| -> Vec<String> {
        let lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|timer| timer["id"].as_str().unwrap_or("-").to_owned()).collect()
    };
    let list = ["--output", "ndjson", "list", "n", "--limit", "2"];
    let page = server.run(&list).ok();
    assert_eq!(ids(&page), ["t0", "t1", "-"]);
    let last: Value = serde_json::from_str(page.lines().last().expect("lines")).expect("JSON");
    let cursor = last["cursor"].as_str().expect("a cursor");
    let next = server.run(&[&list[..], &["--cursor", cursor]].concat()).ok();
    assert_eq!(ids(&next), ["t2", "t3", "-"]);
    let all = server.run(&[&list[..], &["--all"]].concat()).ok();
    assert_eq!(ids(&all), ["t0", "t1", "t2", "t3", "t4"]);
    let all = server.json(&["list", "n", "--limit", "2", "--all"]);
    assert_eq!(all["timers"].as_array().map(Vec::len), Some(5));
    let names = server.run(&["--output", "ndjson", "namespace", "list"]).ok();
    assert_eq!(names.lines().count(), 1);
}

#[test]
fn a_pipe_that_closes_early_ends_silently() {
    let server = Server::start();
    let operations: String = (0..2_000)
        .map(|n| format!("{{\"schedule\":{{\"id\":\"t{n}\",\"delay\":\"1h\"}}}}\n"))
        .collect();
    server.run_with_stdin(&["batch", "n"], operations.as_bytes()).ok();
    for args in [
        &["list", "n", "--all"][..],
        &["list", "n", "--all", "--output", "json"],
        &["list", "n", "--all", "--output", "ndjson"],
        &["metrics"],
        &["openapi"],
        &["completions", "zsh"],
        &["--help"],
        &["schedule", "--help"],
    ] {
        let mut child = server
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("duly starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::with_capacity(16, stdout).read_line(&mut line).expect("a line");
        let ran = Ran::from(child.wait_with_output().expect("it ends"));
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        assert!(!line.is_empty(), "{args:?}");
    }
}

#[test]
fn quiet_prints_errors_alone() {
    let server = Server::start();
    for args in [
        &["schedule", "n", "x", "--in", "1h"][..],
        &["list", "n"],
        &["get", "n", "x", "--output", "json"],
        &["cancel", "n", "x"],
    ] {
        assert_eq!(server.run(&[args, &["--quiet"]].concat()).ok(), "", "{args:?}");
    }
    assert!(server.run(&["-q", "get", "n", "y"]).refused(1).contains("not_found"));
}

#[test]
fn start_report_is_json_with_the_address() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let mut command = duly();
    command.args(["serve", "--output", "json", "--listen", "127.0.0.1:0", "--data", text(&data)]);
    let mut process = Process::of(command);
    let opening: Value = serde_json::from_str(&process.line()).expect("a document");
    let url = opening["listening_on"].as_str().expect("an address");
    assert_eq!((&opening["data"], &opening["pending"]), (&text(&data).into(), &0.into()));
    run(&["--server", url, "health"]).ok();
}
