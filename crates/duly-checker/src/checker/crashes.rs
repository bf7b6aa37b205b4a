//! Times at which the server was down, and the latest effect of a call in doubt.

use crate::history::{Crash, Stop, StoppedProcess};

/// Time after a stop during which its webhooks may still be in progress: requests claimed before
/// the stop and sent after it, or sent before it and read after it.
const ECHO_US: u64 = 2_000_000;

/// The kills of a run, and the stops of the server, the receiver or the run, in order.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    sorted: Vec<Crash>,
    stops: Vec<Stop>,
}

impl Crashes {
    pub(super) fn new(crashes: &[Crash], stops: &[Stop]) -> Self {
        let mut sorted = crashes.to_vec();
        sorted.sort_by_key(|crash| crash.killed_us);
        let of_webhooks = stops.iter().filter(|stop| stop.who != StoppedProcess::Worker);
        Self { sorted, stops: of_webhooks.copied().collect() }
    }

    /// Returns `true` if the server may have stopped waiting for a webhook in this span although
    /// the receiver confirmed it, or the receiver may have read it after that: the server was
    /// killed, or one of the two was stopped.
    pub(super) fn may_disturb_webhooks(&self, from_us: u64, to_us: u64) -> bool {
        let mut stops = self.stops.iter();
        self.overlaps(from_us, to_us)
            || stops.any(|stop| stop.from_us <= to_us && stop.to_us + ECHO_US >= from_us)
    }

    /// Returns `true` if the server was down, or starting, at any time of the span.
    pub(super) fn overlaps(&self, from_us: u64, to_us: u64) -> bool {
        self.sorted.iter().any(|crash| crash.killed_us <= to_us && crash.ready_us >= from_us)
    }

    /// Returns the latest time at which a failed call can have taken effect.
    ///
    /// A killed process keeps nothing of a request, so the bound is a kill:
    ///
    /// 1. If the call was sent before the process ended, and failed before the next process was
    ///    started, the bound is this kill.
    /// 2. Otherwise it is the next kill that ends after the call failed. Without one there is no
    ///    bound.
    pub(super) fn latest_effect_us(&self, sent_us: u64, ended_us: u64) -> u64 {
        let own = self
            .sorted
            .iter()
            .find(|c| sent_us < c.reaped_us && ended_us >= c.killed_us && ended_us <= c.spawned_us);
        let next = || self.sorted.iter().find(|c| c.reaped_us >= ended_us);
        own.or_else(next).map_or(u64::MAX, |c| c.reaped_us)
    }

    /// Returns the first crash whose kill came at this time or later.
    pub(super) fn first_after(&self, us: u64) -> Option<Crash> {
        self.sorted.iter().find(|c| c.killed_us >= us).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_bounds_the_effect_of_calls_in_doubt() {
        let crash = |killed_us, ready_us| Crash {
            killed_us,
            reaped_us: killed_us + 10,
            spawned_us: killed_us + 20,
            ready_us,
        };
        let crashes = Crashes::new(&[crash(500, 600), crash(100, 200)], &[]);
        for (sent, ended, bound) in [
            (90, 105, 110),
            (90, 115, 110),
            (115, 118, 510),
            (150, 190, 510),
            (90, 130, 510),
            (300, 400, 510),
            (300, 505, 510),
            (700, 800, u64::MAX),
        ] {
            assert_eq!(crashes.latest_effect_us(sent, ended), bound, "{sent}..{ended}");
        }
        assert!(crashes.overlaps(190, 300) && crashes.overlaps(50, 100));
        assert!(!crashes.overlaps(201, 499));
    }

    #[test]
    fn a_stop_disturbs_webhooks_and_is_no_crash() {
        let stop = |who, from_us| Stop { who, from_us, to_us: from_us + 100 };
        let crashes = Crashes::new(
            &[],
            &[stop(StoppedProcess::Server, 500), stop(StoppedProcess::Worker, 0)],
        );
        assert!(!crashes.overlaps(500, 600));
        assert!(!crashes.may_disturb_webhooks(0, 499));
        assert!(crashes.may_disturb_webhooks(400, 500));
        assert!(crashes.may_disturb_webhooks(600 + ECHO_US, u64::MAX));
        assert!(!crashes.may_disturb_webhooks(601 + ECHO_US, u64::MAX));
    }
}
