//! Durable reschedules in random order: each reads its record and appends it whole.

use super::{
    Bench, Name, rows,
    scene::Scene,
    writer::{Expected, Writer},
};
use crate::{
    error::{Error, Result},
    usage::Span,
    workload,
};

/// Moves every timer once.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &Scene) -> Result<()> {
    let options = bench.options;
    let order = workload::shuffled(options.timers);
    let batches = order
        .chunks(options.batch as usize)
        .map(|numbers| numbers.iter().map(|n| scene.workload.reschedule(*n)).collect());
    let writer = Writer { store: scene.store(), in_flight: options.in_flight };
    let span = Span::begin();
    let sent = writer.send(batches, Expected::Changed)?;
    let spent = span.end();
    let timers = u64::from(options.timers);
    Error::unless_equal("pending timers", timers, scene.stats()?.pending())?;
    let about = format!(
        "durable reschedules in random order, batches of {}, page cache warm",
        options.batch
    );
    let row = bench.report.row(Name::Reschedule.as_str(), about, sent.items);
    rows::add_sent(row, &sent, &spent);
    Ok(())
}
