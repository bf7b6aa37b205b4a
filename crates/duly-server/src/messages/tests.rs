use duly_node::BreakerState;
use serde_json::json;

use super::*;

#[test]
fn a_fallback_without_attempts_says_until_when() {
    let load = FallbackLoad {
        breaker: BreakerState::Open,
        failures: 10,
        next_probe_in: Some(time::Duration::from_millis(2_500)),
    };
    let shown = stats(Stats::default(), &[], Some(load), &Limits::default());
    let expected = json!({"breaker":"open","failures_in_a_row":10,"next_probe_in_ms":2_500});
    assert_eq!(serde_json::to_value(shown.fallback).unwrap(), expected);
}
