//! Rows `dead`, `redrive` and `purge`: memory, disk and speed of dead letters, in a child process.

use super::{
    Bench, Name,
    child::Child,
    rows,
    step::{DeadStep, Letters, Step, Work},
};
use crate::{error::Result, report::Row};

/// Measures all three rows.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<()> {
    let options = bench.options;
    let step = DeadStep {
        folder: bench.folder.to_owned(),
        letters: options.dead(),
        batch: options.batch,
        in_flight: options.in_flight,
        payload_bytes: options.payload_bytes,
    };
    let mut child = Child::start(options.program.as_deref(), &Step::Dead(step))?;
    let letters: Letters = child.answer()?;
    child.wait()?;
    let dead = letters.made.items;
    let batch = options.batch;
    let about =
        format!("claim + verdict `dead`, durable, batches of {batch}; all stay dead letters");
    let row = bench.report.row(Name::Dead.as_str(), about, dead);
    add_work(row, &letters.made);
    row.add("resident", "B each", rows::each(letters.resident_bytes, dead))
        .add("index", "B each", rows::each(letters.index_bytes, dead))
        .add("disk", "B each", rows::each(letters.disk_bytes, dead));
    let about = format!("redrive of one half, a day later, batches of {batch}");
    let row = bench.report.row("redrive", about, letters.redriven.items);
    add_work(row, &letters.redriven);
    let about = format!("purge of the other half, batches of {batch}");
    let row = bench.report.row("purge", about, letters.purged.items);
    add_work(row, &letters.purged);
    row.add("disk afterwards", "MB", rows::each(letters.disk_after_bytes, 1_000_000));
    Ok(())
}

fn add_work(row: &mut Row, work: &Work) {
    let items = rows::each(work.items, 1);
    row.add("per_second", "/s", items / work.elapsed_s.max(1e-9))
        .add("elapsed", "s", work.elapsed_s)
        .add("cpu", "µs", work.cpu_s * 1e6 / items.max(1.0));
    if work.floor_per_second > 0.0 {
        row.beside("per_second", rows::FLOOR_ABOUT, work.floor_per_second);
    }
}
