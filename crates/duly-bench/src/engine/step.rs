//! Steps of a child process: the child's side of [`super::child`].

mod dead;
mod fill;
mod open;

use std::io::{self, Write as _};

use serde::{Deserialize, Serialize};

pub(super) use dead::{DeadStep, Letters, Work};
pub(super) use fill::{Acked, FillStep, Filled, Idle, Request, Usage};
pub(super) use open::{End, OpenStep, Opened};

use crate::error::{Error, Result};

/// A step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Step {
    /// Opens a folder and reports the cost.
    Open(OpenStep),
    /// Fills a store, keeps it open, and serves requests.
    Fill(FillStep),
    /// Makes dead letters, then redrives and purges them.
    Dead(DeadStep),
}

/// Runs a step that is given as JSON, and prints its result.
///
/// # Errors
/// When any part of the step fails. Results printed before the error are valid.
pub fn carry_out(step: &str) -> Result<()> {
    // If the parent is killed, the kernel kills this process, so it does not go on writing.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).ok();
    let step = serde_json::from_str(step).map_err(|error| Error::Unexpected {
        expected: "a step".to_owned(),
        found: error.to_string(),
    })?;
    match step {
        Step::Open(step) => step.carry_out(),
        Step::Fill(step) => step.carry_out(),
        Step::Dead(step) => step.carry_out(),
    }
}

/// Prints one reply as a line.
fn tell(answer: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(answer).map_err(io::Error::from);
    line.and_then(|line| writeln!(io::stdout(), "{line}")).map_err(Error::io("write to", "stdout"))
}
