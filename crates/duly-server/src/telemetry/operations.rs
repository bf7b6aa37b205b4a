//! Counts operations on timers by their outcome, and refusals by their limit.

use std::sync::OnceLock;

use duly_core::metric_names::{LIMIT_REFUSALS_TOTAL, OPERATIONS, OPERATIONS_TOTAL, OUTCOMES};
use duly_store::{Outcome, Refusal};
use metrics::{Counter, counter};

use crate::problem::refusal_texts::OperationKind;

/// Counts an operation. The recorder must be installed before the first call.
pub(crate) fn record(kind: OperationKind, outcome: &Outcome) {
    static COUNTERS: OnceLock<Vec<Counter>> = OnceLock::new();
    let counters = COUNTERS.get_or_init(|| {
        let pairs = OPERATIONS.iter().flat_map(|k| OUTCOMES.iter().map(move |o| (*k, *o)));
        pairs.map(|(k, o)| counter!(OPERATIONS_TOTAL, "operation" => k, "outcome" => o)).collect()
    });
    if let Outcome::Refused(
        Refusal::Exhausted { limit, .. } | Refusal::QuotaExceeded { quota: limit, .. },
    ) = outcome
    {
        counter!(LIMIT_REFUSALS_TOTAL, "limit" => limit.as_str()).increment(1);
    }
    let index = kind as usize * OUTCOMES.len() + outcome_index(outcome);
    if let Some(counter) = counters.get(index) {
        counter.increment(1);
    }
}

/// Returns the index of an outcome in [`OUTCOMES`].
pub(crate) const fn outcome_index(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Created(_) => 0,
        Outcome::Existing(_) => 1,
        Outcome::Replaced(_) => 2,
        Outcome::Changed(_) => 3,
        Outcome::Unchanged(_) => 4,
        Outcome::Cancelled { .. } => 5,
        Outcome::Purged => 6,
        Outcome::Refused(_) => 7,
        Outcome::Failed(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use duly_core::metric_names::LIMITS;
    use duly_store::Limit;

    #[test]
    fn limits_are_those_of_the_table() {
        assert_eq!(LIMITS, Limit::ALL.map(Limit::as_str));
    }
}
