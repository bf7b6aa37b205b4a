//! The wall clock of this machine, which the server under test reads too.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in microseconds.
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Unix time in whole milliseconds, rounded down.
pub fn now_ms() -> u64 {
    now_us() / 1_000
}
