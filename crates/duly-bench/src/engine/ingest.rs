//! Rows `ingest`, `ingest-serial` and `ingest-4x64`: durable schedule calls by one writer with several
//! batches in flight, by one writer with one, and by four writers with small batches.

use std::thread;

use duly_store::{Command, Store as _};

use super::{
    Bench, Name, rows,
    scene::{Due, Scene, Setup},
    writer::{Expected, Sent, Writer},
};
use crate::{
    error::{Error, Result},
    progress::Progress,
    usage::{Span, Spent, disk_bytes, resident_gain_bytes},
    workload::Workload,
};

/// Writers of the row with small batches.
const SMALL_WRITERS: u32 = 4;
/// Timers of a small batch.
pub(super) const SMALL_BATCH: u32 = 64;

/// Fills a store and returns it. Adds the row with the cost of a pending timer, if requested.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Scene> {
    let options = bench.options;
    let scene = Scene::fresh(bench.folder, &Setup::new(Due::Spread, options.payload_bytes))?;
    let (sent, spent) = fill(&scene, options.timers, options.batch, options.in_flight)?;
    if !options.wants(Name::Ingest) {
        return Ok(scene);
    }
    let (resident, disk) = (resident_gain_bytes(), disk_bytes(scene.path())?);
    let (batch, in_flight) = (options.batch, options.in_flight);
    let about = format!(
        "durable schedules, one writer, batches of {batch}, {in_flight} under way, due over 30 days"
    );
    add_row(bench, Name::Ingest, about, &sent, &spent)?;
    let health = scene.store().health();
    bench
        .report
        .row(Name::Ingest.as_str(), String::new(), sent.items)
        .add("disk", "B each", rows::each(disk, sent.items))
        .add("resident", "B each", rows::each(resident, sent.items))
        .add("index", "B each", rows::each(health.index_bytes, sent.items))
        .add("calendar", "B each", rows::each(health.calendar_bytes, sent.items));
    Ok(scene)
}

/// Measures one writer with one batch at a time.
pub(super) fn measure_serial(bench: &mut Bench<'_>) -> Result<()> {
    let options = bench.options;
    let scene = Scene::fresh(bench.folder, &Setup::new(Due::Spread, options.payload_bytes))?;
    let (sent, spent) = fill(&scene, options.timers, options.batch, 1)?;
    let about =
        format!("durable schedules, one writer, batches of {}, one at a time", options.batch);
    scene.remove()?;
    add_row(bench, Name::IngestSerial, about, &sent, &spent)
}

/// Measures four writers with small batches, each with one batch at a time.
pub(super) fn measure_4x64(bench: &mut Bench<'_>) -> Result<()> {
    let options = bench.options;
    let scene = Scene::fresh(bench.folder, &Setup::new(Due::Spread, options.payload_bytes))?;
    let writer = Writer { store: scene.store(), in_flight: 1 };
    let span = Span::begin();
    let sent = thread::scope(|scope| {
        let writers: Vec<_> = (0..SMALL_WRITERS)
            .map(|own| {
                let (writer, workload) = (&writer, &scene.workload);
                let numbers = (own..options.timers).step_by(SMALL_WRITERS as usize);
                scope.spawn(move || {
                    // All four are equally fast, so the progress of the first stands for all.
                    let share = u64::from(options.timers / SMALL_WRITERS);
                    let progress = match own {
                        0 => Progress::new("scheduled by one of four", share),
                        _ => Progress::silent(),
                    };
                    let batches = batches(workload, numbers, SMALL_BATCH);
                    writer.send(batches, Expected::Created, progress)
                })
            })
            .collect();
        Sent::sum(writers.into_iter().map(|writer| writer.join().expect("writers do not panic")))
    })?;
    let spent = span.end();
    Error::unless_equal("pending timers", options.timers.into(), scene.pending()?)?;
    let about = format!(
        "durable schedules, {SMALL_WRITERS} writers, batches of {SMALL_BATCH}, one at a time each"
    );
    scene.remove()?;
    add_row(bench, Name::Ingest4x64, about, &sent, &spent)
}

/// Schedules timers `0..timers`.
pub(super) fn fill(
    scene: &Scene,
    timers: u32,
    batch: u32,
    in_flight: u32,
) -> Result<(Sent, Spent)> {
    let writer = Writer { store: scene.store(), in_flight };
    let span = Span::begin();
    let progress = Progress::new("scheduled", timers.into());
    let batches = batches(&scene.workload, 0..timers, batch);
    let sent = writer.send(batches, Expected::Created, progress)?;
    let spent = span.end();
    Error::unless_equal("pending timers", timers.into(), scene.pending()?)?;
    Ok((sent, spent))
}

/// Yields batches of `batch` schedule commands for these numbers.
pub(super) fn batches(
    workload: &Workload,
    mut numbers: impl Iterator<Item = u32>,
    batch: u32,
) -> impl Iterator<Item = Vec<Command>> {
    std::iter::from_fn(move || {
        let mut commands = Vec::with_capacity(batch as usize);
        commands.extend(numbers.by_ref().take(batch as usize).map(|n| workload.schedule(n)));
        (!commands.is_empty()).then_some(commands)
    })
}

fn add_row(
    bench: &mut Bench<'_>,
    name: Name,
    about: String,
    sent: &Sent,
    spent: &Spent,
) -> Result<()> {
    let row = bench.report.row(name.as_str(), about, sent.items);
    rows::add_sent(row, sent, spent);
    rows::add_floor(row, bench.folder, sent.items, spent)
}
