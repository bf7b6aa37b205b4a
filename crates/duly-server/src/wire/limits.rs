//! Limits of a namespace on the wire. Absent or `null` is the default.

use duly_core::{Invalid, limits::Limits, payload::PAYLOAD_BYTES_HARD};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Duration, DurationOut, Integer};

/// Highest rate that can be asked for; more is no limit.
const PER_SECOND_MAX: u32 = 100_000_000;

/// Limits of a namespace; each has a default.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Limits)]
pub struct LimitsIn {
    /// Schedules taken per second (new timers and replacements), as many at once; default unlimited.
    pub(super) schedule_per_second: Option<Integer>,
    /// Attempts begun per second and push lane, a tenth of it at once; default unlimited.
    pub(super) deliver_per_second: Option<Integer>,
    /// Attempts under way at once per push lane, 1 to 100000, default 100.
    pub(super) max_in_flight: Option<Integer>,
    /// Pending timers; default unlimited.
    pub(super) max_pending: Option<Integer>,
    /// Bytes of one payload as stored, at most 16 MiB, default 256 KiB.
    pub(super) max_payload_bytes: Option<Integer>,
    /// Longest time from now to due; default unlimited.
    pub(super) max_delay: Option<Duration>,
    /// Dead letters, default 1000000; at the limit the namespace's lanes stop.
    pub(super) max_dead: Option<Integer>,
    /// Tombstones of ended timers, default 10000000; past it the oldest go first.
    pub(super) max_retained: Option<Integer>,
}

impl LimitsIn {
    /// Checks them; the error names the field below `field`.
    ///
    /// # Errors
    /// When a value is not allowed.
    pub fn check(self, field: &str) -> Result<Limits, Invalid> {
        self.limits().and_then(Limits::check).map_err(|invalid| invalid.within(field))
    }

    fn limits(self) -> Result<Limits, Invalid> {
        let mut limits = Limits::default();
        if let Some(rate) = self.schedule_per_second {
            let field = "schedule_per_second";
            limits.schedule_per_second = Some(rate.within_u32(field, 1, PER_SECOND_MAX)?);
        }
        if let Some(rate) = self.deliver_per_second {
            let field = "deliver_per_second";
            limits.deliver_per_second = Some(rate.within_u32(field, 1, PER_SECOND_MAX)?);
        }
        if let Some(max) = self.max_in_flight {
            limits.max_in_flight = max.within_u32("max_in_flight", 1, 100_000)?;
        }
        if let Some(max) = self.max_pending {
            limits.max_pending = Some(max.within("max_pending", 0, u64::MAX)?);
        }
        if let Some(max) = self.max_payload_bytes {
            limits.max_payload_bytes = max.within("max_payload_bytes", 0, PAYLOAD_BYTES_HARD)?;
        }
        if let Some(max) = &self.max_delay {
            limits.max_delay = Some(max.check("max_delay")?);
        }
        if let Some(max) = self.max_dead {
            limits.max_dead = max.within("max_dead", 1, u64::MAX)?;
        }
        if let Some(max) = self.max_retained {
            limits.max_retained = max.within("max_retained", 0, u64::MAX)?;
        }
        Ok(limits)
    }
}

/// Limits in an answer; absent means unlimited.
#[derive(Debug, Serialize)]
pub struct LimitsOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_per_second: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deliver_per_second: Option<u32>,
    max_in_flight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_pending: Option<u64>,
    max_payload_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_delay: Option<DurationOut>,
    max_dead: u64,
    max_retained: u64,
}

impl From<&Limits> for LimitsOut {
    fn from(limits: &Limits) -> Self {
        Self {
            schedule_per_second: limits.schedule_per_second,
            deliver_per_second: limits.deliver_per_second,
            max_in_flight: limits.max_in_flight,
            max_pending: limits.max_pending,
            max_payload_bytes: limits.max_payload_bytes,
            max_delay: limits.max_delay.map(DurationOut),
            max_dead: limits.max_dead,
            max_retained: limits.max_retained,
        }
    }
}
