//! Checks the decisions against a table written by hand, and against invariants of any sequence of
//! operations and verdicts.

use std::collections::BTreeSet;

use super::*;
use crate::{
    DeliveryId, Millis, Payload, Schedule, State, TimerSpec, Tombstone,
    payload::Form,
    refusal::Limit,
    schedule::{Change, IfExists, Patch, Tags},
    timer::{Attempt, AttemptOutcome, DeadLetterId, DeadLetterReason},
    tombstone::Ended,
};

mod invariants;

const TABLE: &str = include_str!("table.txt");
const NOW_MS: u64 = 1_900_000_000_000;
const HOUR_MS: u64 = 3_600_000;
const STATES: [Option<State>; 8] = [
    None,
    Some(State::Scheduled),
    Some(State::Due),
    Some(State::InFlight),
    Some(State::Retrying),
    Some(State::Finished),
    Some(State::Dead),
    Some(State::Cancelled),
];

fn at(ms: u64) -> Timestamp {
    Timestamp::saturating_from_unix_ms(ms)
}

fn now() -> Now {
    Now { wall: at(NOW_MS), steady: at(NOW_MS + 7) }
}

fn namespace() -> NamespaceName {
    NamespaceName::new("n").unwrap()
}

fn id() -> TimerId {
    TimerId::new("a").unwrap()
}

fn payload() -> Payload {
    Payload { form: Form::Text, bytes: "four".into() }
}

/// The request that made the timer of the table. The other request has another due time.
fn request(when: When) -> Schedule {
    Schedule {
        id: id(),
        when,
        spec: TimerSpec { payload: Some(payload()), ..TimerSpec::default() },
    }
}

fn own_request() -> Schedule {
    request(When::At(at(NOW_MS + HOUR_MS)))
}

fn other_request() -> Schedule {
    request(When::After(Millis::from_ms(2 * HOUR_MS)))
}

/// The timer of the table in a state, with revision 3.
fn timer(state: State) -> Timer {
    let mut timer = Timer::new(own_request(), at(NOW_MS - HOUR_MS), Incarnation(7)).unwrap();
    timer.revision = 3;
    if state == State::Scheduled {
        return timer;
    }
    timer.due_at = at(NOW_MS - 1_000);
    if state == State::Retrying {
        timer.attempts = 1;
        timer.next_attempt_at = Some(at(NOW_MS + 1_000));
        let failed = Attempt::new(1, at(NOW_MS - 500), AttemptOutcome::Failed, "no");
        timer.history.push(failed);
    }
    timer
}

fn dead() -> Timer {
    let mut timer = timer(State::Due);
    timer.mark_dead_letter(at(NOW_MS - 10), DeadLetterReason::AttemptsSpent);
    timer
}

fn view(state: State) -> TimerView {
    let tombstone = |ended| {
        TimerView::tombstone(namespace(), Tombstone::of(&timer(State::Due), ended, at(NOW_MS - 10)))
    };
    match state {
        State::Finished => tombstone(Ended::Finished),
        State::Cancelled => tombstone(Ended::Cancelled),
        State::Dead => TimerView::whole(namespace(), state, dead()),
        State::InFlight => TimerView {
            leased_until: Some(at(NOW_MS + 1_000)),
            attempt_under_way: Some(1),
            claimed_at: Some(at(NOW_MS - 1)),
            ..TimerView::whole(namespace(), state, timer(State::Due))
        },
        state => TimerView::whole(namespace(), state, timer(state)),
    }
}

fn settings_of(name: &str) -> (Settings, Usage) {
    let mut settings = Settings::default();
    let limits = &mut settings.limits;
    (limits.max_pending, limits.max_dead, limits.schedule_per_second) = (Some(10), 5, Some(100));
    let mut usage = Usage { pending: 9, dead: 4, schedule_in: Duration::ZERO };
    match name {
        "free" => {}
        "full" => usage = Usage { pending: 10, dead: 5, schedule_in: Duration::from_millis(3) },
        "strict" => {
            (limits.max_payload_bytes, limits.max_delay) = (3, Some(Millis::from_ms(HOUR_MS - 1)));
        }
        other => panic!("there are no settings {other:?}"),
    }
    (settings, usage)
}

/// The operation of a row in a state, and the dead letter that it names or brings.
fn operation_of(name: &str, state: Option<State>) -> (Operation, Option<Box<Timer>>) {
    let (group, variant) = name.split_once('.').unwrap_or((name, ""));
    let own = Some(Box::new(dead())).filter(|_| state == Some(State::Dead));
    let beside = Some(Box::new(dead()));
    let letter = DeadLetterId::Timer(id());
    let stale = (variant == "stale").then_some(2);
    let schedule = |schedule, if_exists| Operation::Schedule { schedule, if_exists };
    match (group, variant) {
        ("schedule", "same") => (schedule(Box::new(own_request()), IfExists::Fail), None),
        // The same request: only a restart changes the timer.
        ("schedule", "restart") => (schedule(Box::new(own_request()), IfExists::Restart), None),
        ("schedule", "empty") => {
            let mut asked = other_request();
            asked.spec.payload = None;
            (schedule(Box::new(asked), IfExists::Fail), None)
        }
        ("schedule", if_exists) => {
            let if_exists = match if_exists {
                "fail" => IfExists::Fail,
                "keep" => IfExists::Keep,
                _ => IfExists::Replace,
            };
            (schedule(Box::new(other_request()), if_exists), None)
        }
        ("import", variant) => {
            let mut imported = match variant {
                "letter" | "letter.same" => dead(),
                _ => timer(State::Scheduled),
            };
            if matches!(variant, "other" | "letter") {
                imported.incarnation = Incarnation(8);
            }
            let known = own.filter(|_| imported.incarnation == Incarnation(7));
            (Operation::Import { timer: Box::new(imported) }, known)
        }
        ("reschedule", variant) => {
            let mut patch = Patch::default();
            if variant == "tags" {
                patch.tags = Change::Set(Tags::new(vec!["t".into()]).unwrap());
            } else {
                patch.payload = Change::Set(payload());
                patch.when = Some(When::After(Millis::from_ms(HOUR_MS)));
            }
            let patch = Box::new(patch);
            (Operation::Reschedule { id: id(), patch, if_revision: stale }, None)
        }
        ("cancel" | "stop", "seen" | "seen.other") => {
            let revision = if variant == "seen" { 3 } else { 4 };
            let seen = Seen { incarnation: Incarnation(7), revision, state: None };
            let stop = Operation::CancelOrStop { id: id(), if_revision: None, seen: Some(seen) };
            let cancel = Operation::CancelSeen { id: id(), seen };
            (if group == "stop" { stop } else { cancel }, None)
        }
        ("stop", _) => (Operation::CancelOrStop { id: id(), if_revision: stale, seen: None }, None),
        ("cancel", _) => (Operation::Cancel { id: id(), if_revision: stale }, None),
        ("fire", _) => (Operation::Fire { id: id() }, None),
        ("overdue", variant) => {
            let by = match variant {
                "later" => NOW_MS - 1_001,
                "exact" => NOW_MS - 1_000,
                _ => NOW_MS,
            };
            (Operation::DeadLetter { id: id(), if_due_by: at(by) }, None)
        }
        ("redrive", "corrupt") => {
            let mut corrupt = dead();
            corrupt.mark_dead_letter(at(NOW_MS), DeadLetterReason::Corrupt);
            let letter = Operation::Redrive { letter, delay: Millis::ZERO };
            (letter, Some(Box::new(corrupt)))
        }
        ("redrive", variant) => {
            let delay = if variant == "too_late" { Millis::MAX } else { Millis::from_ms(5) };
            let known = if variant.is_empty() { own } else { beside };
            (Operation::Redrive { letter, delay }, known)
        }
        ("purge", variant) => {
            (Operation::Purge { letter }, if variant.is_empty() { own } else { beside })
        }
        ("forget", _) => (Operation::Forget { id: id() }, None),
        other => panic!("there is no operation {other:?}"),
    }
}

fn cell(decided: &Result<Decision, Refusal>) -> String {
    let decision = match decided {
        Ok(decision) => decision,
        Err(refusal) => return format!("!{}", reason(refusal)),
    };
    let effect = match &decision.effect {
        None => "-".to_owned(),
        Some(Effect::Put(cause, _)) => format!("{cause:?}").to_lowercase(),
        Some(Effect::End(tombstone)) => tombstone.ended.state().to_string(),
        Some(Effect::DeadLetter(cause, _)) => {
            format!("letter.{}", format!("{cause:?}").to_lowercase())
        }
        Some(Effect::Purge) => "purge".to_owned(),
        Some(Effect::Forget) => "forget".to_owned(),
        Some(Effect::Extend(_)) => "extend".to_owned(),
        Some(Effect::Stop(_)) => "stop".to_owned(),
    };
    let reply = match &decision.reply {
        Reply::Created => "created",
        Reply::Replaced => "replaced",
        Reply::Changed => "changed",
        Reply::Existing(_) => "existing",
        Reply::Unchanged(_) => "unchanged",
        Reply::Cancelled { already: false, .. } => "cancelled",
        Reply::Cancelled { already: true, .. } => "again",
        Reply::Stopped { already: false, .. } => "stopped",
        Reply::Stopped { already: true, .. } => "stopped_again",
        Reply::Purged => "purged",
    };
    format!("{effect}/{reply}")
}

fn reason(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::PayloadTooLarge { .. } => "max_payload_bytes",
        Refusal::DelayTooLong { .. } => "max_delay",
        Refusal::QuotaExceeded {
            quota: Limit::MaxPending, max: 10, retry_after: Some(_), ..
        } => "max_pending",
        Refusal::QuotaExceeded { quota: Limit::MaxDead, max: 5, retry_after: None, .. } => {
            "max_dead"
        }
        Refusal::QuotaExceeded {
            quota: Limit::SchedulePerSecond,
            max: 100,
            retry_after: Some(wait),
            ..
        } if wait.ms() == 3 => "schedule_per_second",
        Refusal::PayloadLost { .. } => "payload_lost",
        Refusal::Invalid(invalid) if invalid.field == "delay" => "invalid",
        other => other.code().as_str(),
    }
}

#[test]
fn every_decision_matches_the_table() {
    let mut rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let head: Vec<_> = rows.next().unwrap().split('|').map(str::trim).collect();
    let states: Vec<_> = STATES.iter().map(|state| state.map_or("absent", State::as_str)).collect();
    assert_eq!(head[2..], states);
    let mut seen = BTreeSet::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [name, limits, expected @ ..] = cells.as_slice() else { panic!("{row}") };
        assert!(seen.insert((*name, *limits)), "{name} under {limits} stands twice");
        assert_eq!(expected.len(), STATES.len(), "{row}");
        let (settings, usage) = settings_of(limits);
        for (state, expected) in STATES.into_iter().zip(expected) {
            let (operation, letter) = operation_of(name, state);
            let namespace = namespace();
            let context = Context {
                namespace: &namespace,
                settings: &settings,
                usage,
                now: now(),
                random: 9,
            };
            let known = Known { timer: state.map(view), letter };
            let decided = operate(operation, known, &context);
            assert_eq!(cell(&decided), *expected, "{name} under {limits}, {state:?}");
        }
    }
    let operations: BTreeSet<_> =
        seen.iter().map(|(name, _)| name.split('.').next().unwrap()).collect();
    assert_eq!(operations.len(), 10, "every operation has rows: {operations:?}");
}

/// Compares the table of `if_exists` in the HTTP reference with the table of decisions.
#[test]
fn http_page_has_the_effects_of_if_exists() {
    let page = include_str!("../../../../docs/reference/http.md");
    let (_, rows) = page.split_once("| `if_exists` | scheduled, due, retrying |").unwrap();
    let rows: Vec<Vec<_>> = rows
        .lines()
        .skip(2)
        .take_while(|row| row.starts_with('|'))
        .map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    for (word, mode) in [
        ("fail", "fail"),
        ("keep", "keep"),
        ("replace", "replace"),
        ("restart", "restart"),
        ("any other, for the same", "same"),
    ] {
        let row = rows.iter().find(|row| row[1].starts_with(word)).unwrap();
        let name = format!("schedule.{mode} ");
        let decided = TABLE.lines().find(|row| row.starts_with(&name) && row.contains("| free "));
        let decided: Vec<_> = decided.unwrap().split('|').skip(2).map(str::trim).collect();
        // The columns of the page, for each state from none to cancelled.
        for (column, decided) in [6, 2, 2, 3, 2, 4, 5, 6].into_iter().zip(decided) {
            let reply = decided.rsplit(['/', '!']).next().unwrap();
            assert_eq!(row[column], reply, "{word}, column {column}");
        }
    }
}

#[test]
fn decision_effects_match_the_contract() {
    let (settings, usage) = settings_of("free");
    let namespace = namespace();
    let context =
        Context { namespace: &namespace, settings: &settings, usage, now: now(), random: 9 };
    let decide = |name: &str, state: Option<State>| {
        let (operation, letter) = operation_of(name, state);
        let known = Known { timer: state.map(view), letter };
        operate(operation, known, &context).unwrap()
    };
    let written = |decision: Decision| match decision.effect {
        Some(Effect::Put(_, timer) | Effect::DeadLetter(_, timer)) => *timer,
        other => panic!("{other:?}"),
    };

    let created = decide("schedule.fail", None);
    assert_eq!(created.quota_use, QuotaUse { pending: true, dead_letter: false, schedule: true });
    let timer = written(created);
    assert_eq!((timer.revision, timer.incarnation, timer.attempts), (1, Incarnation(9), 0));
    assert_eq!(timer.due_at, at(NOW_MS + 2 * HOUR_MS));

    let replaced = decide("schedule.replace", Some(State::Retrying));
    assert_eq!(replaced.quota_use, QuotaUse { schedule: true, ..QuotaUse::default() });
    let timer = written(replaced);
    assert_eq!((timer.revision, timer.incarnation, timer.attempts), (4, Incarnation(9), 0));
    assert_eq!((timer.next_attempt_at, timer.history.len()), (None, 0));

    let changed = written(decide("reschedule", Some(State::Retrying)));
    assert_eq!((changed.revision, changed.incarnation, changed.occurrence), (4, Incarnation(7), 1));
    assert_eq!((changed.attempts, changed.next_attempt_at), (0, None));
    let changed = written(decide("reschedule.tags", Some(State::Retrying)));
    assert_eq!((changed.revision, changed.occurrence, changed.attempts), (4, 0, 1));

    let fired = written(decide("fire", Some(State::Scheduled)));
    assert_eq!((fired.due_at, fired.revision), (at(NOW_MS), 4));
    let fired = written(decide("fire", Some(State::Retrying)));
    assert_eq!((fired.next_attempt_at, fired.due_at), (Some(at(NOW_MS + 7)), at(NOW_MS - 1_000)));
    assert_eq!(fired.updated_at, at(NOW_MS), "times of changes are of the wall clock");

    let redriven = written(decide("redrive", Some(State::Dead)));
    assert_eq!((redriven.incarnation, redriven.occurrence), (Incarnation(7), 0));
    assert_eq!((redriven.next_attempt_at, redriven.dead_letter), (Some(at(NOW_MS + 12)), None));

    let overdue = written(decide("overdue", Some(State::Retrying)));
    let letter = overdue.dead_letter.unwrap();
    assert_eq!((letter.reason, letter.at), (DeadLetterReason::Overdue, at(NOW_MS)));
    assert_eq!((overdue.attempts, overdue.next_attempt_at), (1, None));

    let cancelled = decide("cancel", Some(State::Retrying));
    let Some(Effect::End(tombstone)) = cancelled.effect else { panic!("it ends") };
    assert_eq!((tombstone.ended, tombstone.ended_at), (Ended::Cancelled, at(NOW_MS)));
    assert_eq!(
        cancelled.reply,
        Reply::Cancelled { attempts: 1, maybe_delivered: false, already: false }
    );
}

#[test]
fn cancel_before_any_attempt_needs_no_record() {
    let (settings, usage) = settings_of("free");
    let namespace = namespace();
    let context =
        Context { namespace: &namespace, settings: &settings, usage, now: now(), random: 9 };
    let cancel_op = Operation::Cancel { id: id(), if_revision: None };
    assert_eq!(cancel_op.level(), Level::Head);
    assert_eq!(Operation::Cancel { id: id(), if_revision: Some(1) }.level(), Level::Whole);
    let unread = cancel_without_record(id(), at(NOW_MS + HOUR_MS), &context);
    let read = cancel(&id(), None, Event::Cancel, Some(&view(State::Scheduled)), &context).unwrap();
    assert_eq!(unread.reply, read.reply);
    let [Some(Effect::End(unread)), Some(Effect::End(read))] = [unread.effect, read.effect] else {
        panic!("both end it")
    };
    assert_eq!(*unread, Tombstone { details: None, ..*read });
}
