//! Conversion of costs to figures of a row.

use std::{path::Path, time::Duration};

use super::writer::Sent;
use crate::{error::Result, floor, latency::Latencies, report::Row, usage::Spent};

/// Most commits of a row's baseline.
const FLOOR_COMMITS_MAX: u64 = 500;

/// Adds the figures of batches that a writer sent.
pub(super) fn add_sent(row: &mut Row, sent: &Sent, spent: &Spent) {
    add_spent(row, sent.items, spent);
    add_callers(row, sent.items, spent, sent.cpu);
    add_latencies(row, &sent.latencies);
}

/// Adds the figures of work on `items` items: speed, CPU per item, syncs.
pub(super) fn add_spent(row: &mut Row, items: u64, spent: &Spent) {
    row.add("per_second", "/s", per_second(items, spent.elapsed))
        .add("elapsed", "s", spent.elapsed.as_secs_f64())
        .add("cpu", "µs", micros_each(spent.process, items))
        .add("cpu_engine", "µs", micros_each(spent.engine, items))
        .add("cpu_sync", "µs", micros_each(spent.sync, items));
    if spent.syncs.count() > 0 {
        row.add("items per sync", "", each(items, spent.syncs.count()))
            .add("sync p50", "ms", spent.syncs.quantile_ms(0.5))
            .add("sync p99", "ms", spent.syncs.quantile_ms(0.99))
            .add("sync max", "ms", spent.syncs.quantile_ms(1.0))
            .add("journal", "B each", each(spent.committed_bytes, items));
    }
}

/// Adds the speed of the disk alone as the baseline: the same bytes in as many syncs, at most
/// `FLOOR_COMMITS_MAX` of them. A row that wrote nothing has no baseline.
pub(super) fn add_floor(row: &mut Row, folder: &Path, items: u64, spent: &Spent) -> Result<()> {
    let disk = disk_alone(folder, items, spent)?;
    if disk > 0.0 {
        row.beside("per_second", FLOOR_ABOUT, disk);
    }
    Ok(())
}

/// The text of the baseline, for people.
pub(super) const FLOOR_ABOUT: &str = "same bytes, same syncs: append + fdatasync";

/// Returns the items per second of the disk alone, with the span's bytes per item and items per
/// sync. Returns 0 if the span wrote nothing.
pub(super) fn disk_alone(folder: &Path, items: u64, spent: &Spent) -> Result<f64> {
    let syncs = spent.syncs.count();
    if syncs == 0 || spent.committed_bytes == 0 || items == 0 {
        return Ok(0.0);
    }
    let commit_bytes = usize::try_from(spent.committed_bytes / syncs).unwrap_or(usize::MAX);
    let commits = u32::try_from(syncs.min(FLOOR_COMMITS_MAX)).unwrap_or(u32::MAX);
    let floor = floor::measure(folder, commit_bytes, commits)?;
    Ok(each(items, syncs) * per_second(u64::from(commits), floor.elapsed))
}

/// Adds the CPU of the calling threads, and the rest of the process's CPU: threads that ended
/// meanwhile, such as one that fills a segment ahead.
pub(super) fn add_callers(row: &mut Row, items: u64, spent: &Spent, callers: Duration) {
    let other = spent.process.saturating_sub(spent.engine + spent.sync + callers);
    row.add("cpu_callers", "µs", micros_each(callers, items)).add(
        "cpu_other",
        "µs",
        micros_each(other, items),
    );
}

/// Adds the percentiles of calls.
pub(super) fn add_latencies(row: &mut Row, latencies: &Latencies) {
    row.add("p50", "ms", latencies.quantile_ms(0.5))
        .add("p99", "ms", latencies.quantile_ms(0.99))
        .add("p99.9", "ms", latencies.quantile_ms(0.999))
        .add("p99.99", "ms", latencies.quantile_ms(0.9999))
        .add("max", "ms", latencies.quantile_ms(1.0));
}

/// Returns the items per second.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn per_second(items: u64, elapsed: Duration) -> f64 {
    items as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// Returns the share of one item.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn each(sum: u64, items: u64) -> f64 {
    sum as f64 / items.max(1) as f64
}

/// Returns the CPU of one item, in microseconds.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn micros_each(sum: Duration, items: u64) -> f64 {
    sum.as_secs_f64() * 1e6 / items.max(1) as f64
}
