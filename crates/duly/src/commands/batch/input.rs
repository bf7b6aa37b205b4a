//! The operations of the input, in steps that are sent together.
//!
//! 1. An id is at most once in a step. So lines of a step can be sent again, in any order, and the operations on one id
//!    still run in the order of the input.
//! 2. A step ends when the next line would have to be waited for.

use std::{
    collections::HashSet,
    io::{self, Read},
    thread,
};

use serde::Deserialize;
use tokio::sync::mpsc;

use crate::{
    args::lines::{Lines, Text},
    commands::line_format::LineFormat,
};

/// Most operations of a step.
pub(super) const LINES_MAX: usize = 1_000;
/// Bytes of lines after which a step ends.
const BYTES_MAX: usize = 1 << 20;
/// Most steps that were read and not yet carried out.
const STEPS_MAX: usize = 2;

/// An operation.
#[derive(Debug)]
pub(super) struct InputLine {
    /// Number of the line.
    pub(super) number: u64,
    /// The line.
    pub(super) text: Vec<u8>,
}

/// The end of the input before its last line.
#[derive(Debug)]
pub(super) enum Fault {
    /// The input cannot be read.
    Unreadable(io::Error),
    /// The line with this number is longer than any operation.
    TooLong(u64),
    /// The line with this number is of an export.
    Export(u64),
}

/// The steps of an input.
pub(super) struct Steps(mpsc::Receiver<Result<Vec<InputLine>, Fault>>);

impl Steps {
    /// Reads the source on a thread of its own, since a terminal or pipe may block.
    pub(super) fn of(source: impl Read + Send + 'static) -> Self {
        let (sender, steps) = mpsc::channel(STEPS_MAX);
        thread::spawn(move || {
            let sent = read(Lines::new(source), |step| sender.blocking_send(Ok(step)).is_ok());
            if let Err(fault) = sent {
                sender.blocking_send(Err(fault)).ok();
            }
        });
        Self(steps)
    }

    /// Returns the next step, which is not empty; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<InputLine>>, Fault> {
        self.0.recv().await.transpose()
    }
}

/// Reads steps until `send` returns `false`.
fn read(
    mut lines: Lines<impl Read>,
    mut send: impl FnMut(Vec<InputLine>) -> bool,
) -> Result<(), Fault> {
    let (mut step, mut bytes, mut ids) = (Vec::new(), 0, HashSet::new());
    loop {
        let next = match lines.next() {
            Ok(Some(Text::Whole(text))) if LineFormat::of(&text) == Some(LineFormat::Export) => {
                Err(Fault::Export(lines.number()))
            }
            Ok(Some(Text::Whole(text))) => Ok(Some(text)),
            Ok(Some(Text::TooLong)) => Err(Fault::TooLong(lines.number())),
            Ok(None) => Ok(None),
            Err(error) => Err(Fault::Unreadable(error)),
        };
        let id = next.as_ref().ok().and_then(|text| text.as_deref().and_then(id_of));
        let is_again = id.as_ref().is_some_and(|id| ids.contains(id));
        let is_last = !matches!(next, Ok(Some(_)));
        if (is_again || is_last) && !step.is_empty() {
            (bytes, ids) = (0, HashSet::new());
            if !send(std::mem::take(&mut step)) {
                return Ok(());
            }
        }
        let Some(text) = next? else { return Ok(()) };
        bytes += text.len();
        ids.extend(id);
        step.push(InputLine { number: lines.number(), text });
        let is_full = step.len() >= LINES_MAX || bytes >= BYTES_MAX;
        if is_full || !lines.has_next() {
            (bytes, ids) = (0, HashSet::new());
            if !send(std::mem::take(&mut step)) {
                return Ok(());
            }
        }
    }
}

/// Returns the id of an operation, if it has one.
fn id_of(line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Operation {
        id: Option<String>,
    }
    #[derive(Deserialize)]
    struct Peek {
        schedule: Option<Operation>,
        cancel: Option<Operation>,
        reschedule: Option<Operation>,
        fire: Option<Operation>,
    }
    let peek: Peek = serde_json::from_slice(line).ok()?;
    [peek.schedule, peek.cancel, peek.reschedule, peek.fire]
        .into_iter()
        .flatten()
        .find_map(|it| it.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(input: &str) -> (Vec<Vec<u64>>, Result<(), Fault>) {
        let mut steps = Vec::new();
        let ended = read(Lines::new(input.as_bytes()), |step| {
            steps.push(step.iter().map(|line| line.number).collect());
            true
        });
        (steps, ended)
    }

    #[test]
    fn an_id_is_once_in_a_step() {
        let schedule =
            |id: &str| format!("{{\"schedule\":{{\"id\":\"{id}\",\"delay\":\"1h\"}}}}\n");
        let cancel = "{\"cancel\":{\"id\":\"a\"}}\n";
        let free = "{\"schedule\":{\"delay\":\"1h\"}}\n";
        let (a, b) = (schedule("a"), schedule("b"));
        let (steps, ended) = steps(&[&*a, &b, free, free, cancel, &a].concat());
        assert!(ended.is_ok());
        assert_eq!(steps, [vec![1, 2, 3, 4], vec![5], vec![6]]);
    }

    #[test]
    fn a_step_has_an_end_and_lines_before_a_fault_are_sent() {
        let free = "{\"schedule\":{\"delay\":\"1h\"}}\n".repeat(2 * LINES_MAX + 1);
        let (steps, ended) = steps(&format!("{free}\n{{\"timer\":{{}}}}\n"));
        assert_eq!(steps.iter().map(Vec::len).sum::<usize>(), 2 * LINES_MAX + 1);
        assert!(steps.iter().all(|step| step.len() <= LINES_MAX), "{steps:?}");
        assert!(matches!(ended, Err(Fault::Export(line)) if line == 2 * LINES_MAX as u64 + 3));
    }
}
