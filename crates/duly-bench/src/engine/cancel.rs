//! Row `cancel`: durable cancels in random order, until no timer is pending.

use super::{
    Bench, Name, rows,
    scene::Scene,
    writer::{Expected, Writer},
};
use crate::{
    error::{Error, Result},
    progress::Progress,
    usage::Span,
    workload,
};

/// Cancels every timer.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &Scene) -> Result<()> {
    let options = bench.options;
    let order = workload::shuffled(options.timers);
    let batches = order
        .chunks(options.batch as usize)
        .map(|numbers| numbers.iter().map(|n| scene.workload.cancel(*n)).collect());
    let writer = Writer { store: scene.store(), in_flight: options.in_flight };
    let span = Span::begin();
    let sent = writer.send(
        batches,
        Expected::Cancelled,
        Progress::new("cancelled", options.timers.into()),
    )?;
    let spent = span.end();
    Error::unless_equal("pending timers", 0, scene.pending()?)?;
    let about = format!("durable cancels in random order, batches of {}", options.batch);
    let row = bench.report.row(Name::Cancel.as_str(), about, sent.items);
    rows::add_sent(row, &sent, &spent);
    rows::add_floor(row, bench.folder, sent.items, &spent)
}
