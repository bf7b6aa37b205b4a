//! The other terminals of a page: a server in the first one, a receiver in the third one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use duly_redis_testkit::server::free_port;
use rustix::process::Signal;
use tempfile::TempDir;

use super::{page::Step, plain};
use crate::harness::{Process, duly};

const SERVE: &str = "duly serve";
/// Commands that do not end by themselves, and the name of their terminal in a page.
const STAYING: [(&str, &str); 3] =
    [(SERVE, "first terminal"), (SERVE, " there"), ("duly receive", "third terminal")];

/// Programs of the guide that the reader of a page saves.
const SAVED: [&str; 4] =
    ["receivers/receiver.py", "workers/worker.py", "workers/worker.sh", "reminders/due_at.py"];

/// The ports in the pages: of the server, of a receiver, and of a second server.
const SHOWN: [&str; 3] = ["3859", "4000", "3869"];

/// The place of all terminals: a directory with the programs that readers save, and the ports of the
/// pages.
pub(super) struct Place {
    directory: TempDir,
    /// Each port in the pages, with the port here.
    ports: [(&'static str, String); 3],
}

impl Place {
    /// Returns a place with an empty directory.
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide");
        for program in SAVED {
            let name = Path::new(program).file_name().expect("a file");
            fs::copy(guide.join(program), directory.path().join(name)).expect("it is copied");
        }
        // None may contain a port of the pages, which would be replaced in turn.
        let port = || loop {
            let port = free_port().to_string();
            if !SHOWN.iter().any(|shown| port.contains(shown)) {
                return port;
            }
        };
        Self { directory, ports: SHOWN.map(|shown| (shown, port())) }
    }

    /// Returns the directory.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the address of the server.
    pub(super) fn server(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0].1)
    }

    /// Returns the directory of the `duly` binary.
    pub(super) fn programs() -> PathBuf {
        let binary = Path::new(env!("CARGO_BIN_EXE_duly"));
        binary.parent().expect("it is in a folder").to_owned()
    }

    /// Returns a command of a page with the ports of this place.
    pub(super) fn here(&self, command: &str) -> String {
        let mut command = command.to_owned();
        for (shown, here) in &self.ports {
            command = command.replace(shown, here);
        }
        command
    }

    /// Returns printed text with the ports of the pages.
    pub(super) fn as_in_pages(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (shown, here) in &self.ports {
            line = line.replace(here, shown);
        }
        // Printed only if the server does not have the default port.
        line.replace(" --server http://127.0.0.1:3859", "")
    }
}

/// The processes in the terminals.
pub(super) struct Terminals<'a> {
    place: &'a Place,
    running: Vec<(&'static str, Process)>,
}

impl<'a> Terminals<'a> {
    /// Returns terminals without processes.
    pub(super) fn new(place: &'a Place) -> Self {
        Self { place, running: Vec::new() }
    }

    /// Starts a server in the first terminal, before any page is read.
    pub(super) fn serve(&mut self) {
        let mut process = Process::of(self.command(SERVE));
        process.address();
        self.running.push((SERVE, process));
    }

    /// Starts a command that does not end by itself; returns `false` for any other command.
    pub(super) fn start(&mut self, command: &str) -> bool {
        let Some((name, _)) = STAYING.into_iter().find(|(name, _)| *name == command) else {
            return false;
        };
        let is_running = self.running.iter().any(|(running, _)| *running == name);
        assert!(!is_running, "{name} runs already: nothing has said to press Ctrl-C");
        let process = Process::of(self.command(name));
        self.running.push((name, process));
        true
    }

    fn command(&self, name: &str) -> Command {
        let mut command = duly();
        command.current_dir(self.place.path());
        command.args(name.split(' ').skip(1));
        match name == SERVE {
            true => command.env("DULY_SERVER__LISTEN", self.place.server()),
            false => command.args(["--listen", &self.place.here("127.0.0.1:4000")]),
        };
        command
    }

    /// Compares the output of the last started command with the shown one. An error has the other
    /// output.
    pub(super) fn compare(&mut self, step: &Step) -> Result<(), Vec<String>> {
        let (_, process) = self.running.last_mut().expect("one was typed in");
        let mut printed = Vec::new();
        while !plain::is_as_shown(&step.shown, &printed) {
            if printed.len() > step.shown.len() + 10 {
                return Err(printed);
            }
            printed.push(self.place.as_in_pages(&process.line()));
        }
        Ok(())
    }

    /// Presses Ctrl-C if a line of a page tells the reader to.
    pub(super) fn interrupt(&mut self, line: &str) {
        let line = line.to_lowercase();
        let Some((_, behind)) = line.split_once("press ctrl-c") else { return };
        let named = STAYING.iter().filter_map(|(name, words)| Some((behind.find(words)?, *name)));
        let (_, name) = named.min().unwrap_or_else(|| panic!("in which terminal? {line}"));
        self.running.retain_mut(|(running, process)| {
            if *running != name {
                return true;
            }
            process.signal(Signal::INT);
            let (status, stderr) = process.ended();
            assert!(status.success(), "{name}: {status}: {stderr}");
            false
        });
    }
}
