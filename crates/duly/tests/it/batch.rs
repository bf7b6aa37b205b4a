//! `duly batch`.

use std::fs;

use serde_json::Value;

use crate::harness::{Server, text};

const LINES: &str = r#"{"schedule":{"id":"a","delay":"1h","tags":["t"]}}
{"schedule":{"id":"b","delay":"soon"}}

{"cancel":{"id":"a"}}
{"nonsense":{}}
"#;

#[test]
fn refused_lines_are_numbered_and_refuse_only_themselves() {
    let server = Server::start();
    let ran = server.run_with_stdin(&["batch", "n"], LINES.as_bytes());
    let printed = ran.stdout.clone();
    let message = ran.refused(1);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0].starts_with("line 2  ") && lines[0].contains("delay"), "{printed}");
    assert!(lines[1].starts_with("line 5  ") && lines[1].contains("nonsense"), "{printed}");
    assert_eq!(lines[2], "4 lines: 2 accepted, 2 refused");
    assert!(message.contains("2 of 4 lines were refused"), "{message}");
    assert_eq!(server.json(&["get", "n", "a"])["state"], "cancelled");
}

#[test]
fn json_has_a_result_per_line_or_per_refused_line() {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("operations");
    fs::write(&file, LINES).expect("written");
    let answers = |more: &[&str]| {
        let args = ["--output", "json", "batch", "n", "--file", text(&file)];
        let ran = server.run(&[&args[..], more].concat());
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let problem: Value = serde_json::from_str(&ran.stderr).expect("JSON");
        assert_eq!(problem["code"], "some_refused");
        let lines = ran.stdout.lines();
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>()
    };
    let all = answers(&[]);
    let numbers: Vec<_> = all.iter().map(|answer| answer["line"].as_u64()).collect();
    assert_eq!(numbers, [Some(1), Some(2), Some(4), Some(5)]);
    assert_eq!(all[0]["timer"]["id"], "a");
    assert_eq!(all[1]["error"]["code"], "invalid_argument");
    let refused = answers(&["--errors-only"]);
    assert_eq!(refused.len(), 3);
    assert_eq!(refused[2]["summary"]["refused"], 2);
}

#[test]
fn batch_larger_than_one_call_is_streamed() {
    let server = Server::start();
    let operations: String = (0..25_000)
        .map(|n| format!("{{\"schedule\":{{\"id\":\"t{n}\",\"delay\":\"1h\"}}}}\n"))
        .collect();
    let printed = server.run_with_stdin(&["batch", "n"], operations.as_bytes()).ok();
    assert_eq!(printed, "25000 lines: 25000 accepted, 0 refused\n");
    assert_eq!(server.json(&["namespace", "stats", "n"])["pending"], 25_000);
    assert_eq!(server.run(&["cancel", "n", "--all", "--limit", "7"]).ok(), "7 timers cancelled\n");
    assert_eq!(server.json(&["namespace", "stats", "n"])["pending"], 24_993);
    assert_eq!(server.run(&["cancel", "n", "--all"]).ok(), "24993 timers cancelled\n");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    for path in [directory.path().join("missing"), directory.path().to_owned()] {
        let message = server.run(&["batch", "n", "--file", text(&path)]).refused(1);
        assert!(message.contains(text(&path)) && message.contains("stdin"), "{message}");
    }
}
