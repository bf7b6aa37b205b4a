//! Row `existing`: the same requests again. Each returns the existing timer and changes nothing.

use super::{
    Bench, Name, ingest, rows,
    scene::Scene,
    writer::{Expected, Writer},
};
use crate::{error::Result, progress::Progress, usage::Span};

/// Repeats every schedule call in the order of the first time.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &Scene) -> Result<()> {
    let options = bench.options;
    let writer = Writer { store: scene.store(), in_flight: options.in_flight };
    let batches = ingest::batches(&scene.workload, 0..options.timers, options.batch);
    let span = Span::begin();
    let sent = writer.send(
        batches,
        Expected::Existing,
        Progress::new("repeated", options.timers.into()),
    )?;
    let spent = span.end();
    let about = format!("the same schedules again, batches of {}: idempotent", options.batch);
    let row = bench.report.row(Name::Existing.as_str(), about, sent.items);
    rows::add_sent(row, &sent, &spent);
    Ok(())
}
