//! Subjects that are measured while their load is offered: `ingest`, `repeat`, `reschedule`,
//! `cancel`, `debounce`.

use std::sync::Arc;

use anyhow::Result;
use rand::seq::SliceRandom as _;

use super::{Run, scattered};
use crate::{clock::now_ms, offer::Make, transport::Operation};

/// Delay of the first timer of all subjects but `debounce`: none is due during the measurement.
pub(super) const FAR_MS: u64 = 2 * 3_600_000;
/// Range of the due times.
const SPREAD_MS: u64 = 3_600_000;

/// Change of an existing timer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Repeat,
    Reschedule,
    Cancel,
}

impl Run {
    pub(super) async fn ingest(&mut self) -> Result<()> {
        let (timers, batch, first_ms) = (self.timers, self.batch(), now_ms() + FAR_MS);
        let make: Make = Arc::new(move |send| {
            let numbers = send * batch..timers.min((send + 1) * batch);
            let schedule = |number| Operation::Schedule {
                number,
                due_ms: first_ms + scattered(number) % SPREAD_MS,
            };
            numbers.map(schedule).collect()
        });
        self.offer(self.pace(timers.div_ceil(batch), batch), self.lines(), make).await?;
        self.compare_pending().await
    }

    /// Schedules all timers, and measures one change of each, in random order.
    pub(super) async fn changed(&mut self, change: Change) -> Result<()> {
        let (timers, batch, first_ms) = (self.timers, self.batch(), now_ms() + FAR_MS);
        let due_ms = move |number| first_ms + scattered(number) % SPREAD_MS;
        self.fill(due_ms).await?;
        self.make_cold()?;
        let mut order: Vec<u32> = (0..u32::try_from(timers)?).collect();
        order.shuffle(&mut rand::rng());
        let make: Make = Arc::new(move |send| {
            let from = usize::try_from(send * batch).unwrap_or(usize::MAX).min(order.len());
            let to = from.saturating_add(usize::try_from(batch).unwrap_or(0)).min(order.len());
            let operation = |number: &u32| {
                let number = u64::from(*number);
                match change {
                    Change::Repeat => Operation::Repeat { number, due_ms: due_ms(number) },
                    Change::Reschedule => {
                        Operation::Reschedule { number, due_ms: due_ms(number) + SPREAD_MS }
                    }
                    Change::Cancel => Operation::Cancel { number },
                }
            };
            order[from..to].iter().map(operation).collect()
        });
        self.offer(self.pace(timers.div_ceil(batch), batch), self.lines(), make).await?;
        self.compare_pending().await
    }

    /// Measures replacements. Each id belongs to one connection, so its replacements stay in order.
    /// At the end every id fires once, at its last due time.
    pub(super) async fn debounce(&mut self) -> Result<()> {
        let lasts_ms = u64::try_from(self.lasts_at_most().as_millis())?;
        let end_ms = now_ms() + Self::lead_ms(self.timers) + lasts_ms;
        self.fill(move |_| end_ms).await?;
        let ids = self.timers;
        let lines = u64::from(self.options.in_flight()).min(ids);
        let batch = self.batch().min(ids / lines);
        let sends = match self.options.rate {
            None => u64::MAX,
            Some(rate) => (u64::from(rate) * self.options.seconds()).div_ceil(batch),
        };
        let make: Make = Arc::new(move |send| {
            let (line, turn) = (send % lines, send / lines);
            let own = (ids - line).div_ceil(lines);
            let replace = |place: u64| Operation::Replace {
                number: place % own * lines + line,
                due_ms: end_ms + 1 + place / own,
            };
            (turn * batch..(turn + 1) * batch).map(replace).collect()
        });
        self.offer(self.pace(sends, batch), usize::try_from(lines)?, make).await?;
        if self.stop.is_wanted() {
            return Ok(());
        }
        self.ensure_still_ahead(end_ms)?;
        self.take(end_ms, Arc::default()).await.map(drop)
    }
}
