//! Formats times for people: the time, and its distance from now.

use std::time::{SystemTime, UNIX_EPOCH};

use duly_api::Time;
use duly_core::Timestamp;

/// Units of a distance, in descending order, in milliseconds.
const UNITS: [(&str, u64); 4] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// Returns the time of this machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::saturating_from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns a time with its distance: `2030-01-31T12:00:00.000Z (in 29m 58s)`. A text that is no time
/// stays unchanged.
pub(crate) fn with_distance(time: &Time, now: Timestamp) -> String {
    match time.check("") {
        Ok(at) => format!("{time} ({})", relative(at, now)),
        Err(_) => time.to_string(),
    }
}

/// Returns a distance from now: `in 29m 58s`, `12s ago`, `now`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let ahead_ms = at.saturating_since(now).ms();
    let behind_ms = now.saturating_since(at).ms();
    match (ahead_ms, behind_ms) {
        (0, 0) => "now".to_owned(),
        (0, behind_ms) => format!("{} ago", distance(behind_ms)),
        (ahead_ms, _) => format!("in {}", distance(ahead_ms)),
    }
}

/// Returns the two largest units of a duration, rounded down: `2d 4h`, `29m 58s`, `3.2s`, `250ms`.
pub(crate) fn distance(ms: u64) -> String {
    if ms < 1_000 {
        return format!("{ms}ms");
    }
    if ms < 10_000 {
        return match (ms / 1_000, ms % 1_000 / 100) {
            (seconds, 0) => format!("{seconds}s"),
            (seconds, tenths) => format!("{seconds}.{tenths}s"),
        };
    }
    let largest = UNITS.iter().position(|(_, unit_ms)| ms >= *unit_ms).unwrap_or(UNITS.len() - 1);
    let (name, unit_ms) = UNITS[largest];
    let whole = format!("{}{name}", ms / unit_ms);
    match UNITS.get(largest + 1) {
        Some((next, next_ms)) if ms % unit_ms >= *next_ms => {
            format!("{whole} {}{next}", ms % unit_ms / next_ms)
        }
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_have_at_most_two_units() {
        for (ms, text) in [
            (1, "1ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (3_250, "3.2s"),
            (12_999, "12s"),
            (60_000, "1m"),
            (1_798_700, "29m 58s"),
            (3_600_000, "1h"),
            (3_605_000, "1h"),
            (19_000_000, "5h 16m"),
            (86_400_000 * 12 + 3_600_000 * 3 + 59_000, "12d 3h"),
        ] {
            assert_eq!(distance(ms), text, "{ms}");
        }
    }

    #[test]
    fn times_are_ahead_behind_or_now() {
        let at = |ms| Timestamp::from_unix_ms(ms).expect("in range");
        assert_eq!(relative(at(60_000), at(0)), "in 1m");
        assert_eq!(relative(at(0), at(60_000)), "1m ago");
        assert_eq!(relative(at(5), at(5)), "now");
        assert_eq!(
            with_distance(&Time::Text("1970-01-01T00:01:00.000Z".to_owned()), at(0)),
            "1970-01-01T00:01:00.000Z (in 1m)"
        );
        assert_eq!(with_distance(&Time::Text("soon".to_owned()), at(0)), "soon");
    }
}
