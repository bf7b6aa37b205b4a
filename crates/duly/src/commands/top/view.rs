//! The comparison of two polls: the document for programs, and the content of the screen.

use std::time::Duration;

use duly_core::metric_names as names;
use serde::Serialize;

use super::{
    rates::{Comparison, Quantiles},
    scrape::{Namespace, Scrape, Series},
};
use crate::commands::health;

/// The values of one interval.
#[derive(Serialize)]
pub(super) struct View {
    pub(super) interval_ms: u64,
    pub(super) version: Option<String>,
    pub(super) ready: bool,
    pub(super) reasons: Vec<String>,
    /// `true`: the server has restarted within the interval.
    pub(super) restarted: bool,
    pub(super) per_second: Activity,
    /// Totals since the server started.
    pub(super) totals: Activity,
    pub(super) lateness: Option<Quantiles>,
    pub(super) commit: Option<Quantiles>,
    pub(super) pending: u64,
    pub(super) due: u64,
    pub(super) in_flight: u64,
    pub(super) dead: u64,
    pub(super) oldest_due_ms: u64,
    pub(super) disk_free_bytes: Option<u64>,
    pub(super) resident_bytes: Option<u64>,
    /// Namespaces; those with the most due timers come first.
    pub(super) namespaces: Vec<Row>,
    /// `true`: the server has more namespaces than were polled.
    pub(super) more_namespaces: bool,
}

/// The activity of the server.
#[derive(Serialize)]
pub(super) struct Activity {
    pub(super) scheduled: f64,
    pub(super) cancelled: f64,
    pub(super) fired: f64,
    pub(super) acknowledged: f64,
    pub(super) failed: f64,
    pub(super) retried: f64,
    /// Count of the polled namespaces only.
    pub(super) dead: f64,
    pub(super) refused: f64,
}

/// A namespace.
#[derive(Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) destination: String,
    pub(super) pending: u64,
    pub(super) due: u64,
    pub(super) in_flight: u64,
    pub(super) fired_per_second: f64,
    /// The worst state among the breakers of its lanes.
    pub(super) breaker: Option<&'static str>,
    pub(super) paused: bool,
}

impl View {
    /// Returns the comparison of two polls.
    pub(super) fn between(before: &Scrape, now: &Scrape, version: Option<String>) -> Self {
        let interval = now.at.saturating_duration_since(before.at);
        let comparison = Comparison::new(&before.metrics, &now.metrics);
        let metrics = &now.metrics;
        let gauge = |name| metrics.gauge(name).map(whole);
        let count = |name| gauge(name).unwrap_or(0);
        let mut namespaces: Vec<_> =
            now.namespaces.iter().map(|now| Row::of(earlier(before, now), now, interval)).collect();
        namespaces.sort_by(|a, b| {
            (b.due, b.in_flight, b.pending)
                .cmp(&(a.due, a.in_flight, a.pending))
                .then_with(|| a.name.cmp(&b.name))
        });
        let dead = now.namespaces.iter().map(|now| {
            // Counts from before the first poll of a namespace do not belong to this interval.
            earlier(before, now).map_or(0, |before| grown(before.totals().dead, now.totals().dead))
        });
        let dead = per_second(float(dead.sum()), interval);
        let dead_total = float(now.namespaces.iter().map(|now| now.totals().dead).sum());
        Self {
            interval_ms: u64::try_from(interval.as_millis()).unwrap_or(u64::MAX),
            version,
            ready: health::is_ready(&now.readiness),
            reasons: health::reasons_in_words(&now.readiness),
            restarted: comparison.has_restarted,
            per_second: Activity::of(dead, |name, wants| {
                per_second(comparison.growth(name, wants), interval)
            }),
            totals: Activity::of(dead_total, |name, wants| metrics.sum(name, wants)),
            lateness: comparison.quantiles(names::LATENESS_SECONDS),
            commit: comparison.quantiles(names::COMMIT_SECONDS),
            pending: count(names::PENDING),
            due: count(names::DUE),
            in_flight: count(names::IN_FLIGHT),
            dead: count(names::DEAD),
            oldest_due_ms: metrics
                .gauge(names::OLDEST_DUE_SECONDS)
                .map_or(0, |seconds| whole(seconds * 1_000.0)),
            disk_free_bytes: gauge(names::DISK_FREE_BYTES),
            resident_bytes: gauge(names::RESIDENT_BYTES),
            namespaces,
            more_namespaces: now.has_more,
        }
    }
}

impl Activity {
    fn of(dead: f64, sum: impl Fn(&str, fn(&Series) -> bool) -> f64) -> Self {
        let fired = format!("{}_count", names::LATENESS_SECONDS);
        Self {
            scheduled: sum(names::OPERATIONS_TOTAL, |series| {
                series.label("operation") == Some("schedule")
                    && matches!(series.label("outcome"), Some("created" | "replaced"))
            }),
            cancelled: sum(names::OPERATIONS_TOTAL, |series| {
                series.label("outcome") == Some("cancelled")
            }),
            fired: sum(&fired, |_| true),
            acknowledged: sum(names::ATTEMPTS_TOTAL, |series| {
                series.label("outcome") == Some("delivered")
            }),
            failed: sum(names::ATTEMPTS_TOTAL, |series| {
                series.label("outcome") != Some("delivered")
            }),
            retried: sum(&fired, |series| series.label("attempt") == Some("retry")),
            dead,
            refused: sum(names::LIMIT_REFUSALS_TOTAL, |_| true),
        }
    }
}

impl Row {
    fn of(before: Option<&Namespace>, now: &Namespace, interval: Duration) -> Self {
        let stats = &now.stats;
        let fired = before.map_or(0, |before| grown(before.totals().fired, now.totals().fired));
        let breakers = || stats.lanes.iter().filter_map(|lane| Some(&*lane.push.as_ref()?.breaker));
        let worst = ["open", "half_open", "closed"];
        Self {
            name: match stats.unavailable_shards.is_empty() {
                true => now.name.clone(),
                false => format!("{} (incomplete)", now.name),
            },
            destination: now.destination.clone(),
            pending: stats.pending,
            due: stats.due,
            in_flight: stats.in_flight,
            fired_per_second: per_second(float(fired), interval),
            breaker: worst.into_iter().find(|state| breakers().any(|breaker| breaker == *state)),
            paused: stats.paused,
        }
    }
}

/// Returns the counts from before that can be compared: those of the same shards.
fn earlier<'a>(before: &'a Scrape, now: &Namespace) -> Option<&'a Namespace> {
    before.namespaces.iter().find(|before| {
        before.name == now.name && before.stats.unavailable_shards == now.stats.unavailable_shards
    })
}

/// Returns the growth of a total. If it has fallen, the namespace was deleted and created again.
fn grown(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn per_second(count: f64, interval: Duration) -> f64 {
    let rate = count / interval.as_secs_f64().max(0.001);
    (rate * 10.0).round() / 10.0
}

#[expect(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

/// Rounds a value to a whole number; 0 if it is not a number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
