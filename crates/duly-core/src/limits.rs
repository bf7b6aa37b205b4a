//! Limits of a namespace.

use crate::{Millis, invalid::Invalid, payload, rate::Rate};

/// Limits of one namespace. `None` means unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Schedules taken per second, of new timers and replacements; as many at once.
    pub schedule_per_second: Option<u32>,
    /// Attempts started per second and push lane; a tenth of it at once.
    pub deliver_per_second: Option<u32>,
    /// Attempts under way at once, per push lane.
    pub max_in_flight: u32,
    /// Pending timers.
    pub max_pending: Option<u64>,
    /// Bytes of one payload, as stored.
    pub max_payload_bytes: u64,
    /// Longest time from now to due.
    pub max_delay: Option<Millis>,
    /// Dead letters; at the limit the lanes of the namespace stop.
    pub max_dead: u64,
    /// Tombstones of ended timers; past it the oldest go first.
    pub max_retained: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            schedule_per_second: None,
            deliver_per_second: None,
            max_in_flight: 100,
            max_pending: None,
            max_payload_bytes: payload::PAYLOAD_BYTES_DEFAULT,
            max_delay: None,
            max_dead: 1_000_000,
            max_retained: 10_000_000,
        }
    }
}

impl Limits {
    /// The rate at which schedules are taken, if there is one.
    pub fn schedule_rate(&self) -> Option<Rate> {
        self.schedule_per_second.map(Rate::by_the_second)
    }

    /// The rate at which a push lane begins attempts, if there is one.
    pub fn deliver_rate(&self) -> Option<Rate> {
        self.deliver_per_second.map(Rate::smooth)
    }

    /// Checks every bound; each error names its field.
    pub fn check(self) -> Result<Self, Invalid> {
        let positive = |field: &str, value: Option<u32>| match value {
            Some(0) => Err(Invalid::new(field, 0, "an integer from 1, or absent for no limit")),
            _ => Ok(()),
        };
        positive("schedule_per_second", self.schedule_per_second)?;
        positive("deliver_per_second", self.deliver_per_second)?;
        if !(1..=100_000).contains(&self.max_in_flight) {
            return Err(Invalid::new(
                "max_in_flight",
                self.max_in_flight,
                "an integer from 1 to 100000",
            ));
        }
        if self.max_payload_bytes > payload::PAYLOAD_BYTES_HARD {
            let allowed = format!("at most {} bytes", payload::PAYLOAD_BYTES_HARD);
            return Err(Invalid::new("max_payload_bytes", self.max_payload_bytes, allowed));
        }
        if self.max_dead == 0 {
            return Err(Invalid::new(
                "max_dead",
                0,
                "an integer from 1: a dead letter is never dropped",
            ));
        }
        Ok(self)
    }
}
