//! Subject `isolation`: lateness of a quiet namespace alone, beside timers behind a dead receiver,
//! and beside as many timers that are leased at full speed.
//!
//! ```text
//!   stretch:   alone          beside a dead receiver    beside full speed
//!   quiet:     ·  ·  ·  ·     ·  ·  ·  ·  ·             ·  ·  ·  ·  ·
//!   other:     nothing        all due at once           all due at once    a new namespace
//! ```
//!
//! 1. A part of the run (`Stretch`) begins when the timers of the other namespace are due.
//! 2. All its timers are scheduled before it begins.
//! 3. The part beside full speed counts firings that were due before the other namespace was
//!    served, but at least those of its first second.

use std::{ops::Range, sync::Arc, time::Duration};

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{
    Run, at,
    quiet::{Lates, Quiet},
    scattered,
};
use crate::{
    baseline::ms,
    clock::{now_ms, seconds_since},
    drain::{Came, Drain, GRACE, drain},
    ledger::Drained,
    receiver::Dead,
    recorder::Recorder,
    table::Table,
    transport::{Settings, Verdict},
    usage::cpu,
};

/// Consumers of the namespace at full speed.
const CONSUMERS: usize = 4;
/// Most firings per call in that namespace.
const BATCH: u32 = 1_000;
/// Shortest part of the run.
const SHORTEST_MS: u64 = 1_000;
/// Time between two polls of the ledger.
const LOOK: Duration = Duration::from_millis(20);

/// Load beside the quiet namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Dead,
    Served,
}

impl Beside {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "alone",
            Self::Dead => "beside a dead receiver",
            Self::Served => "beside full speed",
        }
    }
}

/// One part of a run, with its own lateness figures.
pub(crate) struct Stretch {
    pub(crate) name: &'static str,
    lates: Lates,
    /// End of the counted due times, Unix ms.
    end_ms: u64,
}

impl Stretch {
    /// Returns the lateness of the counted firings.
    pub(crate) fn recorder(&self) -> Recorder {
        let recorder = Recorder::default();
        for (received_us, late_us) in self.lates.lock().iter() {
            if (received_us - late_us) / 1_000 < self.end_ms {
                recorder.record(*late_us, 1);
            }
        }
        recorder
    }
}

impl Run {
    pub(super) async fn isolation(&mut self) -> Result<()> {
        let quiet = self.target.make(0, "quiet", &Settings::default()).await?;
        let each = self.options.paced_timers();
        let stretches = [Beside::Nothing, Beside::Dead, Beside::Served];
        for (place, beside) in (0..).zip(stretches) {
            if self.stop.is_wanted() {
                return Ok(());
            }
            self.say(beside.name());
            self.stretch(beside, &quiet, place * each..(place + 1) * each).await?;
        }
        self.drained = Drained::Yes;
        Ok(())
    }

    async fn stretch(&mut self, beside: Beside, quiet: &str, own: Range<u64>) -> Result<()> {
        let first_other = 3 * self.options.paced_timers();
        let others = self.timers - first_other;
        let scheduled = if beside == Beside::Nothing { 0 } else { others };
        let due_ms = now_ms() + Self::lead_ms(scheduled + self.options.paced_timers());
        let span_ms = self.options.seconds() * 1_000;
        let dead = (beside == Beside::Dead).then(Dead::refusing).transpose()?;
        let settings = Settings { url: dead.as_ref().map(Dead::url), lease: None };
        let other = match beside {
            Beside::Nothing => String::new(),
            Beside::Dead => self.target.make(0, "dead", &settings).await?,
            Beside::Served => self.target.make(0, "served", &settings).await?,
        };
        match beside {
            Beside::Nothing => {}
            // These timers are outside the ledger: they must not fire, and the number of pending
            // timers counts them.
            Beside::Dead => {
                self.fill_into(&other, self.timers..self.timers + others, move |_| due_ms).await?;
            }
            Beside::Served => {
                self.fill_into(&other, first_other..self.timers, move |_| due_ms).await?;
            }
        }
        let quiet_due = move |number| due_ms + scattered(number) % span_ms;
        self.fill_into(quiet, own.clone(), quiet_due).await?;
        self.ensure_still_ahead(due_ms)?;

        let lates = Lates::default();
        let end_ms = due_ms + span_ms;
        let (name, kept) = (beside.name(), Arc::clone(&lates));
        self.stretches.push(Stretch { name, lates: kept, end_ms });
        let (namespace, ledger) = (quiet.to_owned(), &self.ledger);
        let consumers = Quiet::start(&self.client, namespace, &self.target, ledger, &lates)?;
        tokio::select! {
            () = tokio::time::sleep_until(at(due_ms)) => {}
            () = self.stop.wanted() => return Ok(()),
        }
        let before = self.pid().and_then(|pid| cpu(pid).ok());
        let came = async {
            match beside {
                Beside::Served => self.serve(&other, others, end_ms).await.map(Some),
                Beside::Nothing | Beside::Dead => Ok(None),
            }
        };
        let (served, ()) = tokio::join!(came, self.all_came(&own, end_ms));
        drop(consumers);
        self.report_cpu(name, before, due_ms);
        if let Some(Came { last_us, .. }) = served? {
            self.report_served(due_ms, last_us, others);
            let ended_ms = (last_us / 1_000).max(due_ms + SHORTEST_MS);
            if let Some(stretch) = self.stretches.last_mut().filter(|_| last_us > 0) {
                stretch.end_ms = stretch.end_ms.min(ended_ms);
            }
        }
        if beside == Beside::Dead && !self.stop.is_wanted() {
            self.expect_pending(&other, others).await?;
        }
        drop(dead);
        if beside != Beside::Nothing && !self.stop.is_wanted() {
            self.target.end(0, &other).await?;
        }
        Ok(())
    }

    async fn serve(&self, namespace: &str, expected: u64, end_ms: u64) -> Result<Came> {
        let all = Drain {
            namespace: namespace.to_owned(),
            consumers: CONSUMERS,
            first_line: 0,
            batch: BATCH,
            expected,
            until: at(end_ms).max(Instant::now()) + GRACE,
            lateness: Arc::default(),
            verdict: Verdict::Ack,
            stream: None,
        };
        drain(all, &self.target, &self.ledger, &self.stop).await
    }

    /// Waits until all these firings have arrived and were acknowledged, or had the time to.
    async fn all_came(&self, numbers: &Range<u64>, end_ms: u64) {
        let until = at(end_ms) + GRACE;
        while !self.stop.is_wanted() && Instant::now() < until {
            if self.ledger.all_settled(numbers.clone()) {
                return;
            }
            sleep(LOOK).await;
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    fn report_served(&mut self, due_ms: u64, last_us: u64, timers: u64) {
        let seconds = seconds_since(due_ms, last_us);
        if seconds > 0.0 {
            self.table.add("the other at full speed", "/s", timers as f64 / seconds);
        }
    }

    fn report_cpu(&mut self, name: &str, before: Option<Duration>, due_ms: u64) {
        let after = self.pid().and_then(|pid| cpu(pid).ok());
        if let (Some(before), Some(after)) = (before, after) {
            let lasted = Duration::from_millis(now_ms().saturating_sub(due_ms).max(1));
            let cores = after.saturating_sub(before).as_secs_f64() / lasted.as_secs_f64();
            self.table.add(&format!("{name}: CPU of the server"), "cores", cores);
        }
    }

    /// Adds the lateness of every part, and the ratio to the part alone.
    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    pub(crate) fn report_stretches(&self, table: &mut Table) {
        let mut alone = None;
        for stretch in &self.stretches {
            let late = stretch.recorder().percentiles();
            if late.count == 0 {
                continue;
            }
            let name = stretch.name;
            for (share, us) in [
                ("p50", late.p50_us),
                ("p99", late.p99_us),
                ("p99.9", late.p999_us),
                ("max", late.max_us),
            ] {
                table.add(&format!("lateness {name}, {share}"), "ms", ms(us));
            }
            let alone = *alone.get_or_insert(late);
            if name != Beside::Nothing.name() && alone.p99_us > 0 {
                let times = late.p99_us as f64 / alone.p99_us as f64;
                table.add(&format!("{name}: p99 beside that alone"), "x", times);
            }
        }
    }
}
