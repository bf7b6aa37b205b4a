//! Subjects that are measured while timers fire: `lateness` and `hot-second`.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::{Run, at, scattered};
use crate::{
    clock::now_ms,
    drain::{Came, Drain, GRACE, drain},
    options::Pull,
    recorder::Recorder,
    usage::Using,
};

/// Number of consumers.
pub(crate) const CONSUMERS: usize = 4;

impl Run {
    pub(super) async fn lateness(&mut self) -> Result<()> {
        let first_ms = now_ms() + Self::lead_ms(self.timers);
        let span_ms = self.options.seconds() * 1_000;
        let due_ms = move |number: u64| first_ms + scattered(number) % span_ms;
        self.fill(due_ms).await?;
        self.ensure_still_ahead(first_ms)?;
        self.measured.begin(at(first_ms));
        let using = Using::begin(self.pid());
        self.take(first_ms + span_ms, Arc::clone(&self.measured)).await?;
        self.used = using.end();
        Ok(())
    }

    pub(super) async fn hot_second(&mut self) -> Result<()> {
        let due_ms = now_ms() + Self::lead_ms(self.timers);
        self.fill(move |_| due_ms).await?;
        self.ensure_still_ahead(due_ms)?;
        self.measured.begin(at(due_ms));
        let using = Using::begin(self.pid());
        let last_us = self.take(due_ms, Arc::clone(&self.measured)).await?;
        self.used = using.end();
        let out_us = last_us.saturating_sub(due_ms * 1_000);
        self.out_after = Some(Duration::from_micros(out_us)).filter(|out| !out.is_zero());
        Ok(())
    }

    /// Leases and acknowledges every firing; the last is due at `last_ms`. Returns the time of the
    /// last acknowledgement (Unix µs).
    pub(super) async fn take(&mut self, last_ms: u64, lateness: Arc<Recorder>) -> Result<u64> {
        let all = Drain {
            namespace: self.target.namespace.clone(),
            consumers: CONSUMERS,
            first_line: 0,
            batch: self.options.batch.unwrap_or(1_000),
            expected: self.timers,
            until: at(last_ms).max(Instant::now()) + GRACE,
            lateness,
            stream: self.speaker.grpc().filter(|_| self.options.pull == Some(Pull::Consume)),
        };
        let Came { drained, last_us } = drain(all, &self.target, &self.ledger, &self.stop).await?;
        self.drained = drained;
        Ok(last_us)
    }
}
