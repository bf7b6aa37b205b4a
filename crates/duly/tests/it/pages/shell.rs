//! A shell that is typed into.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use super::PORTS;
use crate::harness::DEADLINE;

/// Printed when a command has ended.
const END: &str = "~~ the command has ended ~~";

/// One shell in an empty directory that has the checkout's `docs`. It and all that was started from
/// it is killed at the end.
pub(super) struct Shell {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// What stands in the pages, and what that is here.
    ports: [(&'static str, String); 2],
    _directory: TempDir,
}

impl Shell {
    /// Starts one for a server.
    pub(super) fn start(server: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        symlink(docs, directory.path().join("docs")).expect("a link can be made");
        let binary = Path::new(env!("CARGO_BIN_EXE_duly")).parent().expect("it is in a folder");
        let path = std::env::var("PATH").expect("there is a path");
        let mut child = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(directory.path())
            .env("PATH", format!("{}:{path}", binary.display()))
            .env("DULY_SERVER", server)
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
        stdin.write_all(b"exec 2>&1\n").expect("bash reads");
        let served = server.rsplit(':').next().expect("an address has a port").to_owned();
        // Free a moment ago; nobody else takes ports that it was not given.
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let free = free.local_addr().expect("bound").port().to_string();
        let ports = [(PORTS[0], served), (PORTS[1], free)];
        Self { child, stdin, lines, ports, _directory: directory }
    }

    /// Runs a command: what it printed, without empty lines at the end.
    pub(super) fn run(&mut self, command: &str) -> Vec<String> {
        let mut command = command.to_owned();
        for (shown, here) in &self.ports {
            command = command.replace(shown, here);
        }
        // Its own standard input is what is typed here next: not for the command to read.
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
        for line in &mut printed {
            for (shown, here) in &self.ports {
                *line = line.replace(here, shown);
            }
        }
        printed
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            rustix::process::kill_process_group(group, Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}
