//! Row `latency`: commit latency at a fixed rate, as an open loop, beside pending timers.
//!
//! Batches are sent at their scheduled times, even if earlier batches have no result yet. Latency
//! counts from the scheduled time, so a stall shows in full (no coordinated omission).
//!
//! ```text
//!   open_loop   sends batches at their times, receives the results
//!   mixed       cancels and firings beside
//!   series      tenths of a second, as CSV; plot draws it
//!   background  which background work ran meanwhile
//! ```
//!
//! The baseline has the same send times: it appends all batches that are due, with the bytes of a
//! batch each, and syncs them together. Its log is one file, and it does nothing else.

mod background;
mod mixed;
mod open_loop;
mod plot;
mod series;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Instant,
};

use self::{
    background::Background,
    mixed::Beside,
    open_loop::{Pace, Ran},
};
use super::{
    Bench, Name, rows,
    scene::{AHEAD, Due, Scene},
    writer::Expected,
};
use crate::{
    error::{Error, Result},
    floor::Ring,
    progress::Progress,
    usage::Span,
};

/// Namespace of the scheduled timers.
const NAMESPACE: &str = "latency";

/// Measures the row and its baseline.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &Scene) -> Result<()> {
    let options = bench.options;
    let pace = Pace::new(options.rate, options.latency_batch, options.duration());
    let timers = scene.beside(NAMESPACE, Due::Spread, AHEAD)?;
    let beside = options.mixed.then(|| Beside::new(scene, &pace, options));
    let progress = Progress::new("commits", pace.calls);
    let span = Span::begin();
    let stop = AtomicBool::new(false);
    let (ran, done_beside, background) = thread::scope(|scope| {
        let watching = scope.spawn(|| Background::watch(scene.path(), &stop));
        let others = beside.as_ref().map(|beside| beside.start(scope, scene));
        let batch = |call| mixed::batch(scene, &timers, &pace, call, beside.is_some());
        let ran = open_loop::run(scene.store(), &pace, batch, Expected::Created, progress);
        stop.store(true, Ordering::Relaxed);
        let background = watching.join().expect("watching does not panic");
        // The consumer waits for the last firing. The counts include it, the figures do not.
        let others = others.map(mixed::Others::join).transpose();
        Ok::<_, Error>((ran?, others?, background))
    })?;
    let spent = span.end();
    check(bench, scene, &ran, done_beside.as_ref())?;

    let more = if options.mixed { "; cancels and firings beside, a tenth of it each" } else { "" };
    let about = format!(
        "open loop, {}/s in batches of {}, {} pending{more}; latency from the scheduled time",
        options.rate, options.latency_batch, options.timers
    );
    let row = bench.report.row(Name::Latency.as_str(), about, ran.items);
    row.add("per_second", "/s", rows::per_second(ran.items, ran.elapsed))
        .add("elapsed", "s", ran.elapsed.as_secs_f64())
        .add("cpu", "µs", rows::micros_each(spent.process, ran.items))
        .add("cpu_engine", "µs", rows::micros_each(spent.engine, ran.items))
        .add("cpu_sync", "µs", rows::micros_each(spent.sync, ran.items))
        .add("sync p50", "ms", spent.syncs.quantile_ms(0.5))
        .add("sync max", "ms", spent.syncs.quantile_ms(1.0))
        .add("sent late p99.9", "ms", ran.sent_late.quantile_ms(0.999))
        .add("sent late max", "ms", ran.sent_late.quantile_ms(1.0))
        .add("from the call p99.9", "ms", ran.from_call.quantile_ms(0.999))
        .add("from the call max", "ms", ran.from_call.quantile_ms(1.0));
    rows::add_latencies(row, &ran.latencies);
    if let Some(done) = &done_beside {
        row.add("cancels", "/s", rows::per_second(done.cancelled, ran.elapsed))
            .add("cancel p99.9", "ms", done.cancel_latencies.quantile_ms(0.999))
            .add("firings", "/s", rows::per_second(done.fired, ran.elapsed))
            .add("ack p99.9", "ms", done.ack_latencies.quantile_ms(0.999));
    }
    // The bytes of cancels and firings are spread over the calls, so the baseline writes as many
    // bytes.
    let call_bytes = usize::try_from(spent.committed_bytes / pace.calls).expect("a call's bytes");
    let floor = floor(bench, &pace, call_bytes.max(1))?;
    let row = bench.report.row(Name::Latency.as_str(), String::new(), ran.items);
    for (name, share) in QUANTILES {
        let about = "append + fdatasync of the same bytes at the same times";
        row.beside(name, about, floor.latencies.quantile_ms(share));
    }
    write_files(bench, &ran, &floor, &background)
}

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

/// Checks that nothing is missing: the store counts what the results say.
fn check(bench: &Bench<'_>, scene: &Scene, ran: &Ran, beside: Option<&mixed::Done>) -> Result<()> {
    let (cancelled, fired) = beside.map_or((0, 0), |done| (done.cancelled, done.fired));
    let timers = u64::from(bench.options.timers);
    Error::unless_equal("pending timers", timers - cancelled, scene.pending()?)?;
    let namespace = duly_core::NamespaceName::new(NAMESPACE).expect("letters");
    let stats = scene.stats(&namespace)?;
    Error::unless_equal("pending new timers", ran.items - fired, stats.pending())?;
    Error::unless_equal("firings delivered", fired, stats.totals.delivered)
}

/// Measures the disk alone: all batches that are due are appended and synced together.
fn floor(bench: &mut Bench<'_>, pace: &Pace, call_bytes: usize) -> Result<Ran> {
    let mut ring = Ring::make_in(bench.folder)?;
    let mut ran = Ran::new(pace);
    let mut progress = Progress::new("commits of the floor", pace.calls);
    let began = Instant::now();
    let (mut call, mut commits) = (0, 0);
    while call < pace.calls {
        thread::sleep(pace.at(call).saturating_sub(began.elapsed()));
        let now = began.elapsed();
        let due = (call..pace.calls).take_while(|call| pace.at(*call) <= now).count().max(1);
        ring.commit(call_bytes * due)?;
        let done = began.elapsed();
        for _ in 0..due {
            ran.record(pace, call, done, u64::from(pace.batch));
            call += 1;
        }
        commits += 1;
        progress.at(call);
    }
    ran.elapsed = began.elapsed();
    let about = format!(
        "the disk alone: {call_bytes} B a batch at the same times, those due together in one append \
         and fdatasync"
    );
    let row = bench.report.row("latency-floor", about, ran.items);
    row.add("per_second", "/s", rows::per_second(ran.items, ran.elapsed)).add(
        "commits",
        "/s",
        rows::per_second(commits, ran.elapsed),
    );
    rows::add_latencies(row, &ran.latencies);
    Ok(ran)
}

fn write_files(bench: &Bench<'_>, ran: &Ran, floor: &Ran, background: &Background) -> Result<()> {
    if let Some(path) = &bench.options.series {
        series::write_csv(path, &ran.series, &floor.series, background)?;
    }
    if let Some(path) = &bench.options.plot {
        let title = format!(
            "Commit latency, open loop at {}/s, {} timers pending",
            bench.options.rate, bench.options.timers
        );
        plot::draw(path, &title, &ran.series, &floor.series, background)?;
    }
    Ok(())
}
