//! Rows `reschedule` and `reschedule-cold`: durable reschedules in random order. Each reads its
//! record and appends a whole new one.

use super::{
    Bench, Name, rows,
    scene::Scene,
    writer::{Expected, Writer},
};
use crate::{
    error::{Error, Result},
    pages,
    progress::Progress,
    usage::Span,
    workload,
};

/// Most timers that are moved with a cold page cache: many more would warm it.
const COLD_MAX: u32 = 200_000;

/// Moves every timer once.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &Scene) -> Result<()> {
    let batch = bench.options.batch;
    let about = format!("durable reschedules in random order, batches of {batch}, page cache warm");
    move_some(bench, scene, Name::Reschedule, about, bench.options.timers, 1)
}

/// Empties the page cache, then moves some timers to another due time.
pub(super) fn measure_cold(bench: &mut Bench<'_>, scene: &Scene) -> Result<()> {
    let batch = bench.options.batch;
    let about = format!("durable reschedules in random order, batches of {batch}, page cache cold");
    pages::drop_cached(scene.path())?;
    move_some(bench, scene, Name::RescheduleCold, about, bench.options.timers.min(COLD_MAX), 2)
}

fn move_some(
    bench: &mut Bench<'_>,
    scene: &Scene,
    name: Name,
    about: String,
    moved: u32,
    hours: u64,
) -> Result<()> {
    let options = bench.options;
    let order = workload::shuffled(options.timers);
    let batches = order[..moved as usize]
        .chunks(options.batch as usize)
        .map(|numbers| numbers.iter().map(|n| scene.workload.reschedule(*n, hours)).collect());
    let writer = Writer { store: scene.store(), in_flight: options.in_flight };
    let span = Span::begin();
    let progress = Progress::new("rescheduled", moved.into());
    let sent = writer.send(batches, Expected::Changed, progress)?;
    let spent = span.end();
    Error::unless_equal("pending timers", options.timers.into(), scene.pending()?)?;
    let row = bench.report.row(name.as_str(), about, sent.items);
    rows::add_sent(row, &sent, &spent);
    row.add("read from disk", "B each", rows::each(spent.disk.read, sent.items));
    rows::add_floor(row, bench.folder, sent.items, &spent)
}
