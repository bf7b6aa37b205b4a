//! Row `open`: clean close and new start, with the memory of the opened store.

use std::time::Instant;

use super::{
    Bench, Name,
    child::Child,
    rows,
    scene::Scene,
    step::{End, OpenStep, Opened, Step},
};
use crate::{
    error::{Error, Result},
    pages,
};

/// Closes the scene's store, opens it in a child process, and opens it here again.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &mut Scene) -> Result<()> {
    let timers = u64::from(bench.options.timers);
    let closing = Instant::now();
    scene.close();
    let close_s = closing.elapsed().as_secs_f64();
    let plain = pages::read_plainly(scene.path())?;
    let step = OpenStep { folder: scene.path().to_owned(), ahead_ms: 0, end: End::Close };
    let opened = elsewhere(bench, step)?;
    Error::unless_equal("pending timers", timers, opened.pending)?;
    scene.open()?;
    let about = "close and open again in a new process, page cache warm".to_owned();
    let row = bench.report.row(Name::Open.as_str(), about, timers);
    row.add("per_second", "/s", rows::each(timers, 1) / opened.open_s.max(1e-9))
        .add("cpu", "µs", opened.cpu_s * 1e6 / rows::each(timers, 1))
        .add("close", "s", close_s)
        .add("open", "s", opened.open_s)
        .beside("open", "plain reading of all files, warm", plain.elapsed.as_secs_f64());
    let gain = opened.resident_bytes.saturating_sub(opened.base_bytes);
    row.add("resident", "B each", rows::each(gain, timers));
    Ok(())
}

/// Opens a folder in a child process.
pub(super) fn elsewhere(bench: &Bench<'_>, step: OpenStep) -> Result<Opened> {
    let mut child = Child::start(bench.options.program.as_deref(), &Step::Open(step))?;
    let opened = child.answer()?;
    child.wait()?;
    Ok(opened)
}
