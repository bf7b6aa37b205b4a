//! Limits of a namespace on the wire. Absent or `null` is the default.

use duly_core::{Invalid, limits::Limits, payload::PAYLOAD_BYTES_HARD};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use utoipa::ToSchema;

use super::{Duration, DurationOut, Integer};

/// Limits of a namespace; each has a default.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Limits)]
pub struct LimitsIn {
    #[schema(ignore)]
    schedule_per_second: Option<IgnoredAny>,
    #[schema(ignore)]
    deliver_per_second: Option<IgnoredAny>,
    /// Attempts under way at once per push lane, 1 to 100000, default 100.
    max_in_flight: Option<Integer>,
    /// Pending timers; default unlimited.
    max_pending: Option<Integer>,
    /// Bytes of one payload as stored, at most 16 MiB, default 256 KiB.
    max_payload_bytes: Option<Integer>,
    /// Longest time from now to due; default unlimited.
    max_delay: Option<Duration>,
    /// Dead letters, default 1000000; at the limit the namespace's lanes stop.
    max_dead: Option<Integer>,
    /// Stubs of ended timers, default 10000000; past it the oldest go first.
    max_retained: Option<Integer>,
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
        for (rate, name) in [
            (self.schedule_per_second, "schedule_per_second"),
            (self.deliver_per_second, "deliver_per_second"),
        ] {
            if rate.is_some() {
                let allowed = "left out: limits of rates are not supported yet";
                return Err(Invalid::unseen(name, allowed));
            }
        }
        let mut limits = Limits::default();
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
            max_in_flight: limits.max_in_flight,
            max_pending: limits.max_pending,
            max_payload_bytes: limits.max_payload_bytes,
            max_delay: limits.max_delay.map(DurationOut),
            max_dead: limits.max_dead,
            max_retained: limits.max_retained,
        }
    }
}
