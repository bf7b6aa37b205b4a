//! Subject `lists`: pages of a list over many namespaces, while timers are scheduled at full speed.

use std::sync::Arc;

use anyhow::{Result, ensure};
use tokio::time::Instant;

use super::{Run, offered::FAR_MS, scattered};
use crate::{
    baseline::ms,
    clock::now_ms,
    offer::{Make, Offer, offer},
    pace::Pace,
    recorder::Recorder,
    transport::{Operation, PAGE},
};

impl Run {
    pub(super) async fn lists(&mut self) -> Result<()> {
        let (namespaces, each) = self.options.namespaces();
        let names = self.make_all(namespaces.into(), None).await?;
        let first_ms = now_ms() + FAR_MS;
        self.fill_all(&names, each.into(), first_ms).await?;
        self.measured.begin(Instant::now());

        let (batch, timers) = (self.batch(), self.timers);
        let make: Make = Arc::new(move |send| {
            // Their numbers are outside the ledger.
            let numbers = timers + send * batch..timers + (send + 1) * batch;
            let due_ms = move |number| first_ms + scattered(number) % FAR_MS;
            numbers.map(|number| Operation::Schedule { number, due_ms: due_ms(number) }).collect()
        });
        let commits = Arc::new(Recorder::default());
        let pace = Pace { interval: None, ..self.pace(u64::MAX, batch) };
        let offered = Offer {
            pace,
            pacer: None,
            lines: self.lines(),
            work: self.batches(make),
            latency: Arc::clone(&commits),
            behind: Arc::default(),
        };
        let pages = async {
            for turn in 0.. {
                if Instant::now() > pace.until || self.stop.is_wanted() {
                    break;
                }
                let place = usize::try_from(scattered(turn))? % names.len();
                let (began, line) = (Instant::now(), self.lines());
                let found = self.target.transport.list(line, &names[place]).await?;
                self.measured.record(u64::try_from(began.elapsed().as_micros())?, 1);
                let expected = each.min(PAGE) as usize;
                ensure!(found == expected, "a page has {found} timers instead of {expected}");
            }
            Ok(())
        };
        tokio::try_join!(offer(offered, &self.stop), pages)?;
        let schedules = commits.percentiles();
        let rate = super::per_second(schedules.count, commits.lasted());
        self.table.add("scheduled beside the lists", "/s", rate);
        self.table.add("schedule calls beside the lists, p99.9", "ms", ms(schedules.p999_us));
        Ok(())
    }
}
