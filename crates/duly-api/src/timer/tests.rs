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
