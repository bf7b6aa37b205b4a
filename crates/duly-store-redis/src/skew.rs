//! How far the clocks of the servers are apart.
//!
//! Each shard goes by the clock of its master, so masters that disagree fire the same hour at
//! different moments, and a failover between them is a step of the clock.

use std::time::{Duration, Instant};

/// Further apart is a reason not to be ready.
const APART_MAX: Duration = Duration::from_millis(500);

/// What a server's clock showed.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) server: String,
    /// Since 1970.
    pub(crate) shown: Duration,
    /// When it was asked and when the answer was here.
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

/// Says which clocks are too far apart, if any are for certain: a reading lies somewhere between
/// question and answer.
pub(crate) fn too_far_apart(readings: &[Reading]) -> Option<String> {
    let begin = readings.iter().map(|reading| reading.asked).min()?;
    // The clock at `begin`, at least and at most, in Unix time.
    let at_least =
        |r: &Reading| r.shown.saturating_sub(r.answered.saturating_duration_since(begin));
    let at_most = |r: &Reading| r.shown.saturating_sub(r.asked.saturating_duration_since(begin));
    let ahead = readings.iter().max_by_key(|reading| at_least(reading))?;
    let behind = readings.iter().min_by_key(|reading| at_most(reading))?;
    let apart = at_least(ahead).saturating_sub(at_most(behind));
    (apart > APART_MAX).then(|| {
        format!(
            "the clock of {} is {} ms ahead of that of {}: have the clocks of all servers kept alike \
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
    fn t24_only_clocks_that_are_apart_for_certain_are_named() {
        let begin = Instant::now();
        let reading = |server: &str, shown: u64, asked: u64, answered: u64| Reading {
            server: server.to_owned(),
            shown: ms(1_900_000_000_000 + shown),
            asked: begin + ms(asked),
            answered: begin + ms(answered),
        };
        assert_eq!(too_far_apart(&[]), None);
        let alike = [reading("a", 0, 0, 1), reading("b", 10, 10, 11), reading("c", 400, 20, 21)];
        assert_eq!(too_far_apart(&alike), None);
        // The answer took a second: nobody knows.
        assert_eq!(too_far_apart(&[reading("a", 0, 0, 1), reading("b", 900, 0, 1_000)]), None);
        let apart = [reading("a", 700, 0, 1), reading("b", 0, 0, 1), reading("c", 100, 0, 1)];
        let said = too_far_apart(&apart).expect("a is ahead");
        assert!(said.starts_with("the clock of a is 699 ms ahead of that of b"), "{said}");
    }
}
