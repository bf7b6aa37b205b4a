//! `duly schedule`, `get`, `list`, `reschedule`, `cancel`, `fire`.

use std::{fs, process::Stdio};

use crate::harness::Server;

/// Distances are rounded, so for half a second the text is the whole half hour.
fn is_in_half_an_hour(shown: &str) -> bool {
    shown.contains("(in 29m 5") || shown.contains("(in 30m)")
}

#[test]
fn schedule_get_and_list_show_a_timer_to_people_and_programs() {
    let server = Server::start();
    let id = "order:42/ä %";
    let schedule = [
        "schedule",
        "orders",
        id,
        "--in",
        "30m",
        "--payload",
        r#"{"b": 1.50}"#,
        "--tag",
        "vip",
        "--header",
        "x-b: 2",
        "--header",
        "x-a:1",
    ];
    let line = server.run(&schedule).ok();
    assert!(line.starts_with(&format!("{id}  scheduled, due ")), "{line}");
    assert!(is_in_half_an_hour(&line), "{line}");
    let line = server.run(&schedule).unchanged();
    assert!(line.contains("exists already, scheduled"), "{line}");

    let shown = server.run(&["get", "orders", id]).ok();
    for part in ["scheduled", r#"{"b": 1.50}"#, "vip", "headers.x-b"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(is_in_half_an_hour(&shown), "{shown}");
    let timer = server.json(&["get", "orders", id]);
    assert_eq!(timer["id"], id);
    assert_eq!(timer["revision"], 1);
    assert_eq!(timer["headers"]["x-b"], "2");

    let table = server.run(&["list", "orders"]).ok();
    assert!(table.contains("ID") && table.contains(id), "{table}");
    let page = server.json(&["list", "orders", "--tag", "vip", "--state", "scheduled"]);
    assert_eq!(page["timers"][0]["id"], id);
    assert_eq!(server.run(&["list", "orders", "--tag", "none"]).ok(), "none\n");
}

#[test]
fn another_timer_with_the_id_is_refused_kept_or_replaced() {
    let server = Server::start();
    server.run(&["schedule", "orders", "x", "--in", "1h"]).ok();
    let other = ["schedule", "orders", "x", "--in", "2h"];
    // A timer cannot be replaced while an attempt is under way.
    server.run(&["schedule", "orders", "leased", "--in", "0"]).ok();
    server.json(&["lease", "orders", "--wait", "20s", "--lease", "1h"]);
    let message = server.run(&["schedule", "orders", "leased", "--in", "2h"]).refused(1);
    assert!(message.contains("as an option: `--if-exists keep`\n"), "{message}");
    let message = server.run(&other).refused(1);
    for part in ["already_exists", "--if-exists"] {
        assert!(message.contains(part), "{message}");
    }
    let with = |what| {
        let mut args = other.to_vec();
        args.extend(["--if-exists", what]);
        server.run(&args)
    };
    assert!(with("keep").unchanged().contains("exists already"));
    assert!(with("replace").ok().contains("replaced"));
}

#[test]
fn a_cancel_in_flight_can_leave_no_further_attempt() {
    let server = Server::start();
    server.run(&["schedule", "orders", "x", "--in", "0"]).ok();
    let leased = server.json(&["lease", "orders", "--wait", "20s", "--lease", "1h"]);
    let message = server.run(&["cancel", "orders", "x"]).refused(1);
    assert!(message.contains("as an option: `--no-further-attempt`\n"), "{message}");
    let line = server.run(&["cancel", "orders", "x", "--no-further-attempt"]).ok();
    assert_eq!(line, "x  in flight, no further attempt follows\n");
    let token = leased["firings"][0]["token"].as_str().expect("a token").to_owned();
    let line = server.run(&["settle", "orders", &token, "--retry"]).ok();
    assert!(line.contains("cancelled"), "{line}");
    assert_eq!(server.json(&["get", "orders", "x"])["state"], "cancelled");
}

#[test]
fn a_command_that_changes_nothing_ends_with_code_3() {
    let server = Server::start();
    let schedule = |mode| ["schedule", "orders", "x", "--in", "1h", "--if-exists", mode];
    let due = ["schedule", "orders", "due", "--in", "0"];
    server.run(&schedule("replace")).ok();
    server.run(&due).ok();
    let [fire, cancel, forget] =
        ["fire", "cancel", "forget"].map(|command| [command, "orders", "x"]);
    let (same, kept) = ("--if-exists restart", "--if-exists is keep");
    let rows: [(&[&str], Result<&str, &str>); 14] = [
        (&schedule("replace"), Err(same)),
        (&schedule("fail"), Err(same)),
        (&schedule("keep"), Err(kept)),
        (&["schedule", "orders", "x", "--in", "2h", "--if-exists", "keep"], Err(kept)),
        (&schedule("restart"), Ok("replaced")),
        (&["cancel", "orders", "due"], Ok("cancelled")),
        (&["cancel", "orders", "due"], Err("the timer was cancelled before")),
        (&due, Ok("scheduled")),
        (&["fire", "orders", "due"], Err("the timer is due already")),
        (&fire, Ok("due")),
        (&fire, Err("the timer is due already")),
        (&cancel, Ok("cancelled")),
        (&forget, Ok("tombstones")),
        (&forget, Err("nothing is left of this id")),
    ];
    for (arguments, expected) in rows {
        let run = server.run(arguments);
        match expected {
            Ok(shown) => assert!(run.stdout.contains(shown) && run.code == Some(0), "{run:?}"),
            Err(reason) => {
                let is_noted = run.stderr.starts_with("note: nothing changed: ");
                assert!(is_noted && run.stderr.contains(reason), "{arguments:?}: {run:?}");
                assert_eq!(run.code, Some(3), "{arguments:?}: {run:?}");
            }
        }
    }
    assert_eq!(server.json(&["get", "orders", "due"])["revision"], 1);
    // A conflict is refused.
    server.run(&["schedule", "orders", "due", "--in", "3h"]).refused(1);
}

#[test]
fn other_commands_that_change_nothing_end_with_code_0() {
    let server = Server::start();
    let place = tempfile::tempdir().expect("a directory");
    let export = place.path().join("export").to_str().expect("UTF-8").to_owned();
    server.run(&["schedule", "n", "leased", "--in", "0"]).ok();
    let leased = server.json(&["lease", "n", "--wait", "20s"]);
    let token = leased["firings"][0]["token"].as_str().expect("a token");
    server.run(&["settle", "n", token, "--ack"]).ok();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    server.run(&["export", "n", "--to", &export]).ok();
    let rows: [&[&str]; 15] = [
        &["settle", "n", token, "--ack"],
        &["cancel", "n", "--tag", "none"],
        &["cancel", "n", "--tag", "none", "--dry-run"],
        &["dead", "redrive", "n", "--all"],
        &["dead", "purge", "n", "--all"],
        &["import", &export],
        &["resume", "--all"],
        &["namespace", "put", "n", "--lease", "1m"],
        &["namespace", "put", "n", "--lease", "1m"],
        &["namespace", "set", "n", "--lease", "1m"],
        &["namespace", "resume", "n"],
        &["namespace", "pause", "n"],
        &["namespace", "pause", "n"],
        &["lease", "n"],
        &["list", "n", "--tag", "none"],
    ];
    for arguments in rows {
        let run = server.run(arguments);
        assert_eq!(run.code, Some(0), "{arguments:?}: {run:?}");
        assert!(!run.stderr.contains("nothing changed"), "{arguments:?}: {run:?}");
    }
    let cancels = r#"{"cancel":{"id":"x"}}"#.to_owned() + "\n";
    for _ in 0..2 {
        let run = server.run_with_stdin(&["batch", "n"], cancels.as_bytes());
        assert_eq!(run.code, Some(0), "{run:?}");
    }
    let same = ["reschedule", "n", "y", "--in", "1h", "--output", "json"];
    server.run(&["schedule", "n", "y", "--in", "1h"]).ok();
    for revision in [2, 3] {
        assert_eq!(server.run(&same).json()["revision"], revision);
    }
}

#[test]
fn payloads_come_from_text_files_and_stdin() {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("payload");
    fs::write(&file, [0xff, 0x00, b'\n']).expect("written");
    let file = file.to_str().expect("UTF-8");
    server.run(&["schedule", "n", "file", "--in", "1h", "--payload-file", file]).ok();
    server
        .run_with_stdin(&["schedule", "n", "stdin", "--in", "1h", "--payload-file", "-"], b"hi\n")
        .ok();
    server.run(&["schedule", "n", "text", "--in", "1h", "--payload-text", "-5 \u{1b}[2J"]).ok();
    assert_eq!(server.json(&["get", "n", "file"])["payload_base64"], "/wAK");
    assert_eq!(server.json(&["get", "n", "stdin"])["payload_base64"], "aGkK");
    assert_eq!(server.json(&["get", "n", "text"])["payload_text"], "-5 \u{1b}[2J");
    assert!(!server.run(&["get", "n", "text"]).ok().contains('\u{1b}'));
    assert!(!server.run(&["list", "n"]).ok().contains('\u{1b}'));
    let gone = ["schedule", "n", "--in", "1h", "--payload-file", "/nowhere/at/all"];
    assert!(server.run(&gone).refused(1).contains("/nowhere/at/all"));
}

#[test]
fn times_are_taken_in_both_forms() {
    let server = Server::start();
    for (id, at) in [("a", "2100-01-01T01:00:00+01:00"), ("b", "4102444800000")] {
        server.run(&["schedule", "n", id, "--at", at]).ok();
        assert_eq!(server.json(&["get", "n", id])["due_at"], "2100-01-01T00:00:00.000Z");
    }
}

#[test]
fn reschedule_changes_resets_and_minds_the_revision() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h", "--payload", "1", "--tag", "t"]).ok();
    let timer = server.json(&[
        "reschedule",
        "n",
        "x",
        "--at",
        "4102444800000",
        "--reset",
        "tags",
        "--if-revision",
        "1",
    ]);
    assert_eq!(timer["revision"], 2);
    assert_eq!(timer["due_at"], "2100-01-01T00:00:00.000Z");
    assert_eq!(timer["payload"], 1);
    assert!(timer.get("tags").is_none(), "{timer}");
    let stale = ["reschedule", "n", "x", "--in", "1h", "--if-revision", "1"];
    assert!(server.run(&stale).refused(1).contains("revision_mismatch"));
    let missing = ["reschedule", "n", "y", "--in", "1h"];
    assert!(server.run(&missing).refused(1).contains("not_found"));
}

#[test]
fn cancel_is_definite() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    assert!(
        server.run(&["cancel", "n", "x", "--if-revision", "9"]).refused(1).contains("revision")
    );
    assert_eq!(server.run(&["cancel", "n", "x"]).ok(), "x  cancelled\n");
    let again = server.run(&["cancel", "n", "x", "--output", "json"]).unchanged();
    assert!(again.contains(r#""outcome":"cancelled""#) && again.contains(r#""already":true"#));
    let message = server.run(&["cancel", "n", "y"]).refused(1);
    for part in ["\"y\"", "not_found", "retention", "`duly list NAMESPACE`"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(server.run(&["list", "n"]).ok(), "none\n");
}

#[test]
fn cancel_by_filter_counts_first_and_needs_a_condition() {
    let server = Server::start();
    for (id, tag) in [("a-1", "red"), ("a-2", "blue"), ("b-1", "red")] {
        server.run(&["schedule", "n", id, "--in", "1h", "--tag", tag]).ok();
    }
    server.run(&["cancel", "n"]).refused(2);
    server.run(&["cancel", "n", "--dry-run"]).refused(2);
    server.run(&["cancel", "n", "a-1", "--all"]).refused(2);
    server.run(&["cancel", "n", "--all", "--tag", "red"]).refused(2);
    assert!(server.run(&["cancel", "n", "--id-prefix", ""]).refused(1).contains("not empty"));
    let counted = server.run(&["cancel", "n", "--tag", "red", "--dry-run"]).ok();
    assert_eq!(counted, format!("2 timers would be cancelled at {}\n", server.url));
    let one =
        ["cancel", "n", "--tag", "red", "--id-prefix", "a", "--due-to", "2100-01-01T00:00:00Z"];
    assert_eq!(server.run(&one).ok(), format!("1 timer cancelled at {}\n", server.url));
    let rest = server.json(&["cancel", "n", "--all"]);
    assert_eq!(rest["cancelled"], 2);
    assert_eq!(server.run(&["list", "n"]).ok(), "none\n");
}

#[test]
fn an_ended_id_says_how_to_use_it_again() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "0"]).ok();
    server.run(&["lease", "n", "--wait", "20s", "--ack"]).ok();
    let other = ["schedule", "n", "x", "--in", "2h"];
    let message = server.run(&other).refused(1);
    assert!(message.contains("finished") && message.contains("--if-exists replace"), "{message}");
    let again = ["schedule", "n", "x", "--in", "2h", "--if-exists", "replace"];
    assert!(server.run(&again).ok().contains("scheduled"));
}

#[test]
fn fire_makes_a_timer_due_now() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    let timer = server.json(&["fire", "n", "x"]);
    assert_eq!(timer["state"], "due");
    assert_eq!(timer["revision"], 2);
}

#[test]
fn all_pages_are_one_document_and_a_closed_pipe_is_quiet() {
    let server = Server::start();
    for n in 0..7 {
        let id = format!("t{n}");
        let at = format!("{}", 4_102_444_800_000_u64 + n);
        server.run(&["schedule", "n", &id, "--at", &at]).ok();
    }
    let page = server.json(&["list", "n", "--limit", "3"]);
    assert_eq!(page["timers"].as_array().map(Vec::len), Some(3));
    assert!(page["cursor"].is_string());
    let all = server.json(&["list", "n", "--limit", "3", "--all"]);
    let ids: Vec<_> = all["timers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|timer| timer["id"].as_str().expect("an id"))
        .collect();
    assert_eq!(ids, ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]);
    let more = server.run(&["list", "n", "--limit", "3"]).ok();
    assert!(more.contains("--cursor ") && more.contains("--all"), "{more}");

    let mut child = server
        .command(&["list", "n", "--limit", "1", "--all"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("duly starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn what_the_server_refuses_exits_1() {
    let server = Server::start();
    for (args, part) in [
        (vec!["get", "n", "x"], "not_found"),
        (vec!["schedule", "n", "--in", "1h", "--url", "ftp://x"], "http"),
        (vec!["schedule", "n", "--in", "1h", "--header", "ce-id:1"], "ce-id"),
        (vec!["lease", "n", "--wait", "2m"], "wait"),
    ] {
        let message = server.run(&args).refused(1);
        assert!(message.contains(part), "{args:?}: {message}");
    }
}
