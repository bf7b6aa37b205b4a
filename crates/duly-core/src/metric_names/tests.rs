use super::*;
use crate::timer::AttemptOutcome;

mod operate;
mod promql;

#[test]
fn names_are_unique_prefixed_and_carry_their_unit() {
    let mut seen = std::collections::BTreeSet::new();
    for metric in ALL {
        assert!(seen.insert(metric.name), "{} stands twice", metric.name);
        assert!(metric.name.starts_with("duly_"), "{}", metric.name);
        let counts = metric.name.ends_with("_total");
        assert_eq!(counts, metric.kind == Kind::Counter, "{}", metric.name);
    }
}

#[test]
fn labels_match_the_help_text() {
    for metric in ALL {
        for label in metric.labels {
            assert!(metric.help.contains(label.name), "{}: {}", metric.name, label.name);
        }
    }
    assert_eq!(ATTEMPT_OUTCOMES, AttemptOutcome::ALL.map(AttemptOutcome::as_str));
    let attempts = find(ATTEMPTS_TOTAL).unwrap();
    assert!(attempts.allows("kind", "push") && attempts.allows("namespace", "any"));
    assert!(!attempts.allows("kind", "both") && !attempts.allows("lane", "any"));
}
