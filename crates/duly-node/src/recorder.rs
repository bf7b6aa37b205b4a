//! The metrics of the node, with a bounded number of labels.
//!
//! Metrics that are recorded for each firing keep their handles: a look-up by labels builds a key, which
//! allocates memory each time.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use duly_core::{NamespaceName, Timestamp, metric_names as names, timer::AttemptOutcome};
use metrics::{Counter, Histogram};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use crate::lanes::{AttemptKind, BreakerState, LaneActivity, LaneMetrics};

/// Namespaces with a label of their own; later ones share `other`.
const NAMESPACES_MAX: usize = 100;

duly_core::named_enum! {
    /// Mode of a delivery, named as in metrics.
    pub enum DeliveryMode {
        Push = "push",
        Pull = "pull",
    }
}

/// The end of an attempt, as metrics and traces name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptEnd {
    /// The attempt counts for the retry policy, with this outcome.
    Counted(AttemptOutcome),
    /// The firing was put off.
    Snoozed,
}

impl AttemptEnd {
    /// Returns the name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Counted(outcome) => outcome.as_str(),
            Self::Snoozed => "snoozed",
        }
    }
}

/// Label of namespaces without one of their own.
const OTHER: &str = "other";

/// Metrics of a label.
#[derive(Debug, Default)]
struct Labelled {
    /// By mode and outcome.
    attempts: [[OnceLock<Counter>; AttemptOutcome::ALL.len()]; 2],
    /// By mode.
    snoozes: [OnceLock<Counter>; 2],
    lateness: OnceLock<Histogram>,
}

/// Records metrics, and decides which namespaces have a label of their own. The metrics recorder of the
/// process must be installed before the first call.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// By mode and kind.
    lateness: [[OnceLock<Histogram>; 2]; 2],
    deliveries: OnceLock<Histogram>,
    labelled: RwLock<FxHashMap<NamespaceName, Arc<Labelled>>>,
    others: Labelled,
}

impl Recorder {
    /// Records the lateness of a firing that became claimable at `claimable_since` and leaves at `wall`.
    pub(crate) fn lateness(
        &self,
        mode: DeliveryMode,
        kind: AttemptKind,
        namespace: &NamespaceName,
        claimable_since: Timestamp,
        wall: Duration,
    ) {
        let late = wall.saturating_sub(Duration::from_millis(claimable_since.unix_ms()));
        let histogram = self.lateness[mode as usize][kind as usize].get_or_init(|| {
            metrics::histogram!(
                names::LATENESS_SECONDS,
                "kind" => mode.as_str(),
                "attempt" => kind.as_str(),
            )
        });
        histogram.record(late.as_secs_f64());
        let own = self.own_label(namespace);
        let (labelled, label) = self.labelled(own.as_deref(), namespace);
        let histogram = labelled.lateness.get_or_init(|| {
            metrics::histogram!(names::NAMESPACE_LATENESS_SECONDS, "namespace" => label.to_owned())
        });
        histogram.record(late.as_secs_f64());
    }

    /// Returns the metrics of a namespace, and its label.
    fn labelled<'a>(
        &'a self,
        own: Option<&'a Labelled>,
        namespace: &'a NamespaceName,
    ) -> (&'a Labelled, &'a str) {
        own.map_or((&self.others, OTHER), |own| (own, namespace.as_str()))
    }

    /// Counts an attempt that ended.
    pub(crate) fn attempt(&self, mode: DeliveryMode, namespace: &NamespaceName, end: AttemptEnd) {
        let own = self.own_label(namespace);
        let (labelled, label) = self.labelled(own.as_deref(), namespace);
        let AttemptEnd::Counted(outcome) = end else {
            let counter = labelled.snoozes[mode as usize].get_or_init(|| {
                metrics::counter!(
                    names::SNOOZES_TOTAL,
                    "kind" => mode.as_str(),
                    "namespace" => label.to_owned(),
                )
            });
            counter.increment(1);
            return;
        };
        let counter = labelled.attempts[mode as usize][outcome as usize].get_or_init(|| {
            metrics::counter!(
                names::ATTEMPTS_TOTAL,
                "kind" => mode.as_str(),
                "outcome" => outcome.as_str(),
                "namespace" => label.to_owned(),
            )
        });
        counter.increment(1);
    }

    /// Records the duration of a push attempt.
    pub(crate) fn delivery(&self, took: Duration) {
        let histogram =
            self.deliveries.get_or_init(|| metrics::histogram!(names::DELIVERY_SECONDS));
        histogram.record(took.as_secs_f64());
    }

    /// Records the number of lanes by activity and by breaker state.
    pub(crate) fn lanes(counts: &LaneMetrics) {
        for (activity, count) in LaneActivity::ALL.iter().zip(counts.activities) {
            metrics::gauge!(names::LANES, "state" => activity.as_str()).set(count as f64);
        }
        for (breaker, count) in BreakerState::ALL.iter().zip(counts.breakers) {
            metrics::gauge!(names::BREAKERS, "state" => breaker.as_str()).set(count as f64);
        }
        metrics::gauge!(names::LANES_OVERFLOW).set(counts.overflow as f64);
    }

    /// Records the number of push lanes whose firings go to their fallback, and the breakers of
    /// fallbacks.
    pub(crate) fn fallbacks(diverted: usize, breakers: [usize; 3]) {
        metrics::gauge!(names::LANES_DIVERTED).set(diverted as f64);
        for (breaker, count) in BreakerState::ALL.iter().zip(breakers) {
            metrics::gauge!(names::FALLBACK_BREAKERS, "state" => breaker.as_str())
                .set(count as f64);
        }
    }

    /// Records the number of namespaces with due firings and no consumer that leases them.
    pub(crate) fn unleased(count: usize) {
        metrics::gauge!(names::NAMESPACES_UNLEASED).set(count as f64);
    }

    /// Records the number of lanes that the last audit found neglected, and adds it to the findings.
    pub(crate) fn neglected(count: usize) {
        metrics::gauge!(names::LANES_NEGLECTED).set(count as f64);
        metrics::counter!(names::AUDIT_FINDINGS_TOTAL, "kind" => "neglected")
            .increment(count as u64);
    }

    /// Records the number of waiting lease calls.
    pub(crate) fn waiters(count: usize) {
        metrics::gauge!(names::LEASE_WAITERS).set(count as f64);
    }

    /// Returns the metrics of a namespace's own label, if it has one or one is left.
    fn own_label(&self, namespace: &NamespaceName) -> Option<Arc<Labelled>> {
        let labelled = self.labelled.read();
        if let Some(own) = labelled.get(namespace) {
            return Some(Arc::clone(own));
        }
        if labelled.len() >= NAMESPACES_MAX {
            return None;
        }
        drop(labelled);
        let mut labelled = self.labelled.write();
        if labelled.len() >= NAMESPACES_MAX && !labelled.contains_key(namespace) {
            return None;
        }
        Some(Arc::clone(labelled.entry(namespace.clone()).or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_are_those_of_the_table() {
        let check = |metric, label: &str, found: &[&str]| {
            let metric = names::find(metric).unwrap();
            let label = metric.labels.iter().find(|it| it.name == label).unwrap();
            assert_eq!(label.values, found, "{} {}", metric.name, label.name);
        };
        check(names::LANES, "state", &LaneActivity::ALL.map(LaneActivity::as_str));
        check(names::BREAKERS, "state", &BreakerState::ALL.map(BreakerState::as_str));
        check(names::FALLBACK_BREAKERS, "state", &BreakerState::ALL.map(BreakerState::as_str));
        let modes = [DeliveryMode::Push, DeliveryMode::Pull].map(DeliveryMode::as_str);
        let kinds = [AttemptKind::First, AttemptKind::Retry].map(AttemptKind::as_str);
        let outcomes = AttemptOutcome::ALL.map(AttemptOutcome::as_str);
        check(names::LATENESS_SECONDS, "kind", &modes);
        check(names::LATENESS_SECONDS, "attempt", &kinds);
        check(names::ATTEMPTS_TOTAL, "kind", &modes);
        check(names::ATTEMPTS_TOTAL, "outcome", &outcomes);
    }

    #[test]
    fn p10_namespace_labels_are_capped() {
        let recorder = Recorder::default();
        let name = |i: usize| NamespaceName::new(&format!("ns{i}")).unwrap();
        for i in 0..NAMESPACES_MAX {
            assert!(recorder.own_label(&name(i)).is_some(), "{i}");
        }
        assert!(recorder.own_label(&name(NAMESPACES_MAX)).is_none());
        assert!(recorder.own_label(&name(0)).is_some());
    }
}
