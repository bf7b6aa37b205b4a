//! A shell that runs the commands of a page.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use rustix::process::{Pid, Signal};

use super::terminals::Place;
use crate::harness::{DEADLINE, WITHOUT_RESERVE, program};

/// Printed when a command has ended.
const END: &str = "~~ the command has ended ~~";

/// A shell. It and all processes started from it are killed at the end.
pub(super) struct Shell<'a> {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    place: &'a Place,
}

impl<'a> Shell<'a> {
    /// Starts a shell.
    pub(super) fn start(place: &'a Place) -> Self {
        let path = std::env::var("PATH").expect("there is a path");
        let mut child = program("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(place.path())
            .env("PATH", format!("{}:{path}", Place::programs().display()))
            .env("DULY_SERVER", format!("http://{}", place.server()))
            .env("DULY_SERVER__LISTEN", place.server())
            // At a terminal Python prints each line at once.
            .env("PYTHONUNBUFFERED", "1")
            .envs(WITHOUT_RESERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("bash starts");
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        // With -S a silent curl prints why it failed.
        stdin.write_all(b"exec 2>&1\ncurl() { command curl -S \"$@\"; }\n").expect("bash reads");
        Self { child, stdin, lines, place }
    }

    /// Runs a command. Returns its output without empty lines at the end.
    pub(super) fn run(&mut self, command: &str) -> Vec<String> {
        let command = self.place.here(command);
        // Its own standard input has the next commands, which this command must not read.
        let typed = format!("{{ {command}\n}} < /dev/null\nprintf '\\n%s\\n' '{END}'\n");
        self.stdin.write_all(typed.as_bytes()).expect("bash reads");
        let mut printed = Vec::new();
        loop {
            let line = self.lines.recv_timeout(DEADLINE).expect("the command ends");
            if line == END {
                break;
            }
            printed.push(line);
        }
        while printed.last().is_some_and(String::is_empty) {
            printed.pop();
        }
        printed.iter().map(|line| self.place.as_in_pages(line)).collect()
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}
