//! A process of its own for work whose memory or death is measured: this program again, with a step
//! to carry out.
//!
//! They talk in lines of JSON: requests on the child's standard input, answers on its standard
//! output. A child ends when its input does, and dies with the thread that started it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{self, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::{Serialize, de::DeserializeOwned};

use super::step::Step;
use crate::error::{Error, Result};

/// A running child.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts the program, or this one, on a step.
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

    /// The next answer; an error when the child has ended.
    pub(super) fn answer<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.next()?.ok_or_else(|| Error::Unexpected {
            expected: "an answer of another process".to_owned(),
            found: "its end; what went wrong stands above".to_owned(),
        })
    }

    /// The next whole answer, or `None` when the child has ended.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(Error::io("read from", "another process"))?;
        // A child that is killed may leave a part of a line.
        if !line.ends_with('\n') {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(|error| Error::Unexpected {
            expected: "the figures of another process".to_owned(),
            found: format!("{line:?} ({error})"),
        })
    }

    /// Kills it with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.kill().map_err(Error::io("kill", "another process"))
    }

    /// Waits for its end.
    pub(super) fn wait(mut self) -> Result<()> {
        self.process.wait().map_err(Error::io("wait for", "another process")).map(drop)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // One that ended is not killed again; one that did not must not go on writing.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
