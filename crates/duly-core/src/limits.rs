//! Limits of a namespace.

use crate::{
    Millis, NamespaceName, Refusal, Timestamp,
    invalid::{Invalid, check_range},
    payload,
    rate::Rate,
    schedule::When,
};

/// Limits of one namespace. `None` means unlimited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Schedules per second, of new timers and replacements. The burst is one second.
    pub schedule_per_second: Option<u32>,
    /// Attempts started per second and push lane. The burst is a tenth of a second.
    pub deliver_per_second: Option<u32>,
    /// Attempts under way at the same time, per push lane.
    pub max_in_flight: u32,
    /// Pending timers.
    pub max_pending: Option<u64>,
    /// Bytes of one payload, as stored.
    pub max_payload_bytes: u64,
    /// Longest time from now to the due time.
    pub max_delay: Option<Millis>,
    /// Dead letters; at the limit the lanes of the namespace stop.
    pub max_dead: u64,
    /// Tombstones of ended timers; beyond this number the oldest are removed first.
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
    /// Checks a caller's values for a timer of this namespace: the bytes of its payload, and its due time.
    /// Values that a change leaves unchanged are not checked again.
    ///
    /// # Errors
    /// The first limit that is exceeded. A due time past 2200-01-01 exceeds none; it is refused where the
    /// timer is created.
    pub fn admit(
        &self,
        namespace: &NamespaceName,
        bytes: u64,
        when: Option<When>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if bytes > self.max_payload_bytes {
            let (namespace, bytes_max) = (namespace.clone(), self.max_payload_bytes);
            return Err(Refusal::PayloadTooLarge { namespace, bytes, bytes_max });
        }
        let (Some(when), Some(max_delay)) = (when, self.max_delay) else {
            return Ok(());
        };
        match when.due_at(now) {
            Ok(due_at) if due_at.saturating_since(now) > max_delay => {
                Err(Refusal::DelayTooLong { namespace: namespace.clone(), when, max_delay })
            }
            _ => Ok(()),
        }
    }

    /// Returns the rate of schedules, if it is limited.
    pub fn schedule_rate(&self) -> Option<Rate> {
        self.schedule_per_second.map(Rate::by_the_second)
    }

    /// Returns the rate of attempts of a push lane, if it is limited.
    pub fn deliver_rate(&self) -> Option<Rate> {
        self.deliver_per_second.map(Rate::smooth)
    }

    /// Checks every bound. Each error names its field.
    pub fn check(self) -> Result<Self, Invalid> {
        let positive = |field: &str, value: Option<u32>| match value {
            Some(0) => Err(Invalid::new(field, 0, "an integer from 1, or absent for no limit")),
            _ => Ok(()),
        };
        positive("namespace.schedule_per_second", self.schedule_per_second)?;
        positive("lane.deliver_per_second", self.deliver_per_second)?;
        check_range("lane.max_in_flight", self.max_in_flight, 1..=100_000)?;
        if self.max_payload_bytes > payload::PAYLOAD_BYTES_HARD {
            let allowed = format!("at most {} bytes", payload::PAYLOAD_BYTES_HARD);
            let field = "namespace.max_payload_bytes";
            return Err(Invalid::new(field, self.max_payload_bytes, allowed));
        }
        if self.max_dead == 0 {
            let allowed = "an integer from 1: a dead letter is never dropped";
            return Err(Invalid::new("namespace.max_dead", 0, allowed));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_a_payload_and_a_due_time_are_admitted_up_to_their_limits() {
        let (now, max_delay) = (Timestamp::saturating_from_unix_ms(1_000), Millis::from_ms(10));
        let limits =
            Limits { max_payload_bytes: 5, max_delay: Some(max_delay), ..Limits::default() };
        let at = |ms| When::At(Timestamp::saturating_from_unix_ms(ms));
        let after = |ms| When::After(Millis::from_ms(ms));
        let namespace = NamespaceName::new("orders").unwrap();
        let name = || namespace.clone();
        let too_large = Refusal::PayloadTooLarge { namespace: name(), bytes: 6, bytes_max: 5 };
        let too_far = |when| Err(Refusal::DelayTooLong { namespace: name(), when, max_delay });
        for (bytes, when, expected) in [
            (5, None, Ok(())),
            (6, None, Err(too_large)),
            (0, Some(at(1_010)), Ok(())),
            (0, Some(at(0)), Ok(())),
            (0, Some(at(1_011)), too_far(at(1_011))),
            (0, Some(after(10)), Ok(())),
            (0, Some(after(11)), too_far(after(11))),
            (0, Some(When::After(Millis::MAX)), Ok(())),
        ] {
            assert_eq!(limits.admit(&namespace, bytes, when, now), expected, "{bytes} {when:?}");
        }
        let admitted = Limits::default().admit(&namespace, 0, Some(after(u64::MAX)), now);
        assert_eq!(admitted, Ok(()));
    }
}
