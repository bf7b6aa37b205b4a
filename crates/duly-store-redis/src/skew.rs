//! The clock skew between the servers.
//!
//! Each shard uses the clock of its master. So masters with different clocks deliver timers of the same
//! due time at different moments, and a failover between them is a step of the clock.

use std::time::{Duration, Instant};

/// Skew above which the store is not ready.
const SKEW_MAX: Duration = Duration::from_millis(500);

/// A reading of a server's clock.
#[derive(Debug, Clone)]
pub(crate) struct ClockReading {
    pub(crate) server: String,
    /// Unix time that the server returned.
    pub(crate) shown: Duration,
    /// Times of the request and of the reply, by this node's clock.
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// Returns a message about clocks that are certainly too far apart, if there are any: a clock was read
/// at some time between request and reply.
pub(crate) fn find_skew(readings: &[ClockReading]) -> Option<String> {
    let begin = readings.iter().map(|reading| reading.asked).min()?;
    // The clock at `begin`, at least and at most, in Unix time.
    let at_least =
        |r: &ClockReading| r.shown.saturating_sub(r.answered.saturating_duration_since(begin));
    let at_most =
        |r: &ClockReading| r.shown.saturating_sub(r.asked.saturating_duration_since(begin));
    let ahead = readings.iter().max_by_key(|reading| at_least(reading))?;
    let behind = readings.iter().min_by_key(|reading| at_most(reading))?;
    let apart = at_least(ahead).saturating_sub(at_most(behind));
    (apart > SKEW_MAX).then(|| {
        format!(
            "the clock of {} is {} ms ahead of that of {}: synchronise the clocks of all servers \
             (NTP)",
            ahead.server,
            apart.as_millis(),
            behind.server
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn t24_only_certain_clock_skew_is_reported() {
        let begin = Instant::now();
        let reading = |server: &str, shown: u64, asked: u64, answered: u64| ClockReading {
            server: server.to_owned(),
            shown: ms(1_900_000_000_000 + shown),
            asked: begin + ms(asked),
            answered: begin + ms(answered),
        };
        assert_eq!(find_skew(&[]), None);
        let alike = [reading("a", 0, 0, 1), reading("b", 10, 10, 11), reading("c", 400, 20, 21)];
        assert_eq!(find_skew(&alike), None);
        // The reply took a second, so the skew is uncertain.
        assert_eq!(find_skew(&[reading("a", 0, 0, 1), reading("b", 900, 0, 1_000)]), None);
        let apart = [reading("a", 700, 0, 1), reading("b", 0, 0, 1), reading("c", 100, 0, 1)];
        let said = find_skew(&apart).expect("a is ahead");
        assert!(said.starts_with("the clock of a is 699 ms ahead of that of b"), "{said}");
    }
}
