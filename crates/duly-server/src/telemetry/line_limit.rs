//! A limit on the number of log lines of each call site.
//!
//! Callers and receivers can cause events that are worth a line, such as a broken handshake. Their number is theirs to
//! decide, so each call site, of Duly and of its libraries, may write a burst and then a line a second. The next line
//! that is written tells the number of those that were not. Lines for debugging have no limit: an operator has asked for
//! them.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{Level, Metadata, callsite::Identifier};

/// Lines of one call site that are written at once, after a time without any.
const BURST: u32 = 200;
/// Time after which one more line may be written.
const EVERY: Duration = Duration::from_secs(1);

/// The lines of all call sites.
#[derive(Debug, Default)]
pub(super) struct LineLimit(Mutex<HashMap<Identifier, Site>>);

#[derive(Debug)]
struct Site {
    left: u32,
    /// The moment up to which `left` counts.
    at: Instant,
    suppressed: u64,
}

impl LineLimit {
    /// Returns `None` if this event is not written, or else the number of lines of its call site that were not since the
    /// last one.
    pub(super) fn admit(&self, event: &Metadata<'_>, now: Instant) -> Option<u64> {
        if *event.level() > Level::INFO {
            return Some(0);
        }
        let mut sites = self.0.lock();
        let new = || Site { left: BURST, at: now, suppressed: 0 };
        sites.entry(event.callsite()).or_insert_with(new).admit(now)
    }
}

impl Site {
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let earned = now.saturating_duration_since(self.at).as_secs() / EVERY.as_secs();
        let earned = u32::try_from(earned).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(earned).min(BURST);
        self.at += EVERY.saturating_mul(earned);
        if self.left == 0 {
            self.suppressed += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_site_has_a_burst_and_then_a_line_a_second() {
        let began = Instant::now();
        let mut site = Site { left: BURST, at: began, suppressed: 0 };
        let after = |millis| began + Duration::from_millis(millis);
        let admitted = |site: &mut Site, millis: u64| {
            (0..1_000).filter(|_| site.admit(after(millis)).is_some()).count()
        };
        assert_eq!(admitted(&mut site, 0), BURST as usize);
        assert_eq!(admitted(&mut site, 999), 0);
        assert_eq!(site.admit(after(1_500)), Some(1_800));
        assert_eq!(admitted(&mut site, 1_999), 0);
        assert_eq!(site.admit(after(2_000)), Some(1_000));
        assert_eq!(admitted(&mut site, 3_600_000), BURST as usize);
    }
}
