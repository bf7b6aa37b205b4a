//! ENOSPC at any write, any new file and any reservation, once or from then on, in a script with
//! checkpoints, rewrites and removals (P10, T12). Acknowledged changes are there after a restart,
//! refused ones left nothing, and cancel and settle continue.
//!
//! A run without faults tells which line makes the n-th write. The runs with a fault are checked from
//! that line on.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Millis, State, Timestamp, env::Clock};
use duly_store::{
    Error, Operation as Call, Outcome, Refusal, SettleOutcome, SettleVerdict, Store, TimerView,
    query::Body,
};
use duly_store_embedded::disk::{Operation, SimDisk};

use crate::{
    check::checked,
    checkpoint_crashes::script,
    faulty::{FaultKind, FaultyDisk, Rule},
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::Stage,
    steps::{Answer, Step, apply, cancel, schedule, settle, wait},
    twins::busy,
    workload::ScriptStep,
};

/// Lines that a run continues for after its fault.
const LINES_AFTER: usize = 12;

/// The visible state of a timer: state, due time, revision, payload.
type Known = (State, Timestamp, Option<u32>, Option<Vec<u8>>);
type All = BTreeMap<(String, String), Vec<Known>>;

/// Returns the timers of a store, with the dead letters of each.
fn known(store: &dyn Store) -> All {
    let mut all = All::new();
    for (key, view) in Snapshot::of(store).timers {
        let payload = match &view.body {
            Body::Whole(timer) => timer.spec.payload.as_ref().map(|payload| payload.bytes.to_vec()),
            Body::Tombstone(_) => None,
        };
        let one = (view.state, view.due_at(), view.revision(), payload);
        all.entry((key.0, key.1)).or_default().push(one);
    }
    all
}

/// Checks that a restart changes nothing, except leases that had ended without space to record it.
fn is_the_same(mut before: Snapshot, mut after: Snapshot, now: Timestamp, what: &str) {
    let is_over = |view: &TimerView| view.leased_until.is_some_and(|until| until <= now);
    let over = before.timers.iter().filter(|(_, view)| is_over(view));
    let over: BTreeSet<_> = over.map(|(key, _)| key.clone()).collect();
    for snapshot in [&mut before, &mut after] {
        snapshot.timers.retain(|key, _| !over.contains(key));
        if !over.is_empty() {
            snapshot.namespaces.clear();
        }
    }
    let same = after.check_between(&before, &before);
    same.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
}

/// Returns `true` if a frame that found no space delays this call.
fn is_held_up(error: &Error) -> bool {
    matches!(error, Error::Unavailable { reason, .. } if reason.contains("the journal waits for disk space"))
}

fn is_full(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::Exhausted { .. }))
}

fn id_of(call: &Call) -> String {
    match call {
        Call::Schedule { schedule, .. } => schedule.id.to_string(),
        Call::Cancel { id, .. } | Call::Reschedule { id, .. } | Call::Fire { id } => id.to_string(),
        Call::Redrive { letter, .. } | Call::Purge { letter } => match letter {
            duly_store::command::DeadLetterId::Timer(id) => id.to_string(),
            other => panic!("the script names timers, not {other:?}"),
        },
        other => panic!("the script has no {other:?}"),
    }
}

/// Returns the timers that a step can change; `None` is any.
fn touched(step: &Step) -> Option<BTreeSet<(String, String)>> {
    match step {
        Step::Apply(namespace, calls) => {
            Some(calls.iter().map(|call| ((*namespace).to_owned(), id_of(call))).collect())
        }
        Step::Settle(namespace, id, _) => Some([((*namespace).to_owned(), id.clone())].into()),
        _ => None,
    }
}

/// Checks that only the timers of the step have changed.
fn only_these_changed(before: &All, after: &All, step: &Step, what: &str) {
    let Some(touched) = touched(step) else {
        return;
    };
    for key in before.keys().chain(after.keys()).filter(|key| !touched.contains(key)) {
        assert!(before.get(key) == after.get(key), "{what}: {key:?} changed with {step:.200?}");
    }
}

/// Checks that the store shows what the call returned.
fn is_as_answered(before: &All, after: &All, step: &Step, answer: &Answer, what: &str) {
    let (Step::Apply(namespace, calls), Answer::Outcomes(outcomes)) = (step, answer) else {
        return;
    };
    for (call, outcome) in calls.iter().zip(outcomes) {
        let key = ((*namespace).to_owned(), id_of(call));
        let is_once = calls.iter().filter(|other| id_of(other) == key.1).count() == 1;
        if !is_once {
            continue;
        }
        let (old, new) = (before.get(&key), after.get(&key));
        match (call, outcome) {
            (_, outcome) if is_full(outcome) => {
                assert!(old == new, "{what}: {key:?} was refused and changed");
            }
            (Call::Schedule { schedule, .. }, Outcome::Created(_) | Outcome::Replaced(_)) => {
                let payload = schedule.spec.payload.as_ref().map(|payload| payload.bytes.to_vec());
                let has_it = |views: &Vec<Known>| {
                    views.iter().any(|view| view.0 != State::Dead && view.3 == payload)
                };
                assert!(new.is_some_and(has_it), "{what}: {key:?} was taken");
            }
            (Call::Cancel { .. }, Outcome::Cancelled { .. }) => {
                let is_pending = |views: &Vec<Known>| views.iter().any(|view| view.0.is_pending());
                assert!(!new.is_some_and(is_pending), "{what}: {key:?} was cancelled");
            }
            _ => {}
        }
    }
}

/// A run of the script on a disk with one rule.
struct Course {
    stage: Stage,
    /// `true`: new timers were refused.
    refused: bool,
    /// Steps that could not be taken, and steps whose frame was not written.
    unavailable: usize,
    in_doubt: usize,
    /// Cancels and verdicts that were accepted while new timers were refused.
    went_on: usize,
}

impl Course {
    fn new(rule: Rule) -> Self {
        let stage = Stage::with(Shell::Inline, FaultyDisk::new(SimDisk::new(1)), busy);
        stage.disk.fail(rule);
        Self { stage, refused: false, unavailable: 0, in_doubt: 0, went_on: 0 }
    }

    fn step_of(&self, line: ScriptStep) -> Step {
        match line {
            ScriptStep::Take(step) => step,
            ScriptStep::Advance(by_ms) => {
                self.stage.clock.advance(Millis::from_ms(by_ms));
                Step::Tick
            }
        }
    }

    /// Returns the contents. If the store met the full disk in its own work, opens it again first:
    /// expired times are written with the next call. A frame of this work that found no space is tried again.
    fn read_all(&mut self) -> All {
        match wait(self.stage.store().list_namespaces(None, 1)) {
            Ok(_) => {}
            Err(error) if is_held_up(&error) => {
                self.stage.clock.advance(Millis::from_ms(100));
                self.unavailable += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::InDoubt { .. }), "{error}");
                self.stage.restart_crashed();
                self.in_doubt += 1;
            }
        }
        known(self.stage.store())
    }

    /// Takes a step and checks its result.
    fn step(&mut self, step: &Step, lasts: Lasts, what: &str) {
        let before = self.read_all();
        match self.stage.attempt(step) {
            Ok(answer) => {
                let after = self.read_all();
                only_these_changed(&before, &after, step, what);
                is_as_answered(&before, &after, step, &answer, what);
                let refuses = |answer: &Answer| match answer {
                    Answer::Outcomes(outcomes) => outcomes.iter().any(is_full),
                    _ => false,
                };
                if refuses(&answer) && !self.refused {
                    self.refused = true;
                    self.all_else_goes_on(what);
                }
            }
            Err(error @ Error::Unavailable { .. }) => {
                // A verdict that writes a payload again may not fit the rest of the segment. A frame
                // that found no space is tried again after a tenth of a second, and delays the following
                // calls.
                let is_held_up = is_held_up(&error);
                let is_full = is_held_up || error.to_string().contains("the disk is full");
                assert!(is_full, "{what}: {step:.200?}: {error}");
                if is_held_up {
                    self.stage.clock.advance(Millis::from_ms(100));
                }
                let is_unchanged = known(self.stage.store()) == before;
                assert!(is_unchanged, "{what}: {step:.200?} was not done and left something");
                self.unavailable += 1;
            }
            Err(error) => {
                // It is unknown if it was done; everything before it was.
                let is_in_doubt = matches!(error, Error::InDoubt { .. });
                assert!(is_in_doubt && lasts == Lasts::Once, "{what}: {step:.200?}: {error}");
                self.stage.restart_crashed();
                only_these_changed(&before, &known(self.stage.store()), step, what);
                self.in_doubt += 1;
                if matches!(step, Step::Put(..)) {
                    // Later steps need the namespace.
                    self.stage.take(step);
                }
            }
        }
    }

    /// Cancels and settles while new timers are refused, for as long as the segment has space. No spares
    /// are written ahead here, so new timers may have taken all of it.
    fn all_else_goes_on(&mut self, what: &str) {
        let shown = Snapshot::of(self.stage.store());
        let before = known(self.stage.store());
        let found = |state: State| {
            let mut views = shown.timers.values();
            views.find(|view| view.state == state && view.namespace.as_str() == "shop")
        };
        if let Some(view) = found(State::Scheduled) {
            let outcomes = apply(self.stage.store(), "shop", vec![cancel(view.id().as_str())]);
            let outcomes = outcomes.unwrap_or_else(|error| panic!("{what}: {error}"));
            match &outcomes[0] {
                Outcome::Cancelled { already: false, .. } => self.went_on += 1,
                outcome => {
                    assert!(is_full(outcome), "{what}: {outcome:?}");
                    assert!(known(self.stage.store()) == before, "{what}: a refused cancel");
                }
            }
        }
        if let Some(view) = found(State::InFlight) {
            let token = &self.stage.tokens[&("shop", view.id().to_string())];
            match settle(self.stage.store(), "shop", token, SettleVerdict::Ack) {
                Ok(outcome) => {
                    // Its lease may have ended without space to record it.
                    let is_answer = matches!(outcome, SettleOutcome::Ok | SettleOutcome::LeaseLost);
                    assert!(is_answer, "{what}: {outcome:?}");
                    self.went_on += usize::from(outcome == SettleOutcome::Ok);
                }
                Err(error) => {
                    assert!(matches!(error, Error::Unavailable { .. }), "{what}: {error}");
                }
            }
        }
    }

    /// Checks that the contents are there after restarts, and that space allows new timers again.
    fn end(mut self, what: &str) {
        let shown = Snapshot::of(self.stage.store());
        self.stage.restart_crashed();
        let found = Snapshot::of(self.stage.store());
        is_the_same(shown, found.clone(), self.stage.clock.now(), &format!("{what}: power loss"));
        self.stage.restart_killed();
        let again = Snapshot::of(self.stage.store());
        is_the_same(found, again, self.stage.clock.now(), &format!("{what}: kill -9"));
        self.stage.clock.advance(Millis::from_secs(2));
        let Answer::Outcomes(made) =
            self.stage.take(&Step::Apply("shop", vec![schedule("more", 9_000, 10)]))
        else {
            unreachable!("a batch is answered with outcomes")
        };
        assert!(matches!(made[0], Outcome::Created(_)), "{what}: {made:?}");
        let report = checked(&self.stage.disk.sim, &self.stage.clock);
        assert!(report.is_clean(), "{what}: {report}");
    }
}

/// Duration of the full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lasts {
    Once,
    /// Until the store is opened again.
    OnAndOn,
}

/// Returns the number of these operations after each line, on a disk that never fails.
fn counted(operation: Operation, name: &'static str) -> Vec<u64> {
    let most = u64::MAX / 2;
    let rule = Rule { operation, name, fault_kind: FaultKind::Full, after: most, times: 1 };
    let mut course = Course::new(rule);
    let mut counts = Vec::new();
    for line in script() {
        let step = course.step_of(line);
        course.stage.take(&step);
        counts.push(most - course.stage.disk.passes_left());
    }
    counts
}

/// Makes the disk full at one of these operations after the other. Returns the number of cancels and
/// verdicts that were accepted while new timers were refused.
fn full_at_every(operation: Operation, name: &'static str, lasts: Lasts, stride: u64) -> usize {
    let counts = counted(operation, name);
    let all = counts.last().copied().unwrap_or(0);
    assert!(all > 0, "the script comes by {operation:?} of {name:?}");
    let stride = number("DULY_CRASH_STRIDE", stride);
    let [mut refusals, mut went_on, mut unavailable, mut in_doubt] = [0; 4];
    let mut nth = number("DULY_CRASH_OP", 0);
    while nth < all {
        let _repeat = Repeat::new("enospc", &[("DULY_CRASH_OP", nth)]);
        let what = format!("{operation:?} {nth} of {name:?}, {lasts:?}");
        let first = counts.iter().position(|count| *count > nth).expect("it comes by it");
        let times = if lasts == Lasts::Once { 1 } else { u64::MAX };
        let rule = Rule { operation, name, fault_kind: FaultKind::Full, after: nth, times };
        let mut course = Course::new(rule);
        for (at, line) in script().into_iter().enumerate().take(first + LINES_AFTER) {
            let step = course.step_of(line);
            if at < first {
                course.stage.take(&step);
            } else {
                course.step(&step, lasts, &what);
            }
        }
        refusals += usize::from(course.refused);
        went_on += course.went_on;
        unavailable += course.unavailable;
        in_doubt += course.in_doubt;
        course.end(&what);
        nth += stride;
    }
    println!(
        "{operation:?} of {name:?}, {lasts:?}: {all}; {refusals} with refusals, {went_on} went on, \
         {unavailable} steps unavailable, {in_doubt} in doubt"
    );
    went_on
}

#[test]
fn p1_p10_t12_one_enospc_at_any_write_loses_nothing() {
    full_at_every(Operation::Write, "", Lasts::Once, 5);
}

#[test]
fn p1_p10_t12_one_enospc_at_any_new_file_loses_nothing() {
    full_at_every(Operation::Create, "", Lasts::Once, 3);
    full_at_every(Operation::Rename, "", Lasts::Once, 5);
}

#[test]
fn p1_p10_t12_a_full_disk_accepts_cancels_and_verdicts() {
    let went_on = full_at_every(Operation::Create, "", Lasts::OnAndOn, 3);
    assert!(
        went_on > 0 || number("DULY_CRASH_OP", 0) > 0,
        "new timers were refused, and no others"
    );
}

#[test]
fn p1_p10_t12_a_disk_full_from_any_write_on_loses_nothing() {
    for name in ["journal/next.tmp", "runs/", "checkpoints/"] {
        full_at_every(Operation::Write, name, Lasts::OnAndOn, 3);
    }
}
