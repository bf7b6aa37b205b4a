//! Space after cancels: nine of ten timers go, and the disk is watched.
//!
//! The namespace keeps no tombstones, so what is live is the timers that stay; the bound that the design
//! sets leaves tombstones out.

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

/// Of so many timers one stays.
const STAYS: u32 = 10;
/// How often the disk is looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// The bound: so many times what is live...
const LIVE_TIMES: u64 = 3;
/// ...and so much more.
const LIVE_MORE: u64 = 1 << 30;
/// The disk is watched so many looks longer than it needs, to see where it comes to.
const STILL_LOOKS: u32 = 10;

/// What watching found.
struct Watched {
    within_after: Option<Duration>,
    last_bytes: u64,
    peak_bytes: u64,
    seconds: f64,
}

/// Fills, cancels, watches.
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

/// Looks each second, until the bound is kept and nothing changes any more, or time is up.
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
        // Space that is taken again does not count as given back.
        watched.within_after =
            if bytes <= bound { watched.within_after.or(Some(at)) } else { None };
        progress.at(at.as_secs());
        if at >= longest || (watched.within_after.is_some() && still >= STILL_LOOKS) {
            return Ok(watched);
        }
        thread::sleep(PAUSE.min(longest / 10));
    }
}
