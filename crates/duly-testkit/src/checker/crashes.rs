//! When the server was down, and how long a call in doubt can still take effect.

use crate::history::Crash;

/// The kills of a run, in order.
#[derive(Debug, Default)]
pub(super) struct Crashes {
    sorted: Vec<Crash>,
}

impl Crashes {
    pub(super) fn new(crashes: &[Crash]) -> Self {
        let mut sorted = crashes.to_vec();
        sorted.sort_by_key(|crash| crash.killed_us);
        Self { sorted }
    }

    /// Whether the server was down, or starting, at some moment of the span.
    pub(super) fn touch(&self, from_us: u64, to_us: u64) -> bool {
        self.sorted.iter().any(|crash| crash.killed_us <= to_us && crash.ready_us >= from_us)
    }

    /// The latest time at which a call that failed can have taken effect.
    ///
    /// A process keeps nothing of a request when it is killed, so that is the next kill. Where the
    /// call was sent before the process was gone and had failed before the next one was started,
    /// it is that very kill; otherwise the next that ends after the call had failed, or never.
    pub(super) fn bound_us(&self, sent_us: u64, ended_us: u64) -> u64 {
        let own = self
            .sorted
            .iter()
            .find(|c| sent_us < c.reaped_us && ended_us >= c.killed_us && ended_us <= c.spawned_us);
        let next = || self.sorted.iter().find(|c| c.reaped_us >= ended_us);
        own.or_else(next).map_or(u64::MAX, |c| c.reaped_us)
    }

    /// Whether some kill came after this time, and when that server was ready again.
    pub(super) fn first_after(&self, us: u64) -> Option<Crash> {
        self.sorted.iter().find(|c| c.killed_us >= us).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_doubt_ends_with_the_process_that_had_it() {
        let crash = |killed_us, ready_us| Crash {
            killed_us,
            reaped_us: killed_us + 10,
            spawned_us: killed_us + 20,
            ready_us,
        };
        let crashes = Crashes::new(&[crash(500, 600), crash(100, 200)]);
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
            assert_eq!(crashes.bound_us(sent, ended), bound, "{sent}..{ended}");
        }
        assert!(crashes.touch(190, 300) && crashes.touch(50, 100));
        assert!(!crashes.touch(201, 499));
    }
}
