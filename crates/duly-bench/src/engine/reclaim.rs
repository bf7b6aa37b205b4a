//! Row `reclaim`: disk space after nine of ten timers were cancelled.
//!
//! The namespace keeps no tombstones, so the live data are the timers that stay. The bound of the
//! design does not count tombstones either.

use std::{
    thread,
    time::{Duration, Instant},
};

use duly_core::{Millis, Settings};

use super::{
    Bench, Name, ingest, rows,
    scene::{Due, Scene, Setup},
    writer::{Expected, Writer},
};
use crate::{
    error::{Error, Result},
    progress::Progress,
    usage::{Span, disk_bytes},
    workload,
};

/// One of `STAYS` timers stays.
const STAYS: u32 = 10;
/// Time between two measurements of the disk.
const PAUSE: Duration = Duration::from_secs(1);
/// Factor of the live bytes in the bound.
const LIVE_TIMES: u64 = 3;
/// Bytes that the bound adds.
const LIVE_MORE: u64 = 1 << 30;
/// Measurements without a change after which the watch ends: the disk has reached its final size.
const STILL_LOOKS: u32 = 10;

/// Result of the watch.
struct Watched {
    within_after: Option<Duration>,
    last_bytes: u64,
    peak_bytes: u64,
    seconds: f64,
}

/// Fills the store, cancels timers and watches the disk.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<()> {
    let options = bench.options;
    let mut setup = Setup::new(Due::Spread, options.payload_bytes);
    setup.settings = Settings { retention: Millis::ZERO, ..Settings::default() };
    let scene = Scene::fresh(bench.folder, &setup)?;
    ingest::fill(&scene, options.timers, options.batch, options.in_flight)?;
    let full_bytes = disk_bytes(scene.path())?;
    let stay = options.timers.div_ceil(STAYS);
    let order = workload::shuffled(options.timers);
    let going = &order[stay as usize..];
    let batches = going
        .chunks(options.batch as usize)
        .map(|numbers| numbers.iter().map(|n| scene.workload.cancel(*n)).collect());
    let writer = Writer { store: scene.store(), in_flight: options.in_flight };
    let span = Span::begin();
    let progress = Progress::new("cancelled", going.len() as u64);
    let sent = writer.send(batches, Expected::Cancelled, progress)?;
    let spent = span.end();
    Error::unless_equal("pending timers", stay.into(), scene.pending()?)?;

    let live_bytes = u64::from(stay) * scene.workload.logical_bytes_each();
    let bound = LIVE_TIMES * live_bytes + LIVE_MORE;
    let watched = watch(bench, &scene, bound)?;
    Error::unless_equal("pending timers", stay.into(), scene.pending()?)?;
    let about = format!(
        "disk after {} of {} were cancelled in random order, without tombstones; bound: 3x live + 1 GiB",
        going.len(),
        options.timers
    );
    let within = watched.within_after.map_or(f64::INFINITY, |after| after.as_secs_f64());
    let row = bench.report.row(Name::Reclaim.as_str(), about, sent.items);
    row.add("per_second", "/s", rows::per_second(sent.items, spent.elapsed))
        .add("disk before", "MB", rows::each(full_bytes, 1_000_000))
        .add("disk peak", "MB", rows::each(watched.peak_bytes, 1_000_000))
        .add("disk at the end", "MB", rows::each(watched.last_bytes, 1_000_000))
        .beside("disk at the end", "logical bytes of what stays", rows::each(live_bytes, 1_000_000))
        .add("bound", "MB", rows::each(bound, 1_000_000))
        .add("within limit after", "s", within)
        .add("watched", "s", watched.seconds);
    rows::add_floor(row, bench.folder, sent.items, &spent)?;
    scene.remove()
}

/// Measures the disk each second, until the bound holds and nothing changes any more, or the time
/// is over.
fn watch(bench: &Bench<'_>, scene: &Scene, bound: u64) -> Result<Watched> {
    let longest = Duration::from_secs(bench.options.reclaim_seconds.into());
    let began = Instant::now();
    let mut progress = Progress::new("seconds watched", bench.options.reclaim_seconds.into());
    let first = disk_bytes(scene.path())?;
    let mut watched =
        Watched { within_after: None, last_bytes: first, peak_bytes: first, seconds: 0.0 };
    let mut still = 0;
    loop {
        let (bytes, at) = (disk_bytes(scene.path())?, began.elapsed());
        still = if bytes == watched.last_bytes { still + 1 } else { 0 };
        watched.last_bytes = bytes;
        watched.peak_bytes = watched.peak_bytes.max(bytes);
        watched.seconds = at.as_secs_f64();
        // If the disk grows above the bound again, an earlier success does not count.
        watched.within_after =
            if bytes <= bound { watched.within_after.or(Some(at)) } else { None };
        progress.at(at.as_secs());
        if at >= longest || (watched.within_after.is_some() && still >= STILL_LOOKS) {
            return Ok(watched);
        }
        thread::sleep(PAUSE.min(longest / 10));
    }
}
