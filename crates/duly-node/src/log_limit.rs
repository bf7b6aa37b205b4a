//! A rate limit for log lines: at most a number of lines per window. Counts the suppressed lines.

use std::time::Duration;

use parking_lot::Mutex;

/// The limit and the counts of one kind of line.
#[derive(Debug)]
pub(crate) struct LogLimit {
    lines_max: u32,
    window: Duration,
    now: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    number: u128,
    let_through: u32,
    held_back: u64,
}

impl LogLimit {
    /// Creates a limit of `lines_max` lines in each `window`.
    pub(crate) fn new(lines_max: u32, window: Duration) -> Self {
        Self { lines_max, window, now: Mutex::default() }
    }

    /// Returns the number of lines suppressed since the last one if a line may be written at `boot`
    /// (time since boot), otherwise `None`.
    pub(crate) fn admit(&self, boot: Duration) -> Option<u64> {
        let mut window = self.now.lock();
        let number = boot.as_nanos() / self.window.as_nanos().max(1);
        if window.number != number {
            window.number = number;
            window.let_through = 0;
        }
        if window.let_through == self.lines_max {
            window.held_back += 1;
            return None;
        }
        window.let_through += 1;
        Some(std::mem::take(&mut window.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_suppressed_lines() {
        let limit = LogLimit::new(3, Duration::from_secs(10));
        let at = |s| Duration::from_secs(s);
        for _ in 0..3 {
            assert_eq!(limit.admit(at(50)), Some(0));
        }
        assert_eq!(limit.admit(at(50)), None);
        assert_eq!(limit.admit(at(59)), None);
        assert_eq!(limit.admit(at(60)), Some(2));
        assert_eq!(limit.admit(at(60)), Some(0));
    }
}
