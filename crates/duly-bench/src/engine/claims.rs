//! Rows `fire`, `claim`, `fire-cold`, `hot` and `hot-claim`: all timers are due at one instant, and
//! one consumer claims them.

use duly_core::{Millis, NamespaceName};

use super::{
    Bench, Name,
    consumer::{Consumer, Then},
    ingest, rows,
    scene::{AHEAD, Due, Scene, Setup},
    writer::{Expected, Writer},
};
use crate::{
    error::{Error, Result},
    pages,
    progress::Progress,
    usage::{Span, own_thread_cpu},
};

/// Delay of the timers of a hot second. It is longer than the time to schedule them, and two hot
/// seconds pass before the first of the other timers is due.
const HOT_AHEAD: Millis = Millis::from_secs(6 * 3_600);
/// Firings of a hot second that the target is about.
const HOT_OF_TARGET: u64 = 1_000_000;

/// State of the page cache for the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    Warm,
    Cold,
}

/// Claimable firings of one row.
struct Takes<'a> {
    name: Name,
    about: String,
    scene: &'a Scene,
    namespace: &'a NamespaceName,
    firings: u32,
    /// Leap of the clock that makes them due.
    leap: Millis,
    then: Then,
}

/// Measures claim, read and durable ack.
pub(super) fn measure_fire(bench: &mut Bench<'_>) -> Result<()> {
    measure(bench, Name::Fire, Then::Ack, Cache::Warm)
}

/// Measures claim and read.
pub(super) fn measure_claim(bench: &mut Bench<'_>) -> Result<()> {
    measure(bench, Name::Claim, Then::Keep, Cache::Warm)
}

/// Measures claim, read and durable ack of records that are only on the disk.
pub(super) fn measure_fire_cold(bench: &mut Bench<'_>) -> Result<()> {
    measure(bench, Name::FireCold, Then::Ack, Cache::Cold)
}

fn measure(bench: &mut Bench<'_>, name: Name, then: Then, cache: Cache) -> Result<()> {
    let options = bench.options;
    let scene = Scene::fresh(bench.folder, &Setup::new(Due::AtOnce, options.payload_bytes))?;
    ingest::fill(&scene, options.timers, options.batch, options.in_flight)?;
    let mut plain = None;
    if cache == Cache::Cold {
        pages::drop_cached(scene.path())?;
        plain = Some(pages::read_plainly(scene.path())?);
        pages::drop_cached(scene.path())?;
    }
    let cold = if cache == Cache::Cold { ", page cache cold" } else { "" };
    let about = format!("all due at one instant{cold}: {}", told(then, options.batch));
    let namespace = &scene.namespaces[0];
    let firings = options.timers;
    take(bench, Takes { name, about, scene: &scene, namespace, firings, leap: AHEAD, then })?;
    if let Some(plain) = plain {
        let megabytes = rows::per_second(plain.bytes, plain.elapsed) / 1e6;
        let row = bench.report.row(name.as_str(), String::new(), firings.into());
        row.beside("disk read", "plain reading of all files, cold", megabytes);
    }
    scene.remove()
}

/// Measures a hot second (all timers due at one instant) on a store with other timers, which stay
/// pending.
pub(super) fn measure_hot(bench: &mut Bench<'_>, scene: &Scene, name: Name) -> Result<()> {
    let options = bench.options;
    let then = if name == Name::Hot { Then::Ack } else { Then::Keep };
    let pending = scene.pending()?;
    let hot = scene.beside(name.as_str(), Due::AtOnce, HOT_AHEAD)?;
    let firings = options.hot();
    let writer = Writer { store: scene.store(), in_flight: options.in_flight };
    let batches = ingest::batches(&hot, 0..firings, options.batch);
    writer.send(batches, Expected::Created, Progress::new("scheduled", firings.into()))?;
    let about =
        format!("due at one instant beside {pending} pending: {}", told(then, options.batch));
    let namespace = &NamespaceName::new(name.as_str()).expect("letters and dashes");
    take(bench, Takes { name, about, scene, namespace, firings, leap: HOT_AHEAD, then })?;
    Error::unless_equal("pending timers beside", pending, scene.pending()?)
}

fn told(then: Then, batch: u32) -> String {
    match then {
        Then::Ack => {
            format!("claim + read + durable ack, one consumer, batches of {batch}; p50… of an ack")
        }
        _ => format!("claim + read only, one consumer, batches of {batch}; p50… of a claim"),
    }
}

fn take(bench: &mut Bench<'_>, takes: Takes<'_>) -> Result<()> {
    let Takes { name, about, scene, namespace, firings, leap, then } = takes;
    let options = bench.options;
    let (batch, settles_max) = (options.batch, options.in_flight);
    let mut consumer = Consumer::new(scene.store(), namespace, batch, settles_max, then);
    let cpu_before = own_thread_cpu();
    let span = Span::begin();
    scene.leap(leap);
    consumer.take(|| firings.into(), Progress::new("claimed", firings.into()))?;
    let spent = span.end();
    let cpu = own_thread_cpu().saturating_sub(cpu_before);

    let read = u64::from(firings) * u64::from(options.payload_bytes);
    Error::unless_equal("bytes of payload", read, consumer.payload_bytes)?;
    Error::unless_equal("firings", firings.into(), consumer.claimed)?;
    let (acked, kept) =
        if then == Then::Keep { (0, consumer.claimed) } else { (consumer.claimed, 0) };
    Error::unless_equal("acks", acked, consumer.settled)?;
    let stats = scene.stats(namespace)?;
    Error::unless_equal("firings in flight", kept, stats.in_flight)?;
    Error::unless_equal("pending timers", kept, stats.pending())?;
    Error::unless_equal("firings delivered", acked, stats.totals.delivered)?;

    let row = bench.report.row(name.as_str(), about, consumer.claimed);
    rows::add_spent(row, consumer.claimed, &spent);
    rows::add_callers(row, consumer.claimed, &spent, cpu);
    let latencies = match then {
        Then::Keep => &consumer.claim_latencies,
        _ => &consumer.settle_latencies,
    };
    rows::add_latencies(row, latencies);
    let first_after = consumer.first_after.unwrap_or_default();
    let seconds_each = spent.elapsed.as_secs_f64() / rows::each(consumer.claimed, 1);
    row.add("first firing after", "ms", first_after.as_secs_f64() * 1e3)
        .add("payload read", "MB/s", rows::per_second(consumer.payload_bytes, spent.elapsed) / 1e6)
        .add("disk read", "MB/s", rows::per_second(spent.disk.read, spent.elapsed) / 1e6)
        .add("read from disk", "B each", rows::each(spent.disk.read, consumer.claimed))
        .add("1 M in", "s", seconds_each * rows::each(HOT_OF_TARGET, 1));
    rows::add_floor(row, bench.folder, consumer.claimed, &spent)
}
