//! What a run came to, for people and for programs.

use std::{fmt, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    floor::ms, ledger::Counts, options::Subject, percentiles::Percentiles, subject::Run,
    table::Table, usage::MIB,
};

/// The figures of a run.
#[derive(Debug)]
pub struct Report {
    /// What was measured.
    pub subject: Subject,
    /// How the server was spoken to.
    pub transport: &'static str,
    /// Whether it went to its end.
    pub is_complete: bool,
    /// Why it did not, where something failed.
    pub failed: Option<String>,
    /// The figures, floors first.
    pub table: Table,
    /// What became of the timers.
    pub counts: Counts,
    /// What a server must never do, in words.
    pub broken: Vec<String>,
    /// What else is to be known.
    pub remarks: Vec<String>,
    /// (share of all, ms): so many were at most so late.
    pub distribution: Vec<(f64, f64)>,
    /// Timers of each second.
    pub by_second: Vec<u64>,
}

impl Report {
    pub(crate) fn of(run: &Run, outcome: &Result<()>, table: Table) -> Self {
        let counts = run.ledger.counts(run.drained);
        let mut broken = counts.broken();
        broken.extend(run.differs.clone());
        let mut report = Self {
            subject: run.options.subject,
            transport: run.options.transport.name(),
            is_complete: outcome.is_ok() && !run.stop.is_wanted(),
            failed: outcome.as_ref().err().map(|error| format!("{error:#}")),
            table,
            counts,
            broken,
            remarks: run.target.remarked().into_iter().collect(),
            distribution: run.measured.distribution(),
            by_second: run.measured.by_second(),
        };
        report.add_figures(run);
        report
    }

    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    fn add_figures(&mut self, run: &Run) {
        let Self { table, subject, .. } = self;
        let prepared = run.prepared.percentiles().count;
        if prepared > 0 {
            let took = run.prepared.lasted();
            table.add("preparing: schedules", "/s", per_second(prepared, took));
        }
        let percentiles = run.measured.percentiles();
        let sent = percentiles.count.saturating_sub(run.unsent);
        if percentiles.count > 0 {
            let took = run.measured.lasted();
            let (speed, times) = words(*subject, run.options.rate.is_some());
            if *subject != Subject::HotSecond {
                table.add(speed, "/s", per_second(sent, took));
            }
            add_times(table, times, &percentiles);
        }
        if let Some(out) = run.out_after {
            table.add("all out and acknowledged after", "s", out.as_secs_f64());
            table.add("leased and acknowledged", "/s", per_second(run.timers, out));
        }
        let behind = run.behind.percentiles();
        if run.options.rate.is_some() && behind.count > 0 {
            table.add("sends behind their time, p50", "ms", ms(behind.p50_us));
            table.add("sends behind their time, p99", "ms", ms(behind.p99_us));
            table.add("never sent: the server was slower", "", run.unsent as f64);
        }
        if let Some(used) = run.used.filter(|_| sent > 0) {
            let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / sent as f64;
            if let Some((cpu, peak_bytes)) = used.server {
                table.add("CPU of the server, each", "µs", each(cpu));
                table.add("resident memory of the server, peak", "MiB", peak_bytes as f64 / MIB);
            }
            table.add("CPU of the load generator, each", "µs", each(used.own_cpu));
        }
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "subject": self.subject.name(),
            "transport": self.transport,
            "complete": self.is_complete,
            "failed": self.failed,
            "figures": self.table.to_json(),
            "counts": self.counts,
            "broken": self.broken,
            "remarks": self.remarks,
            "by_second": self.by_second,
        })
    }
}

/// What the speed and the times of a subject are called.
fn words(subject: Subject, is_paced: bool) -> (&'static str, &'static str) {
    let from = if is_paced { "latency from the intended time" } else { "latency of a call" };
    match subject {
        Subject::Ingest => ("scheduled", from),
        Subject::Cancel => ("cancelled", from),
        Subject::Debounce => ("replaced", from),
        Subject::Lateness => ("fired", "lateness"),
        Subject::HotSecond => ("leased", "from due to leased"),
    }
}

fn add_times(table: &mut Table, name: &str, percentiles: &Percentiles) {
    let Percentiles { p50_us, p99_us, p999_us, max_us, .. } = *percentiles;
    for (word, us) in [("p50", p50_us), ("p99", p99_us), ("p99.9", p999_us), ("max", max_us)] {
        table.add(&format!("{name}, {word}"), "ms", ms(us));
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(1e-6)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table)?;
        let counts = serde_json::to_value(self.counts).map_err(|_| fmt::Error)?;
        for (name, count) in counts.as_object().into_iter().flatten() {
            writeln!(f, "{:<44}{:>11}", name.replace('_', " "), count)?;
        }
        for broken in &self.broken {
            writeln!(f, "BROKEN  {broken}")?;
        }
        for remark in &self.remarks {
            writeln!(f, "note  {remark}")?;
        }
        if !self.is_complete {
            let why = self.failed.as_deref().unwrap_or("it was stopped");
            writeln!(f, "not complete: {why}; these are the figures so far")?;
        }
        Ok(())
    }
}
