//! Terminals: the output that people see there, and the bytes that must never reach them.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
    process::{Command, Stdio},
    thread,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::harness::{DEADLINE, Server};

/// Returns the exit code of a command on a terminal of 80 columns with this input, and the text that it
/// showed.
pub(crate) fn on_a_terminal(mut command: Command, typed: &str) -> (Option<i32>, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("it has a name");
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty());
    let slave: OwnedFd = slave.expect("its other end");
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&slave, size).expect("a size");
    let end = || Stdio::from(slave.try_clone().expect("a copy"));
    command.stdin(end()).stdout(end()).stderr(end());
    let mut child = command.spawn().expect("duly starts");
    drop(command);
    drop(slave);
    let mut master = File::from(master);
    master.write_all(typed.as_bytes()).expect("typed");
    let (sender, shown) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut all = Vec::new();
        let mut chunk = [0; 4096];
        // Reading fails when the other end is closed.
        while let Ok(read @ 1..) = master.read(&mut chunk) {
            all.extend_from_slice(&chunk[..read]);
        }
        sender.send(all).ok();
    });
    let all = shown.recv_timeout(DEADLINE).expect("it ends");
    let code = child.wait().expect("it ended").code();
    (code, String::from_utf8(all).expect("UTF-8").replace("\r\n", "\n"))
}

pub(crate) fn with_term(mut command: Command) -> Command {
    command.env("TERM", "xterm");
    command
}

#[test]
fn colours_are_for_terminals_and_not_where_no_color_is_set() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h", "--tag", &"long ".repeat(12)]).ok();
    let list = || server.command(&["list", "n"]);
    assert!(!server.run(&["list", "n"]).ok().contains('\u{1b}'), "a pipe");
    let (_, shown) = on_a_terminal(with_term(list()), "");
    assert!(shown.contains("\u{1b}[1m"), "{shown:?}");
    let mut plain = with_term(list());
    plain.env("NO_COLOR", "1");
    let mut dumb = list();
    dumb.env("TERM", "dumb");
    for command in [plain, dumb, list()] {
        let (_, shown) = on_a_terminal(command, "");
        assert!(shown.contains("scheduled") && !shown.contains('\u{1b}'), "{shown:?}");
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 2, "{shown}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(lines[1].ends_with('…'), "{shown}");
    }
    let (code, shown) = on_a_terminal(with_term(server.command(&["get", "n", "y"])), "");
    assert_eq!(code, Some(1));
    assert!(shown.starts_with("\u{1b}[31merror:\u{1b}[0m "), "{shown:?}");
}

#[test]
fn progress_is_shown_on_terminals_only() {
    let server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    server.run(&["namespace", "pause", "n"]).ok();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    let file = file.to_str().expect("UTF-8");
    for (args, words) in [
        (["export", "n", "--to", file], "n: 1 timer exported"),
        (["import", file, "--namespace", "n"], "0 timers processed"),
    ] {
        let (code, shown) = on_a_terminal(with_term(server.command(&args)), "");
        let bar = shown.split('\r').find(|line| line.contains(words));
        assert!(code == Some(0) && bar.is_some_and(|bar| bar.contains('%')), "{shown:?}");
        assert!(shown.contains("\r \r") || shown.contains("  \r"), "it is taken away: {shown:?}");
        let again = |more: &'static str| {
            // An export replaces its file by name only.
            let force = if args[0] == "export" { &["--force", more][..] } else { &[more] };
            [&args[..], force].concat()
        };
        assert_eq!(server.run(&again("--output=table")).stderr, "", "a pipe");
        let (_, shown) = on_a_terminal(server.command(&again("--quiet")), "");
        assert_eq!(shown, "");
    }
}

#[test]
fn foreign_text_cannot_control_the_terminal() {
    let server = Server::start();
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";
    let tag = "\u{202e}";
    let schedule =
        ["schedule", "n", "id\u{202e}x", "--in", "0", "--payload-text", evil, "--tag", tag];
    for args in [
        &schedule[..],
        &["list", "n"],
        &["get", "n", "id\u{202e}x"],
        &["list", "n", "--output", "json"],
        &["list", "n", "--output", "ndjson"],
        &["get", "n", "id\u{202e}x", "--output", "json"],
        &["get", "n", "id\u{202e}y"],
        &["get", "n", "id\u{202e}y", "--output", "json"],
        &["lease", "n", "--wait", "20s"],
        &["cancel", "n", "id\u{202e}x"],
    ] {
        let mut command = server.command(args);
        command.env("TERM", "dumb");
        let (_, shown) = on_a_terminal(command, "");
        let raw = shown.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert!(raw.is_none() && !shown.is_empty(), "{args:?}: {raw:?} in {shown:?}");
    }
    // Programs get every byte.
    let leased = server.json(&["get", "n", "id\u{202e}x"]);
    assert_eq!(leased["payload_text"], evil);
}

#[test]
fn destructive_commands_ask_at_a_terminal() {
    let server = Server::start();
    let schedule = || {
        for id in ["a", "b"] {
            server.run(&["schedule", "n", id, "--in", "1h", "--tag", "t"]).ok();
        }
    };
    schedule();
    let cancel = ["cancel", "n", "--tag", "t"];
    let (code, shown) = on_a_terminal(server.command(&cancel), "n\n");
    assert_eq!(code, Some(1), "{shown}");
    for part in ["Cancel 2 timers of n at http://", "? [y/N]", "not confirmed: nothing was done"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(server.json(&["namespace", "stats", "n"])["pending"], 2);
    let (code, shown) = on_a_terminal(server.command(&cancel), "y\n");
    assert_eq!((code, shown.contains("2 timers cancelled")), (Some(0), true), "{shown}");
    schedule();
    let (code, shown) = on_a_terminal(server.command(&[&cancel[..], &["--yes"]].concat()), "");
    assert_eq!((code, shown.contains('?')), (Some(0), false), "{shown}");
    schedule();
    let delete = ["namespace", "delete", "n", "--force"];
    let (code, shown) = on_a_terminal(server.command(&delete), "\n");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains(" with 2 pending timers and 0 dead letters?"), "{shown}");
    let (code, _) = on_a_terminal(server.command(&["dead", "purge", "n", "--all"]), "no\n");
    assert_eq!(code, Some(1));
    let (code, _) = on_a_terminal(server.command(&["dead", "overdue", "n"]), "no\n");
    assert_eq!(code, Some(1));
    server.run(&delete).ok();
}
