//! Calls whose answers are kept whole, for the judge: what was asked, what came, what was left.
//!
//! A payload begins with its mark, a number used once, and goes on with filler to its length, so that
//! a payload of another call, or half of one, is noticed.

use anyhow::Result;
use duly_checker::history::{Action, Answer, EndState};
use futures::future::BoxFuture;

/// Digits of a mark in a payload, and so its least length.
pub(crate) const MARK_BYTES: usize = 16;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The timer's number, which is its id.
    pub number: u64,
    /// Schedule, reschedule or cancel, with due times that are instants.
    pub action: Action,
    /// A schedule takes the place of what is there.
    pub replaces: bool,
}

/// A leased firing, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The id, whatever it is.
    pub id: String,
    /// Names the lease.
    pub token: String,
    /// As told.
    pub delivery_id: String,
    /// As told.
    pub occurrence: u32,
    /// As told, from 1.
    pub attempt: u32,
    /// When it was due, Unix ms.
    pub due_ms: u64,
    /// When the lease ends, Unix ms.
    pub leased_until_ms: u64,
    /// The mark of its payload; `None` where that is not as it was sent.
    pub mark: Option<u64>,
}

/// What a read of a timer answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Its state.
    pub state: EndState,
    /// Its due time, Unix ms, where it has one.
    pub due_ms: Option<u64>,
    /// The mark of its payload, where it has one.
    pub mark: Option<u64>,
}

/// A server whose answers are kept. Every error means that the outcome is not known.
pub trait Witness: Send + Sync {
    /// Sends operations together; answers what became of each.
    fn ask<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        asks: &'a [Ask],
    ) -> BoxFuture<'a, Result<Vec<Answer>>>;

    /// Leases what is due, waiting so long for the first.
    fn take<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Taken>>>;

    /// Reads a timer.
    fn read<'a>(
        &'a self,
        line: usize,
        namespace: &'a str,
        id: &'a str,
    ) -> BoxFuture<'a, Result<Last>>;
}

/// The payload with this mark, as long as the filler but no shorter than the mark.
pub fn marked(mark: u64, filler: &str) -> String {
    let rest = filler.get(MARK_BYTES..).unwrap_or_default();
    format!("{mark:016x}{rest}")
}

/// The mark of a payload, if it is exactly what [`marked`] makes.
pub fn mark_of(payload: &[u8], filler: &str) -> Option<u64> {
    let (digits, rest) = payload.split_at_checked(MARK_BYTES)?;
    let mark = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (rest == filler.get(MARK_BYTES..).unwrap_or_default().as_bytes()).then_some(mark)
}

/// Whether a refusal with this code leaves open what was done.
pub(super) fn is_in_doubt(code: &str) -> bool {
    matches!(code, "unavailable" | "aborted" | "deadline_exceeded" | "internal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_names_its_mark_only_when_it_is_whole() {
        let filler = "0123456789abcdef0123";
        for mark in [0, 7, u64::MAX] {
            let payload = marked(mark, filler);
            assert_eq!(payload.len(), filler.len());
            assert_eq!(mark_of(payload.as_bytes(), filler), Some(mark));
            for cut in 0..payload.len() {
                assert_eq!(mark_of(&payload.as_bytes()[..cut], filler), None, "cut at {cut}");
            }
        }
        assert_eq!(mark_of(marked(7, "").as_bytes(), ""), Some(7));
        assert_eq!(mark_of(b"000000000000000701x3", filler), None);
    }
}
