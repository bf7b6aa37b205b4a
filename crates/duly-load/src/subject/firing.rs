//! Subjects that are measured while timers fire: lateness and the hot second.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::Run;
use crate::{
    clock::{now_ms, now_us},
    drain::{Drain, GRACE, drain},
    recorder::Recorder,
    usage::Using,
};

/// Consumers that lease at once.
pub(crate) const CONSUMERS: usize = 4;

impl Run {
    pub(super) async fn lateness(&mut self) -> Result<()> {
        let first_ms = now_ms() + self.lead_ms();
        let span_ms = u64::try_from(self.options.duration.as_millis())?;
        let due_ms =
            move |number: u64| first_ms + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % span_ms;
        self.fill(due_ms).await?;
        self.ensure_still_ahead(first_ms)?;
        self.measured.begin(at(first_ms));
        let using = Using::begin(self.target.pid);
        self.take(first_ms + span_ms, Arc::clone(&self.measured)).await?;
        self.used = using.end();
        Ok(())
    }

    pub(super) async fn hot_second(&mut self) -> Result<()> {
        let due_ms = now_ms() + self.lead_ms();
        self.fill(move |_| due_ms).await?;
        self.ensure_still_ahead(due_ms)?;
        self.measured.begin(at(due_ms));
        let using = Using::begin(self.target.pid);
        self.take(due_ms, Arc::clone(&self.measured)).await?;
        self.used = using.end();
        let out_us = self.ledger.last_settled_us().saturating_sub(due_ms * 1_000);
        self.out_after = Some(Duration::from_micros(out_us)).filter(|out| !out.is_zero());
        Ok(())
    }

    /// Leases and acknowledges everything, the last of which is due at this time.
    pub(super) async fn take(&mut self, last_ms: u64, lateness: Arc<Recorder>) -> Result<()> {
        let batch = self.options.batch.unwrap_or(1_000);
        let until = at(last_ms).max(Instant::now()) + GRACE;
        let (consumers, expected) = (CONSUMERS, self.timers);
        let all = Drain { consumers, batch, expected, until, lateness };
        self.drained = drain(all, &self.target, &self.ledger, &self.stop).await?;
        Ok(())
    }
}

/// The instant of a time to come, by the wall clock as it is now.
fn at(unix_ms: u64) -> Instant {
    Instant::now() + Duration::from_micros((unix_ms * 1_000).saturating_sub(now_us()))
}
