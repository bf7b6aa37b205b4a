//! What is measured, with labels whose number is bounded.

use std::time::Duration;

use duly_core::{NamespaceName, Timestamp, metric_names as names, timer::AttemptOutcome};
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::lanes::{Activity, BreakerState, Census, Kind};

/// Namespaces with a label of their own; later ones share `other`.
const NAMESPACES_MAX: usize = 100;

/// How firings leave the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Push,
    Pull,
}

impl Way {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Pull => "pull",
        }
    }
}

/// Records metrics; knows which namespaces have a label of their own.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    labelled: Mutex<FxHashSet<NamespaceName>>,
}

impl Recorder {
    /// A firing that could be claimed from `claimable_at` on leaves at `wall`.
    pub(crate) fn lateness(way: Way, kind: Kind, claimable_at: Timestamp, wall: Duration) {
        let late = wall.saturating_sub(Duration::from_millis(claimable_at.unix_ms()));
        metrics::histogram!(
            names::LATENESS_SECONDS,
            "kind" => way.as_str(),
            "attempt" => kind.as_str(),
        )
        .record(late.as_secs_f64());
    }

    /// An attempt ended.
    pub(crate) fn attempt(&self, way: Way, namespace: &NamespaceName, outcome: AttemptOutcome) {
        metrics::counter!(
            names::ATTEMPTS_TOTAL,
            "kind" => way.as_str(),
            "outcome" => outcome.as_str(),
            "namespace" => self.label(namespace),
        )
        .increment(1);
    }

    /// A push attempt took this long.
    pub(crate) fn delivery(took: Duration) {
        metrics::histogram!(names::DELIVERY_SECONDS).record(took.as_secs_f64());
    }

    /// Lanes by what they are doing, and by their breakers.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn lanes(census: &Census) {
        for (activity, count) in Activity::ALL.iter().zip(census.activities) {
            metrics::gauge!(names::LANES, "state" => activity.as_str()).set(count as f64);
        }
        for (breaker, count) in BreakerState::ALL.iter().zip(census.breakers) {
            metrics::gauge!(names::BREAKERS, "state" => breaker.as_str()).set(count as f64);
        }
        metrics::gauge!(names::LANES_OVERFLOW).set(census.overflow as f64);
    }

    /// Push lanes whose firings go to their fallback, and the breakers of fallbacks.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn fallbacks(diverted: usize, breakers: [usize; 3]) {
        metrics::gauge!(names::LANES_DIVERTED).set(diverted as f64);
        for (breaker, count) in BreakerState::ALL.iter().zip(breakers) {
            metrics::gauge!(names::FALLBACK_BREAKERS, "state" => breaker.as_str())
                .set(count as f64);
        }
    }

    /// Lanes that the node's auditor found neglected at its last look.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub(crate) fn neglected(now: usize, more: usize) {
        metrics::gauge!(names::LANES_NEGLECTED).set(now as f64);
        metrics::counter!(names::AUDIT_FINDINGS_TOTAL, "kind" => "neglected")
            .increment(more as u64);
    }

    /// Lease calls that wait.
    pub(crate) fn waiters(count: usize) {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        metrics::gauge!(names::LEASE_WAITERS).set(count as f64);
    }

    fn label(&self, namespace: &NamespaceName) -> String {
        let mut labelled = self.labelled.lock();
        if labelled.contains(namespace) {
            return namespace.to_string();
        }
        if labelled.len() < NAMESPACES_MAX {
            labelled.insert(namespace.clone());
            return namespace.to_string();
        }
        "other".to_owned()
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
        check(names::LANES, "state", &Activity::ALL.map(Activity::as_str));
        check(names::BREAKERS, "state", &BreakerState::ALL.map(BreakerState::as_str));
        check(names::FALLBACK_BREAKERS, "state", &BreakerState::ALL.map(BreakerState::as_str));
        let ways = [Way::Push, Way::Pull].map(Way::as_str);
        let kinds = [Kind::First, Kind::Retry].map(Kind::as_str);
        let outcomes = AttemptOutcome::ALL.map(AttemptOutcome::as_str);
        check(names::LATENESS_SECONDS, "kind", &ways);
        check(names::LATENESS_SECONDS, "attempt", &kinds);
        check(names::ATTEMPTS_TOTAL, "kind", &ways);
        check(names::ATTEMPTS_TOTAL, "outcome", &outcomes);
    }

    #[test]
    fn p10_namespace_labels_are_capped() {
        let recorder = Recorder::default();
        for i in 0..NAMESPACES_MAX {
            let name = NamespaceName::new(&format!("ns{i}")).unwrap();
            assert_eq!(recorder.label(&name), name.as_str());
        }
        let late = NamespaceName::new("late").unwrap();
        assert_eq!(recorder.label(&late), "other");
        assert_eq!(recorder.label(&NamespaceName::new("ns0").unwrap()), "ns0");
    }
}
