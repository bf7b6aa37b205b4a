//! How costs become figures of a row.

use std::time::Duration;

use super::writer::Sent;
use crate::{latency::Latencies, report::Row, usage::Spent};

/// Figures of batches that a writer sent.
pub(super) fn add_sent(row: &mut Row, sent: &Sent, spent: &Spent) {
    add_spent(row, sent.items, spent);
    add_callers(row, sent.items, spent, sent.cpu);
    add_latencies(row, &sent.latencies);
}

/// Figures of work on `items` items: speed, CPU each, syncs.
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

/// CPU of the threads that made the calls, and what is left of the process's: threads that ended
/// meanwhile, such as one that fills a segment ahead.
pub(super) fn add_callers(row: &mut Row, items: u64, spent: &Spent, callers: Duration) {
    let other = spent.process.saturating_sub(spent.engine + spent.sync + callers);
    row.add("cpu_callers", "µs", micros_each(callers, items)).add(
        "cpu_other",
        "µs",
        micros_each(other, items),
    );
}

/// Percentiles of calls.
pub(super) fn add_latencies(row: &mut Row, latencies: &Latencies) {
    row.add("p50", "ms", latencies.quantile_ms(0.5))
        .add("p99", "ms", latencies.quantile_ms(0.99))
        .add("p99.9", "ms", latencies.quantile_ms(0.999))
        .add("max", "ms", latencies.quantile_ms(1.0));
}

/// So many in so long, by the second.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn per_second(items: u64, elapsed: Duration) -> f64 {
    items as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// A share of a sum.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn each(sum: u64, items: u64) -> f64 {
    sum as f64 / items.max(1) as f64
}

/// CPU of one item.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
pub(super) fn micros_each(sum: Duration, items: u64) -> f64 {
    sum.as_secs_f64() * 1e6 / items.max(1) as f64
}
