//! Report of a run, for people and for programs.

use std::{fmt, path::Path, time::Duration};

use anyhow::Result;
use duly_checker::{
    Percentiles,
    checker::{Count, Verdict},
};
use serde_json::{Value, json};

use crate::{
    baseline::ms,
    ledger::Counts,
    options::{Delivery, Subject},
    plot::{self, Axis, Layer, Panel, Shape},
    recording_client::Checked,
    subject::{Run, per_second},
    table::Table,
    usage::MIB,
};

/// Report of a run.
#[derive(Debug)]
pub struct Report {
    /// The subject.
    pub(crate) subject: Subject,
    /// The protocol.
    pub(crate) transport: &'static str,
    /// Method by which firings were delivered, if the user chose one.
    pub(crate) delivery: Option<&'static str>,
    /// `true`: the run went to its end.
    pub(crate) is_complete: bool,
    /// The error that ended the run early, if there was one.
    pub failed: Option<String>,
    /// The figures, baselines first.
    pub(crate) table: Table,
    /// Totals of the timers.
    pub(crate) counts: Counts,
    /// Broken promises, in words.
    pub broken: Vec<String>,
    /// Further remarks.
    pub(crate) remarks: Vec<String>,
    /// Distributions of times.
    pub(crate) series: Vec<Series>,
    /// Timers of each second.
    pub(crate) by_second: Vec<u64>,
    /// Verdict of the checker, for a run with a full history.
    pub(crate) verdict: Option<Verdict>,
}

/// A distribution of times.
#[derive(Debug)]
pub(crate) struct Series {
    /// Name of the measured times.
    pub(crate) name: String,
    /// Points (share of all times, ms): this share of the times is at most this long.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Report {
    pub(crate) fn of(mut run: Run, outcome: &Result<()>) -> Self {
        let checked = run.recording.as_ref().map(|recording| recording.check());
        let counts = match &checked {
            Some(checked) => checked.counts,
            None => run.ledger.counts(run.drained),
        };
        let mut broken = checked.as_ref().map_or_else(|| counts.broken(), Checked::broken);
        broken.extend(run.differs.take());
        let table = std::mem::take(&mut run.table);
        let mut report = Self {
            subject: run.options.subject,
            transport: run.options.transport.name(),
            delivery: run.options.delivery.map(Delivery::name),
            is_complete: outcome.is_ok() && !run.stop.is_wanted(),
            failed: outcome.as_ref().err().map(|error| format!("{error:#}")),
            table: Table::default(),
            counts,
            broken,
            remarks: run.target.remarked().into_iter().collect(),
            series: series(&run),
            by_second: run.measured.by_second(),
            verdict: None,
        };
        report.table.append(table);
        report.add_figures(&run);
        if let Some(Checked { verdict, table, .. }) = checked {
            report.table.append(table);
            report.verdict = Some(verdict);
        }
        report
    }

    #[expect(clippy::cast_precision_loss, reason = "for a person to read")]
    fn add_figures(&mut self, run: &Run) {
        let Self { table, subject, .. } = self;
        let prepared = run.prepared.percentiles().count;
        // The parts of an isolation run are prepared one after another, with measurements in
        // between.
        if prepared > 0 && run.stretches.is_empty() {
            let took = run.prepared.lasted();
            table.add("preparing: schedules", "/s", per_second(prepared, took));
        }
        let percentiles = run.measured.percentiles();
        let sent = percentiles.count.saturating_sub(run.unsent);
        if percentiles.count > 0 {
            let took = run.measured.lasted();
            let (speed, times) = words(*subject, run.options.paced().is_some());
            if !matches!(subject, Subject::HotSecond | Subject::DeadLetters) {
                table.add(speed, "/s", per_second(sent, took));
            }
            add_times(table, times, &percentiles);
        }
        if let Some(recording) = &run.recording {
            let late = recording.lateness.percentiles();
            if late.count > 0 {
                add_times(table, LATENESS, &late);
            }
        }
        run.report_stretches(table);
        if let Some(out) = run.out_after {
            table.add("all out and acknowledged after", "s", out.as_secs_f64());
            table.add("leased and acknowledged", "/s", per_second(run.timers, out));
        }
        let behind = run.behind.percentiles();
        if run.options.paced().is_some() && behind.count > 0 {
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

    /// Returns the checker's counts that are not among the counts of every run.
    fn checked_counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let more = [
            Count::OldTime,
            Count::StaleSettleAccepted,
            Count::Resurrected,
            Count::DeliveryIdChanged,
            Count::Undone,
            Count::Stuck,
        ];
        let verdict = self.verdict.iter();
        verdict.flat_map(move |verdict| {
            let explained = ("duplicates, explained", verdict.duplicates_explained);
            more.map(|count| (count.name(), verdict.count(count))).into_iter().chain([explained])
        })
    }

    /// Draws the distribution of the times, and the timers of each second, to an SVG file.
    ///
    /// # Errors
    /// When the file cannot be written.
    #[expect(clippy::cast_precision_loss, reason = "for a picture")]
    pub fn plot(&self, file: &Path) -> Result<()> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let times = || points().map(|(_, ms)| ms.max(LEAST_MS));
        let by = self.delivery.map(|by| format!(", {by}")).unwrap_or_default();
        let distribution = Panel {
            title: format!("{}, {}{by}: distribution", self.subject.name(), self.transport),
            x: Axis::shares("share of all", points().map(|(share, _)| *share).fold(0.0, f64::max)),
            y: Axis::logarithmic(
                "at most this many ms",
                times().fold(1.0, f64::min),
                times().fold(1.0, f64::max),
            ),
            layers: self
                .series
                .iter()
                .map(|Series { name, points }| Layer {
                    name: Some(name.clone()),
                    shape: Shape::Line,
                    points: points.clone(),
                })
                .collect(),
            marks: Vec::new(),
        };
        let unit = if self.verdict.is_some() { "operations" } else { "timers" };
        let most = self.by_second.iter().max().map_or(1.0, |most| *most as f64);
        let counts = (0..).zip(&self.by_second).map(|(at, count)| (f64::from(at), *count as f64));
        let throughput = Panel {
            title: format!("{unit} of each second"),
            x: Axis::linear("second", 0.0, self.by_second.len().max(1) as f64),
            y: Axis::linear(unit, 0.0, most),
            layers: vec![Layer { name: None, shape: Shape::Bars, points: counts.collect() }],
            marks: Vec::new(),
        };
        plot::draw(file, &[distribution, throughput])
    }

    /// Returns the report for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "subject": self.subject.name(),
            "transport": self.transport,
            "delivery": self.delivery,
            "complete": self.is_complete,
            "failed": self.failed,
            "figures": self.table.to_json(),
            "counts": self.counts,
            "broken": self.broken,
            "remarks": self.remarks,
            "by_second": self.by_second,
            "verdict": self.verdict,
        })
    }
}

/// Shortest time of a plot, in ms.
const LEAST_MS: f64 = 0.001;
/// Name of the time received minus due.
const LATENESS: &str = "lateness";

/// Returns the distributions of a run: those of its parts, or the measured times and the lateness.
fn series(run: &Run) -> Vec<Series> {
    let (_, times) = words(run.options.subject, run.options.paced().is_some());
    let own = [(times, &*run.measured)].into_iter();
    let lateness = run.recording.iter().map(|recording| (LATENESS, &*recording.lateness));
    let mut all: Vec<_> = own
        .chain(lateness)
        .map(|(name, recorder)| Series { name: name.to_owned(), points: recorder.distribution() })
        .collect();
    all.extend(run.stretches.iter().map(|stretch| Series {
        name: format!("{LATENESS} {}", stretch.name),
        points: stretch.recorder().distribution(),
    }));
    all.retain(|series| !series.points.is_empty());
    all
}

/// Returns the names of a subject's speed and times.
fn words(subject: Subject, is_paced: bool) -> (&'static str, &'static str) {
    let from = if is_paced { "latency from the intended time" } else { "latency of a call" };
    match subject {
        Subject::Ingest | Subject::Size => ("scheduled", from),
        Subject::Repeat => ("repeated", from),
        Subject::Reschedule => ("rescheduled", from),
        Subject::Cancel => ("cancelled", from),
        Subject::Debounce => ("replaced", from),
        Subject::Mixed | Subject::Recovery => ("operations answered", from),
        Subject::Lateness | Subject::Isolation | Subject::Namespaces => ("fired", LATENESS),
        Subject::HotSecond | Subject::DeadLetters => ("leased", "from due to leased"),
        Subject::Waiting => ("fired", LATENESS),
        Subject::Lists => ("pages", "latency of a page"),
    }
}

fn add_times(table: &mut Table, name: &str, percentiles: &Percentiles) {
    let Percentiles { p50_us, p99_us, p999_us, max_us, .. } = *percentiles;
    for (word, us) in [("p50", p50_us), ("p99", p99_us), ("p99.9", p999_us), ("max", max_us)] {
        table.add(&format!("{name}, {word}"), "ms", ms(us));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.table)?;
        let counts = serde_json::to_value(self.counts).map_err(|_| fmt::Error)?;
        for (name, count) in counts.as_object().into_iter().flatten() {
            writeln!(f, "{:<44}{:>11}", name.replace('_', " "), count)?;
        }
        for (name, count) in self.checked_counts() {
            writeln!(f, "{name:<44}{count:>11}")?;
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
