//! Lines that are not written, with the reason, and the bounds that keep them from the file.
//!
//! A key that may only read can make any number of calls. So lines about calls that changed nothing have a share of
//! each file, and each caller has a part of the share: they cannot rotate the lines about changes away. Streams have no
//! shares: nothing is lost there for want of space.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    time::{Duration, Instant},
};

use duly_api::access::AuditRecord;
use duly_core::metric_names as names;
use metrics::counter;
use parking_lot::Mutex;

/// Lines a second of callers without a key.
pub(super) const UNKNOWN_MAX: u32 = 100;
/// Callers that are told apart; more share parts.
const CALLERS: usize = 4_096;
/// Time after which the shares begin again in the same file: a log without changes keeps recording refusals.
const SHARES_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// The reason why a line is lost.
#[derive(Debug, Clone, Copy)]
pub(super) enum DropReason {
    /// Lines could not be written for too long.
    Unwritten,
    /// Callers without a key have too many lines.
    Stranger,
    /// Calls that changed nothing have had their share.
    Share,
    /// The log of the store is full, and no caller has more entries.
    Displaced,
}

/// Counts lines that are lost.
pub(super) fn dropped(target: &'static str, reason: DropReason, lines: usize) {
    let reason = match reason {
        DropReason::Unwritten => "unwritten",
        DropReason::Stranger => "stranger",
        DropReason::Share => "share",
        DropReason::Displaced => "displaced",
    };
    let counter = counter!(names::AUDIT_DROPPED_TOTAL, "target" => target, "reason" => reason);
    counter.increment(lines as u64);
}

/// Bounds the lines of callers without a key.
#[derive(Debug, Default)]
pub(super) struct UnknownCallers(Mutex<(Option<Instant>, u32)>);

impl UnknownCallers {
    /// Returns `true` if another line may be written in this second.
    pub(super) fn admit(&self, now: Instant) -> bool {
        let mut state = self.0.lock();
        let (since, lines) = &mut *state;
        if since.is_none_or(|since| now.saturating_duration_since(since) >= Duration::from_secs(1))
        {
            (*since, *lines) = (Some(now), 0);
        }
        *lines += 1;
        *lines <= UNKNOWN_MAX
    }
}

/// A line for the file.
#[derive(Debug)]
pub(super) struct Line {
    /// The text, with its end of line.
    pub(super) text: Vec<u8>,
    /// The caller of a call that changed nothing: the origin of its key or the key, and the subject; or the address.
    pub(super) shared_by: Option<String>,
}

impl Line {
    pub(super) fn new(record: &AuditRecord, has_changed_nothing: bool) -> Self {
        let mut text = serde_json::to_vec(record).expect("text and numbers are JSON");
        text.push(b'\n');
        let AuditRecord { key, origin, subject, address, .. } = record;
        let of = |it: &Option<String>| it.clone().unwrap_or_default();
        let caller = || match origin.as_ref().or(key.as_ref()) {
            Some(key) => format!("{key} {}", of(subject)),
            None => of(address),
        };
        Self { text, shared_by: has_changed_nothing.then(caller) }
    }
}

/// The bytes of lines about calls that changed nothing, in the present file.
#[derive(Debug)]
pub(super) struct Shares {
    all: u64,
    callers: Box<[u64]>,
    since: Instant,
    hash: RandomState,
}

impl Shares {
    pub(super) fn new() -> Self {
        let callers = vec![0; CALLERS].into_boxed_slice();
        Self { all: 0, callers, since: Instant::now(), hash: RandomState::new() }
    }

    /// Begins again, with a new file.
    pub(super) fn reset(&mut self) {
        (self.all, self.since) = (0, Instant::now());
        self.callers.fill(0);
    }

    /// Returns `true` if a line may be written to a file of this size: calls that changed nothing have half of it, and
    /// each caller has a sixteenth of it.
    pub(super) fn admit(&mut self, line: &Line, file_bytes_max: u64) -> bool {
        let Some(caller) = &line.shared_by else { return true };
        if self.since.elapsed() >= SHARES_FOR {
            self.reset();
        }
        let place = usize::try_from(self.hash.hash_one(caller) % CALLERS as u64).expect("small");
        let own = &mut self.callers[place];
        let is_admitted = self.all < file_bytes_max / 2 && *own < file_bytes_max / 16;
        if is_admitted {
            let bytes = line.text.len() as u64;
            (self.all, *own) = (self.all + bytes, *own + bytes);
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_changed_nothing_have_a_share_of_each_file() {
        const FILE_BYTES: u64 = 64_000;
        let mut shares = Shares::new();
        let line = |caller: Option<u64>| Line {
            text: vec![b'x'; 100],
            shared_by: caller.map(|it| it.to_string()),
        };
        let written = |shares: &mut Shares, caller| {
            (0..1_000).filter(|_| shares.admit(&line(caller), FILE_BYTES)).count()
        };
        for _ in 0..2 {
            assert_eq!(written(&mut shares, Some(0)), 40, "a sixteenth for a caller");
            let others: usize = (1..99).map(|it| written(&mut shares, Some(it))).sum();
            assert_eq!(others, 280, "half for all of them");
            assert_eq!(written(&mut shares, None), 1_000, "all lines about changes");
            shares.reset();
        }
        assert_eq!(written(&mut shares, Some(0)), 40);
        shares.since -= SHARES_FOR;
        assert_eq!(written(&mut shares, Some(0)), 40, "the next day");
    }
}
