use duly_core::{
    Incarnation, Schedule, State as TimerState, TimerId, Timestamp,
    schedule::When,
    timer::{Attempt as StoredAttempt, AttemptOutcome as Outcome},
};

use super::*;

#[test]
fn a_summary_has_no_words_of_the_receiver() {
    let at = Timestamp::from_unix_ms(1_000).unwrap();
    let schedule = Schedule::new(TimerId::new("a").unwrap(), When::At(at));
    let mut timer = StoredTimer::new(schedule, at, Incarnation(7)).unwrap();
    let own = "HTTP 503 (repeated if the retry policy allows)";
    let reason = format!("{own}: cannot read {{\"card\": 4111}}");
    timer.history.push(StoredAttempt::new(1, at, Outcome::Failed, &reason));
    let view = TimerView::whole(NamespaceName::new("ns").unwrap(), TimerState::Retrying, timer);
    let whole = Timer::new(&view, CallEffect::Plain);
    assert_eq!(whole.last_error.as_deref(), Some(&*reason));
    assert_eq!(whole.history[0].reason, reason);
    let summary = Timer::summary(&view, CallEffect::Plain);
    assert_eq!((summary.last_error.as_deref(), summary.history.len()), (Some(own), 0));
}

/// Returns the names of the fields of a message whose JSON has no others.
fn fields(message: &impl Serialize) -> Vec<String> {
    let value = serde_json::to_value(message).unwrap();
    value.as_object().unwrap().keys().cloned().collect()
}

#[test]
fn every_field_of_a_timer_is_shown() {
    let namespace = NamespaceName::new("ns").unwrap();
    let every = StoredTimer { dead_letter: None, ..StoredTimer::every_field() };
    let view = TimerView::whole(namespace, TimerState::Retrying, every.clone());
    let shown = fields(&Timer::new(&view, CallEffect::Plain));
    for name in [
        "payload",
        "headers",
        "tags",
        "slot_key",
        "destination",
        "retry",
        "expire_after",
        "due_at",
        "created_at",
        "updated_at",
        "revision",
        "occurrence",
        "attempts",
        "uncounted_attempts",
        "next_attempt_at",
        "fired_at",
        "maybe_delivered",
        "history",
        "last_error",
        "delivery_id",
    ] {
        assert!(shown.iter().any(|field| field == name), "{name} in {shown:?}");
    }
    let firing = fields(&crate::Firing::of_spec(&every.spec));
    for name in ["payload", "headers", "slot_key", "trace_parent"] {
        assert!(firing.iter().any(|field| field == name), "{name} in {firing:?}");
    }
}
