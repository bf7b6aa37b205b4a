//! Closing in order and opening again, with the memory that the store then has.

use std::time::Instant;

use super::{Bench, Name, rows, scene::Scene};
use crate::{
    error::{Error, Result},
    usage::{Span, resident_bytes},
};

/// Closes the scene's store and opens it again.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &mut Scene) -> Result<()> {
    let timers = u64::from(bench.options.timers);
    let closing = Instant::now();
    scene.close();
    let close_s = closing.elapsed().as_secs_f64();
    let closed_bytes = resident_bytes();
    let span = Span::begin();
    scene.open()?;
    let spent = span.end();
    let resident = resident_bytes().saturating_sub(closed_bytes);
    Error::unless_equal("pending timers", timers, scene.stats()?.pending())?;
    let about = "close and open again, page cache warm".to_owned();
    bench
        .report
        .row(Name::Open.as_str(), about, timers)
        .add("per_second", "/s", rows::per_second(timers, spent.elapsed))
        .add("cpu", "µs", spent.process.as_secs_f64() * 1e6 / bench.options.timers as f64)
        .add("close", "s", close_s)
        .add("open", "s", spent.elapsed.as_secs_f64())
        .add("resident while closed", "B", closed_bytes as f64)
        .add("resident", "B each", rows::each(resident, timers));
    Ok(())
}
