//! At most so many lines a second, and how many were held back.

use std::time::Duration;

use parking_lot::Mutex;

/// Lines let through in one second.
const PER_SECOND_MAX: u32 = 10;

/// Counts lines of one kind.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    second: u64,
    let_through: u32,
    held_back: u64,
}

impl LogLimit {
    /// Whether a line may be written at `boot` (time since boot): with how many were held back
    /// since the last one, or not at all.
    pub(crate) fn admit(&self, boot: Duration) -> Option<u64> {
        let mut window = self.0.lock();
        if window.second != boot.as_secs() {
            window.second = boot.as_secs();
            window.let_through = 0;
        }
        if window.let_through == PER_SECOND_MAX {
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
    fn holds_back_and_tells_how_many() {
        let limit = LogLimit::default();
        let at = |s| Duration::from_secs(s);
        for _ in 0..PER_SECOND_MAX {
            assert_eq!(limit.admit(at(5)), Some(0));
        }
        assert_eq!(limit.admit(at(5)), None);
        assert_eq!(limit.admit(at(5)), None);
        assert_eq!(limit.admit(at(6)), Some(2));
        assert_eq!(limit.admit(at(6)), Some(0));
    }
}
