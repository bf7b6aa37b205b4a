//! Ledger: the state of every timer of a run, by its number, in five bytes each.
//!
//! The run reports each timer that it requests, and each one that is acknowledged, cancelled or
//! fired. At the end the ledger counts timers that are lost, early, delivered twice, or delivered
//! after a confirmed cancellation. Only certain faults count: a timer without an acknowledgement
//! may fire or not.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use serde::Serialize;

const ASKED: u8 = 1;
const ACKNOWLEDGED: u8 = 2;
const CANCELLED: u8 = 4;
const FIRED: u8 = 8;
const SETTLED: u8 = 16;

/// All timers of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    base_ms: u64,
    flags: Box<[AtomicU8]>,
    /// Acknowledged due times, in milliseconds after `base_ms`.
    dues: Box<[AtomicU32]>,
    refused: AtomicU64,
    duplicates: AtomicU64,
    early: AtomicU64,
    after_cancel: AtomicU64,
    unexpected: AtomicU64,
    fired: AtomicU64,
    settled: AtomicU64,
}

/// Tells whether every due firing had the time to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// It had: a firing that did not arrive is lost.
    Yes,
    /// The run did not wait for the firings.
    No,
}

/// Totals of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Timers that were requested.
    pub(crate) attempted: u64,
    /// Timers whose schedule call the server confirmed.
    pub(crate) acknowledged: u64,
    /// Operations that the server refused.
    pub(crate) refused: u64,
    /// Timers whose cancellation the server confirmed.
    pub(crate) cancelled: u64,
    /// Timers that fired.
    pub(crate) fired: u64,
    /// Timers whose ack the server confirmed.
    pub(crate) settled: u64,
    /// Timers that were acknowledged, not cancelled, and never fired.
    pub(crate) lost: u64,
    /// Firings of a timer that had fired before.
    pub(crate) duplicates: u64,
    /// Firings before the due time.
    pub(crate) early: u64,
    /// Firings after a confirmed cancellation.
    pub(crate) after_cancel: u64,
    /// Firings of timers that the run did not request.
    pub(crate) unexpected: u64,
}

impl Ledger {
    /// Creates a ledger for `timers` timers. None may be due before `base_ms`.
    pub(crate) fn new(timers: usize, base_ms: u64) -> Self {
        Self {
            base_ms,
            flags: (0..timers).map(|_| AtomicU8::new(0)).collect(),
            dues: (0..timers).map(|_| AtomicU32::new(0)).collect(),
            refused: AtomicU64::default(),
            duplicates: AtomicU64::default(),
            early: AtomicU64::default(),
            after_cancel: AtomicU64::default(),
            unexpected: AtomicU64::default(),
            fired: AtomicU64::default(),
            settled: AtomicU64::default(),
        }
    }

    /// Notes that a timer is about to be requested.
    pub(crate) fn asked(&self, number: u64) {
        self.set(number, ASKED);
    }

    /// Notes that the server has the timer, with this due time. Calls for one timer must come in
    /// the order of its changes.
    pub(crate) fn acknowledged(&self, number: u64, due_ms: u64) {
        let Some(place) = self.place(number) else { return };
        let offset = u32::try_from(due_ms.saturating_sub(self.base_ms)).unwrap_or(u32::MAX);
        self.dues[place].store(offset, Relaxed);
        self.flags[place].fetch_or(ACKNOWLEDGED, Relaxed);
    }

    /// Notes that the server has cancelled the timer.
    pub(crate) fn cancelled(&self, number: u64) {
        if let Some(place) = self.place(number)
            && self.flags[place].fetch_or(CANCELLED, Relaxed) & FIRED != 0
        {
            self.after_cancel.fetch_add(1, Relaxed);
        }
    }

    /// Counts a refused operation.
    pub(crate) fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Notes a firing and its receive time (Unix µs). Returns its lateness in µs if it is the first
    /// firing of an acknowledged timer of this run.
    pub(crate) fn fired(&self, number: Option<u64>, received_us: u64) -> Option<u64> {
        let place = number.and_then(|number| self.place(number));
        let before = place.map_or(0, |place| self.flags[place].fetch_or(FIRED, Relaxed));
        let Some(place) = place.filter(|_| before & ASKED != 0) else {
            self.unexpected.fetch_add(1, Relaxed);
            return None;
        };
        if before & FIRED != 0 {
            self.duplicates.fetch_add(1, Relaxed);
            return None;
        }
        self.fired.fetch_add(1, Relaxed);
        if before & CANCELLED != 0 {
            self.after_cancel.fetch_add(1, Relaxed);
        }
        if before & ACKNOWLEDGED == 0 {
            return None;
        }
        let due_us = (self.base_ms + u64::from(self.dues[place].load(Relaxed))) * 1_000;
        if received_us < due_us {
            self.early.fetch_add(1, Relaxed);
        }
        Some(received_us.saturating_sub(due_us))
    }

    /// Notes that the server accepted the ack of the timer. Returns `true` the first time.
    pub(crate) fn settled(&self, number: u64) -> bool {
        let Some(place) = self.place(number) else { return false };
        let is_first = self.flags[place].fetch_or(SETTLED, Relaxed) & SETTLED == 0;
        self.settled.fetch_add(u64::from(is_first), Relaxed);
        is_first
    }

    /// Returns `true` if the acks of all these timers were accepted.
    pub(crate) fn all_settled(&self, mut numbers: std::ops::Range<u64>) -> bool {
        numbers.all(|number| {
            self.place(number).is_some_and(|place| self.flags[place].load(Relaxed) & SETTLED != 0)
        })
    }

    /// Returns the number of timers that have fired.
    pub(crate) fn fired_so_far(&self) -> u64 {
        self.fired.load(Relaxed)
    }

    /// Returns the totals. No call may be in progress.
    pub(crate) fn counts(&self, drained: Drained) -> Counts {
        let mut counts = Counts {
            refused: self.refused.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            early: self.early.load(Relaxed),
            after_cancel: self.after_cancel.load(Relaxed),
            unexpected: self.unexpected.load(Relaxed),
            fired: self.fired.load(Relaxed),
            settled: self.settled.load(Relaxed),
            ..Counts::default()
        };
        for flags in &self.flags {
            let flags = flags.load(Relaxed);
            let has = |flag| u64::from(flags & flag != 0);
            counts.attempted += has(ASKED);
            counts.acknowledged += has(ACKNOWLEDGED);
            counts.cancelled += has(CANCELLED);
            let was_due = flags & ACKNOWLEDGED != 0 && flags & (CANCELLED | FIRED) == 0;
            counts.lost += u64::from(was_due && drained == Drained::Yes);
        }
        counts
    }

    fn set(&self, number: u64, flag: u8) {
        if let Some(place) = self.place(number) {
            self.flags[place].fetch_or(flag, Relaxed);
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number).ok().filter(|place| *place < self.flags.len())
    }
}

impl Counts {
    /// Describes the broken promises of the server; empty if there is none.
    pub(crate) fn broken(&self) -> Vec<String> {
        let all = [
            (self.lost, "lost: acknowledged and never fired"),
            (self.duplicates, "fired twice"),
            (self.early, "early"),
            (self.after_cancel, "fired although cancelled"),
            (self.unexpected, "fired and were never asked for"),
        ];
        let said = all.into_iter().filter(|(count, _)| *count > 0);
        said.map(|(count, words)| format!("{count} {words}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_must_never_happen_is_counted() {
        let ledger = Ledger::new(6, 1_000);
        (0..6).for_each(|number| ledger.asked(number));
        (0..5).for_each(|number| ledger.acknowledged(number, 1_500));
        assert_eq!(ledger.fired(Some(0), 1_500_250), Some(250));
        assert!(ledger.settled(0) && !ledger.settled(0) && !ledger.settled(6));
        assert_eq!(ledger.fired(Some(0), 1_500_900), None);
        assert_eq!(ledger.fired(Some(1), 1_499_999), Some(0));
        ledger.cancelled(2);
        ledger.fired(Some(2), 1_500_000);
        ledger.cancelled(3);
        assert_eq!(ledger.fired(Some(5), 1_500_000), None, "its due time is not known");
        ledger.fired(Some(6), 1_500_000);
        ledger.fired(None, 1_500_000);
        let counts = ledger.counts(Drained::Yes);
        let expected = Counts {
            attempted: 6,
            acknowledged: 5,
            refused: 0,
            cancelled: 2,
            fired: 4,
            settled: 1,
            lost: 1,
            duplicates: 1,
            early: 1,
            after_cancel: 1,
            unexpected: 2,
        };
        assert_eq!(counts, expected);
        assert_eq!(counts.broken().len(), 5);
        assert_eq!(ledger.counts(Drained::No).lost, 0);
    }
}
