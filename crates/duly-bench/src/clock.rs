//! Wall clock of this machine, which a server on the same machine reads too.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the Unix time in microseconds.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the Unix time in whole milliseconds, rounded down.
pub fn now_ms() -> u64 {
    now_us() / 1_000
}

/// Returns the seconds from a due time (Unix ms) to a moment (Unix µs); negative if the moment is
/// earlier.
#[expect(clippy::cast_precision_loss, reason = "differences are far below 2^53 µs")]
pub fn seconds_since(due_ms: u64, at_us: u64) -> f64 {
    let due_us = due_ms * 1_000;
    if at_us >= due_us { (at_us - due_us) as f64 / 1e6 } else { -((due_us - at_us) as f64 / 1e6) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_go_both_ways() {
        assert!((seconds_since(2, 3_500) - 0.0015).abs() < 1e-9);
        assert!((seconds_since(2, 1_500) + 0.0005).abs() < 1e-9);
    }
}
