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
fn lines_that_change_nothing_are_counted_apart() {
    let server = Server::start();
    let schedule = |id: &str| {
        format!("{{\"schedule\":{{\"id\":\"{id}\",\"due_at\":\"2100-01-01T00:00:00Z\"}}}}\n")
    };
    let cancel = "{\"cancel\":{\"id\":\"a\"}}\n";
    let lines = [&*schedule("a"), &schedule("a"), cancel, cancel, &schedule("b")].concat();
    let ran = server.run_with_stdin(&["batch", "n"], lines.as_bytes());
    assert_eq!(ran.ok(), "5 lines: 3 accepted, 2 changed nothing, 0 refused\n");
    let args = ["--output", "json", "batch", "n", "--errors-only"];
    let summary = server.run_with_stdin(&args, schedule("b").as_bytes()).ok();
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!(summary["summary"]["accepted"], 1);
    assert_eq!(summary["summary"]["unchanged"], 1);
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
    let at = &server.url;
    let cancelled = server.run(&["cancel", "n", "--all", "--limit", "7"]).ok();
    assert_eq!(cancelled, format!("7 timers cancelled at {at}\n"));
    assert_eq!(server.json(&["namespace", "stats", "n"])["pending"], 24_993);
    let cancelled = server.run(&["cancel", "n", "--all"]).ok();
    assert_eq!(cancelled, format!("24993 timers cancelled at {at}\n"));
}

#[test]
fn a_batch_ends_whole_under_a_rate_limit() {
    let server = Server::start();
    server.run(&["namespace", "put", "n", "--schedule-per-second", "200"]).ok();
    let mut operations: String = (0..700)
        .map(|n| format!("{{\"schedule\":{{\"id\":\"t{n}\",\"delay\":\"1h\"}}}}\n"))
        .collect();
    // Each of these comes after the schedule of its id, which a limit may have refused at first.
    for n in 0..700 {
        operations.push_str(&format!("{{\"cancel\":{{\"id\":\"t{n}\"}}}}\n"));
    }
    operations.push_str("{\"cancel\":{\"id\":\"never\"}}\n");
    let ran = server.run_with_stdin(&["batch", "n"], operations.as_bytes());
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines[0].starts_with("line 1401  there is no timer \"never\""), "{ran:?}");
    assert_eq!(lines[1], "1401 lines: 1400 accepted, 1 refused", "{ran:?}");
    assert!(ran.stderr.contains("note: waiting for a limit of the server: "), "{ran:?}");
    assert_eq!(server.json(&["namespace", "stats", "n"])["pending"], 0);
}

#[test]
fn a_limit_that_does_not_pass_is_a_refusal() {
    let server = Server::start();
    server.run(&["namespace", "put", "n", "--max-delay", "1m"]).ok();
    let line = b"{\"schedule\":{\"id\":\"a\",\"delay\":\"1h\"}}\n";
    let ran = server.run_with_stdin(&["batch", "n"], line);
    assert!(ran.refused(1).contains("1 of 1 line were refused"), "at once");
}

#[test]
fn the_lines_of_an_export_name_the_other_command() {
    let server = Server::start();
    let lines = "{\"schedule\":{\"id\":\"a\",\"delay\":\"1h\"}}\n{\"timer\":{\"id\":\"b\"}}\n{\"fire\":{\"id\":\"a\"}}\n";
    let ran = server.run_with_stdin(&["batch", "n"], lines.as_bytes());
    assert_eq!(ran.stdout, "1 line: 1 accepted, 0 refused\n");
    let message = ran.refused(1);
    assert!(
        message.contains("line 2 is of an export") && message.contains("`duly import -`"),
        "{message}"
    );
    assert_eq!(server.json(&["get", "n", "a"])["state"], "scheduled");
}

#[test]
fn a_byte_order_mark_is_skipped_or_named() {
    let server = Server::start();
    let line = b"\xef\xbb\xbf{\"schedule\":{\"id\":\"a\",\"delay\":\"1h\"}}\n";
    assert_eq!(
        server.run_with_stdin(&["batch", "n"], line).ok(),
        "1 line: 1 accepted, 0 refused\n"
    );
    let settings = b"\xef\xbb\xbf{\"weight\":3}";
    server.run_with_stdin(&["namespace", "put", "m", "--file", "-"], settings).ok();
    for args in [&["batch", "n"][..], &["namespace", "put", "m", "--file", "-"]] {
        let message = server.run_with_stdin(args, b"\xff\xfe{\0}\0\n\0").refused(1);
        assert!(message.contains("UTF-16") && message.contains("save it as UTF-8"), "{message}");
    }
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
