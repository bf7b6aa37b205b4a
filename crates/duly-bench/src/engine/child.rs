//! Child process for work whose memory or death is measured: this program, started with a step.
//!
//! Parent and child exchange lines of JSON: requests on the child's standard input, replies on its
//! standard output. A child ends when its input ends. On Linux it also dies with the parent thread
//! that started it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::{Serialize, de::DeserializeOwned};

use super::step::Step;
use crate::error::{Error, Result};

/// A running child process.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts `program`, or this program, with a step.
    pub(super) fn start(program: Option<&Path>, step: &Step) -> Result<Self> {
        let own = || std::env::current_exe().map_err(Error::io("find", "this program"));
        let program: PathBuf = program.map_or_else(own, |program| Ok(program.to_owned()))?;
        let step = serde_json::to_string(step).expect("a step has only strings and numbers");
        let mut process = Command::new(&program)
            .arg("step")
            .arg(step)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(Error::io("start", &program))?;
        let requests = process.stdin.take().expect("it was asked for");
        let answers = BufReader::new(process.stdout.take().expect("it was asked for"));
        Ok(Self { process, requests, answers })
    }

    /// Sends a request.
    pub(super) fn send(&mut self, request: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(request).expect("requests are plain");
        writeln!(self.requests, "{line}").map_err(Error::io("write to", "another process"))
    }

    /// Returns the next reply; an error if the child has ended.
    pub(super) fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.next()?.ok_or_else(|| Error::Unexpected {
            expected: "an answer of another process".to_owned(),
            found: "its end; what went wrong stands above".to_owned(),
        })
    }

    /// Returns the next complete reply, or `None` if the child has ended.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(Error::io("read from", "another process"))?;
        // A killed child may leave an incomplete line.
        if !line.ends_with('\n') {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(|error| Error::Unexpected {
            expected: "the figures of another process".to_owned(),
            found: format!("{line:?} ({error})"),
        })
    }

    /// Kills the child with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill().map_err(Error::io("kill", "another process"))
    }

    /// Waits for the end of the child.
    pub(super) fn wait(mut self) -> Result<()> {
        self.process.wait().map_err(Error::io("wait for", "another process")).map(drop)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // For a child that has ended this does nothing. A running one must not write any more.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
