//! Subjects that are measured while timers fire: `lateness` and `hot-second`.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::Instant;

use super::{Run, at, scattered};
use crate::{
    clock::now_ms,
    drain::{Came, Drain, GRACE, drain},
    options::{Delivery, Subject},
    recorder::Recorder,
    transport::Verdict,
    usage::{Using, resident_bytes},
};

/// Number of consumers.
pub(crate) const CONSUMERS: usize = 4;

impl Run {
    pub(super) async fn lateness(&mut self) -> Result<()> {
        let first_ms = now_ms() + Self::lead_ms(self.timers);
        let span_ms = self.options.seconds() * 1_000;
        self.fill(move |number| first_ms + scattered(number) % span_ms).await?;
        self.deliver(first_ms, span_ms).await.map(drop)
    }

    pub(super) async fn hot_second(&mut self) -> Result<()> {
        let due_ms = now_ms() + Self::lead_ms(self.timers);
        self.fill(move |_| due_ms).await?;
        self.make_cold()?;
        let out = self.deliver(due_ms, 0).await?;
        self.out_after = Some(out).filter(|out| !out.is_zero());
        Ok(())
    }

    /// Makes a dead letter of every firing.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(super) async fn dead_letters(&mut self) -> Result<()> {
        let base = self.pid().map(resident_bytes).transpose()?;
        self.hot_second().await?;
        if let Some((pid, base)) = self.pid().zip(base) {
            let resident = resident_bytes(pid)?.saturating_sub(base) as f64;
            self.table.add("resident memory, each", "B", resident / self.timers as f64);
        }
        let namespace = self.target.namespace.clone();
        self.expect_pending(&namespace, 0).await
    }

    /// Delivers every firing, from the first due time on. Returns the time from then to the last
    /// acknowledgement.
    async fn deliver(&mut self, first_ms: u64, span_ms: u64) -> Result<Duration> {
        self.ensure_still_ahead(first_ms)?;
        self.measured.begin(at(first_ms));
        if self.options.delivery == Some(Delivery::Webhook) {
            self.await_deliveries(first_ms + span_ms).await;
            self.ensure_confirmed([self.target.namespace.clone()].into()).await?;
            return Ok(self.measured.lasted());
        }
        let using = Using::begin(self.pid());
        let last_us = self.take(first_ms + span_ms, Arc::clone(&self.measured)).await?;
        self.used = using.end();
        Ok(Duration::from_micros(last_us.saturating_sub(first_ms * 1_000)))
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
            verdict: if self.options.subject == Subject::DeadLetters {
                Verdict::DeadLetter
            } else {
                Verdict::Ack
            },
            stream: self.client.grpc().filter(|_| self.options.delivery == Some(Delivery::Consume)),
        };
        let Came { drained, last_us } = drain(all, &self.target, &self.ledger, &self.stop).await?;
        self.drained = drained;
        Ok(last_us)
    }
}
