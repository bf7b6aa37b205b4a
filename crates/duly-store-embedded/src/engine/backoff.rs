//! Backoff: the pauses between the tries of an operation that fails. Each pause is twice as long as the
//! one before, up to a maximum.

/// Time of the next try of an operation, by the boot-time clock, with the first and the longest pause.
#[derive(Debug, Default)]
pub(super) struct Backoff<const FIRST_MS: u64, const LONGEST_MS: u64> {
    /// Pause that began with the latest failure; 0 before the first.
    pause_ms: u64,
    not_before_ms: u64,
}

impl<const FIRST_MS: u64, const LONGEST_MS: u64> Backoff<FIRST_MS, LONGEST_MS> {
    /// Records a failure and begins the next pause.
    pub(super) fn failed(&mut self, now_ms: u64) {
        self.pause_ms = (2 * self.pause_ms).clamp(FIRST_MS, LONGEST_MS);
        self.not_before_ms = now_ms + self.pause_ms;
    }

    /// Returns `true` if the operation may be tried.
    pub(super) const fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.not_before_ms
    }

    /// Returns the milliseconds until the next try.
    pub(super) const fn left_ms(&self, now_ms: u64) -> u64 {
        self.not_before_ms.saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::<100, 500>::default();
        assert!(backoff.is_over(0));
        let mut now_ms = 7;
        for pause_ms in [100, 200, 400, 500, 500] {
            backoff.failed(now_ms);
            assert_eq!(backoff.left_ms(now_ms), pause_ms);
            assert!(!backoff.is_over(now_ms + pause_ms - 1) && backoff.is_over(now_ms + pause_ms));
            now_ms += pause_ms;
        }
    }
}
