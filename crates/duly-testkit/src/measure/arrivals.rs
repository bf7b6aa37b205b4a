//! Arrivals of timers: receive time and acknowledgement of each, and wrong deliveries.
//!
//! A timer has a number, which is its id. Receivers note arrivals from many threads without a lock.
//! [`Arrivals::verify`] is called at the end. There is no figure unless every timer arrived exactly
//! once and none before its due time.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use anyhow::{Result, ensure};
use duly_load::receiver::Hear;

use crate::clock::now_us;

/// Due time of a timer that is not scheduled yet: if it arrives, it is early.
const NEVER: u64 = u64::MAX / 1_000;

/// Arrivals of timers 0 to n with known due times.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Due times in Unix ms; [`NEVER`] for a timer that is not scheduled yet.
    dues_ms: Vec<AtomicU64>,
    /// Receive times in Unix µs; 0 for a timer that has not arrived.
    out_us: Vec<AtomicU64>,
    out: AtomicUsize,
    /// Receive time of the last timer that arrived for the first time.
    last_out_us: AtomicU64,
    again: AtomicUsize,
    unknown: AtomicUsize,
    acknowledged: AtomicUsize,
    last_acknowledged_us: AtomicU64,
}

impl Arrivals {
    /// Creates arrivals for as many timers as there are due times (Unix ms).
    pub(super) fn of(dues_ms: &[u64]) -> Self {
        let arrivals = Self::expecting(dues_ms.len());
        arrivals.set_dues(0, dues_ms);
        arrivals
    }

    /// Creates arrivals for `count` timers whose due times are set later.
    pub(super) fn expecting(count: usize) -> Self {
        Self {
            out_us: (0..count).map(|_| AtomicU64::new(0)).collect(),
            dues_ms: (0..count).map(|_| AtomicU64::new(NEVER)).collect(),
            out: AtomicUsize::new(0),
            last_out_us: AtomicU64::new(0),
            again: AtomicUsize::new(0),
            unknown: AtomicUsize::new(0),
            acknowledged: AtomicUsize::new(0),
            last_acknowledged_us: AtomicU64::new(0),
        }
    }

    /// Sets the due times (Unix ms) of the timers from number `first` on.
    pub(super) fn set_dues(&self, first: usize, dues_ms: &[u64]) {
        for (place, due_ms) in self.dues_ms[first..].iter().zip(dues_ms) {
            place.store(*due_ms, Ordering::Relaxed);
        }
    }

    /// Notes the arrival of a timer. Returns its number the first time.
    pub(super) fn note(&self, id: &[u8], received_us: u64) -> Option<usize> {
        let number = std::str::from_utf8(id).ok().and_then(|id| id.parse::<usize>().ok());
        let place = number.and_then(|number| Some((number, self.out_us.get(number)?)));
        let Some((number, place)) = place else {
            self.unknown.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        if place.compare_exchange(0, received_us, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            self.again.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.last_out_us.fetch_max(received_us, Ordering::Relaxed);
        self.out.fetch_add(1, Ordering::Release);
        Some(number)
    }

    /// Returns the callback for a receiver.
    pub(super) fn hear(self: &Arc<Self>) -> Hear {
        let arrivals = Arc::clone(self);
        Arc::new(move |id, received_us| {
            arrivals.note(id, received_us);
        })
    }

    /// Notes that the server has just reported `count` further acknowledgements.
    pub(super) fn note_acknowledged(&self, count: usize) {
        self.last_acknowledged_us.fetch_max(now_us(), Ordering::Relaxed);
        self.acknowledged.fetch_add(count, Ordering::Release);
    }

    /// Returns the number of expected timers.
    pub(super) const fn expected(&self) -> usize {
        self.out_us.len()
    }

    /// Returns the number of timers that have arrived.
    pub(super) fn out(&self) -> usize {
        self.out.load(Ordering::Acquire)
    }

    /// Returns `true` if all timers have arrived.
    pub(super) fn all_out(&self) -> bool {
        self.out() >= self.expected()
    }

    /// Returns the number of acknowledged timers.
    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Acquire)
    }

    /// Returns `true` if all timers are acknowledged.
    pub(super) fn all_acknowledged(&self) -> bool {
        self.acknowledged() >= self.expected()
    }

    /// Returns the receive time of the last timer (Unix µs).
    pub(super) fn last_out_us(&self) -> u64 {
        self.last_out_us.load(Ordering::Relaxed)
    }

    /// Returns the time of the last acknowledgement (Unix µs).
    pub(super) fn last_acknowledged_us(&self) -> u64 {
        self.last_acknowledged_us.load(Ordering::Relaxed)
    }

    /// Returns the receive times (Unix µs) by number; 0 for a timer that has not arrived.
    pub(super) fn times_us(&self) -> Vec<u64> {
        self.out_us.iter().map(|at| at.load(Ordering::Relaxed)).collect()
    }

    /// Returns due time (Unix µs) and lateness (µs) of a range of timers, without those that have
    /// not arrived.
    pub(super) fn lateness_us(&self, numbers: Range<usize>) -> Vec<(u64, u64)> {
        let places = self.dues_ms[numbers.clone()].iter().zip(&self.out_us[numbers]);
        places
            .map(|(due_ms, out_us)| {
                (due_ms.load(Ordering::Relaxed) * 1_000, out_us.load(Ordering::Relaxed))
            })
            .filter(|(_, out_us)| *out_us > 0)
            .map(|(due_us, out_us)| (due_us, out_us.saturating_sub(due_us)))
            .collect()
    }

    /// Returns an error unless every timer arrived exactly once, and none early.
    pub(super) fn verify(&self) -> Result<()> {
        let again = self.again.load(Ordering::Relaxed);
        let unknown = self.unknown.load(Ordering::Relaxed);
        let came = self.times_us().into_iter().zip(&self.dues_ms);
        let early = came
            .filter(|(at_us, due_ms)| *at_us > 0 && *at_us < due_ms.load(Ordering::Relaxed) * 1_000)
            .count();
        ensure!(
            self.all_out() && again == 0 && unknown == 0 && early == 0,
            "of {} timers {} came; {again} deliveries more than once, {unknown} of no timer that \
             was scheduled, {early} early",
            self.expected(),
            self.out(),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verify_requires_each_timer_once_and_none_early() {
        let came = |notes: &[(&str, u64)]| {
            let arrivals = Arrivals::of(&[5, 6]);
            for (id, at_us) in notes {
                arrivals.note(id.as_bytes(), *at_us);
            }
            arrivals
        };
        let right = came(&[("1", 6_000), ("0", 5_001)]);
        right.verify().unwrap();
        assert_eq!((right.out(), right.last_out_us()), (2, 6_000));
        assert_eq!(right.times_us(), [5_001, 6_000]);
        assert_eq!(right.lateness_us(0..1), [(5_000, 1)]);
        for (wrong, said) in [
            (&[("0", 5_000)][..], "1 came"),
            (&[("0", 5_000), ("1", 6_000), ("1", 6_001)], "1 deliveries more than once"),
            (&[("0", 5_000), ("1", 6_000), ("2", 6_001)], "1 of no timer"),
            (&[("0", 5_000), ("1", 6_000), ("x", 6_001)], "1 of no timer"),
            (&[("0", 4_999), ("1", 6_000)], "1 early"),
        ] {
            let error = came(wrong).verify().unwrap_err().to_string();
            assert!(error.contains(said), "{wrong:?}: {error}");
        }
    }

    #[test]
    fn arrivals_before_scheduling_count_as_early() {
        let arrivals = Arrivals::expecting(1);
        assert!(arrivals.lateness_us(0..1).is_empty());
        arrivals.note(b"0", crate::clock::now_us());
        assert!(arrivals.verify().is_err());
        arrivals.set_dues(0, &[1]);
        arrivals.verify().unwrap();
    }

    #[test]
    fn acknowledgements_are_counted_apart() {
        let arrivals = Arrivals::of(&[0; 3]);
        arrivals.note_acknowledged(2);
        assert!(!arrivals.all_acknowledged() && arrivals.out() == 0);
        arrivals.note_acknowledged(1);
        assert!(arrivals.all_acknowledged() && arrivals.last_acknowledged_us() > 0);
    }
}
