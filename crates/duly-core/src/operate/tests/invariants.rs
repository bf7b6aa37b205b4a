//! Invariants of any sequence of operations and verdicts, on a store with one id.

use proptest::{prelude::*, test_runner::TestCaseError};

use super::*;
use crate::{
    RetryPolicy,
    settle::{HeldLease, LeaseLoss, SettleOutcome, SettleVerdict, expire, lose_lease, settle},
    timer::{HISTORY_MAX, Wait},
};

/// An event of the id.
#[derive(Debug, Clone)]
enum Step {
    Schedule { request: u8, if_exists: IfExists },
    ImportLetter(u64),
    Reschedule { content: bool, if_revision: Option<u32> },
    Cancel(Option<u32>),
    CancelOrStop(Option<u32>),
    Fire,
    Overdue,
    Redrive(u64),
    Purge,
    Forget,
    Claim,
    Settle(SettleVerdict),
    LoseLease,
    Wait(u64),
}

fn verdicts() -> impl Strategy<Value = SettleVerdict> {
    let wait = prop_oneof![
        Just(Wait::Policy),
        Just(Wait::None),
        any::<u64>().prop_map(|ms| Wait::Exactly(Millis::from_ms(ms))),
    ];
    let outcome = prop::sample::select(AttemptOutcome::ALL.to_vec());
    prop_oneof![
        2 => Just(SettleVerdict::Ack),
        4 => (wait, outcome).prop_map(|(wait, outcome)| SettleVerdict::Retry {
            wait,
            outcome,
            reason: "r".into(),
        }),
        1 => Just(SettleVerdict::Dead { reason: "never".into() }),
        1 => any::<u32>().prop_map(|ms| SettleVerdict::Extend { lease: Millis::from_ms(ms.into()) }),
        2 => Just(SettleVerdict::Release),
        2 => any::<u32>().prop_map(|ms| SettleVerdict::Snooze { after: Millis::from_ms(ms.into()) }),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let if_exists = prop::sample::select(vec![
        IfExists::Fail,
        IfExists::Keep,
        IfExists::Replace,
        IfExists::Restart,
    ]);
    let if_revision = prop::option::of(1_u32..4);
    prop_oneof![
        6 => (0_u8..3, if_exists)
            .prop_map(|(request, if_exists)| Step::Schedule { request, if_exists }),
        1 => (0_u64..3).prop_map(Step::ImportLetter),
        3 => (any::<bool>(), if_revision.clone())
            .prop_map(|(content, if_revision)| Step::Reschedule { content, if_revision }),
        2 => if_revision.clone().prop_map(Step::Cancel),
        3 => if_revision.prop_map(Step::CancelOrStop),
        2 => Just(Step::Fire),
        1 => Just(Step::Overdue),
        2 => (0_u64..2_000).prop_map(Step::Redrive),
        1 => Just(Step::Purge),
        1 => Just(Step::Forget),
        8 => Just(Step::Claim),
        8 => verdicts().prop_map(Step::Settle),
        1 => Just(Step::LoseLease),
        6 => (0_u64..3_000).prop_map(Step::Wait),
    ]
}

/// The data of a store under the one id.
#[derive(Debug, Default)]
struct Place {
    live: Option<Timer>,
    held: Option<HeldLease>,
    tombstone: Option<Tombstone>,
    /// Dead letters, latest last.
    letters: Vec<Timer>,
    ms: u64,
    numbers: u64,
}

const PENDING_MAX: u64 = 1;
const DEAD_MAX: u64 = 2;

fn strict_settings() -> Settings {
    let mut settings = Settings {
        retry: RetryPolicy::Delays(vec![Millis::from_ms(10), Millis::from_ms(500)]),
        ..Settings::default()
    };
    settings.limits.max_pending = Some(PENDING_MAX);
    settings.limits.max_dead = DEAD_MAX;
    settings
}

impl Place {
    fn view(&self, wall: Timestamp) -> Option<TimerView> {
        let live = self.live.clone().map(|timer| {
            let mut view = TimerView::unleased(namespace(), timer, wall);
            if let Some(held) = &self.held {
                view.state = State::InFlight;
                view.attempt_under_way = Some(held.attempt);
                view.stopped = held.stopped;
            }
            view
        });
        let tombstone =
            self.tombstone.clone().map(|tombstone| TimerView::tombstone(namespace(), tombstone));
        let letter = self.letters.last().cloned();
        let letter = letter.map(|letter| TimerView::whole(namespace(), State::Dead, letter));
        live.or(tombstone).or(letter)
    }

    /// Applies an effect, and checks the invariants of every effect.
    fn write(&mut self, effect: Effect) -> Result<(), TestCaseError> {
        match effect {
            Effect::Put(cause, timer) => {
                prop_assert!(timer.dead_letter.is_none(), "a live timer is no dead letter");
                prop_assert!(timer.history.len() <= HISTORY_MAX);
                let waits = matches!(cause, Cause::AttemptFailed | Cause::Redriven);
                prop_assert!(!waits || timer.next_attempt_at.is_some());
                if let Some(old) = &self.live {
                    self.check_change(cause, old, &timer)?;
                } else {
                    prop_assert!(matches!(cause, Cause::Created | Cause::Redriven), "{cause:?}");
                }
                if cause == Cause::Redriven {
                    let own = delivery_of(&timer);
                    let before = self.letters.len();
                    self.letters.retain(|letter| delivery_of(letter) != own);
                    prop_assert_eq!(self.letters.len() + 1, before, "the letter comes to life");
                }
                (self.live, self.held, self.tombstone) = (Some(*timer), None, None);
            }
            Effect::End(tombstone) => {
                prop_assert!(self.live.is_some(), "only what lives ends");
                let is_held = self.held.is_some();
                let is_stopped = self.held.is_some_and(|held| held.stopped);
                let was_held = tombstone.ended == Ended::Finished || is_stopped;
                prop_assert_eq!(was_held, is_held, "{:?}", tombstone);
                (self.live, self.held, self.tombstone) = (None, None, Some(*tombstone));
            }
            Effect::DeadLetter(cause, timer) => {
                prop_assert!(timer.dead_letter.is_some() && timer.next_attempt_at.is_none());
                if cause != Cause::Imported {
                    let old = self.live.take().expect("only what lives dies");
                    prop_assert_eq!(delivery_of(&old), delivery_of(&timer), "P3: the same firing");
                    prop_assert_eq!(
                        old.spec.payload,
                        timer.spec.payload.clone(),
                        "P11: it stays whole"
                    );
                    self.held = None;
                }
                self.letters.push(*timer);
            }
            Effect::Purge => drop(self.letters.pop().expect("there is one")),
            Effect::Forget => {
                prop_assert!(self.live.is_none(), "P4: no pending timer is forgotten");
                prop_assert!(self.tombstone.take().is_some(), "there is one");
            }
            Effect::Extend(_) => prop_assert!(self.held.is_some()),
            Effect::Stop(_) => {
                let held = self.held.as_mut().expect("only a held timer is stopped");
                prop_assert!(!std::mem::replace(&mut held.stopped, true), "once");
            }
        }
        Ok(())
    }

    fn check_change(&self, cause: Cause, old: &Timer, new: &Timer) -> Result<(), TestCaseError> {
        let is_callers = matches!(cause, Cause::Replaced | Cause::Rescheduled);
        let revision = if is_callers { old.revision + 1 } else { old.revision };
        prop_assert_eq!(new.revision, revision, "a caller's change counts once: {:?}", cause);
        prop_assert!(!is_callers || self.held.is_none(), "nothing is changed in flight");
        let same_firing = delivery_of(old) == delivery_of(new);
        prop_assert!(same_firing || is_callers, "P3: {cause:?} keeps the delivery id");
        if same_firing {
            prop_assert!(new.attempts >= old.attempts, "P5: attempts never go back");
            prop_assert!(new.history.len() >= old.history.len().min(HISTORY_MAX));
        } else {
            prop_assert_eq!((new.attempts, new.next_attempt_at), (0, None));
        }
        if cause == Cause::AttemptFailed {
            prop_assert_eq!(new.attempts, old.attempts + 1);
        }
        let counted = |timer: &Timer| timer.attempts - timer.budget_from;
        prop_assert!(cause != Cause::Released || counted(new) == counted(old), "uncounted");
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        let settings = strict_settings();
        let namespace = namespace();
        let wall = at(NOW_MS + self.ms);
        self.numbers += 1;
        let context = Context {
            namespace: &namespace,
            settings: &settings,
            usage: Usage {
                pending: u64::from(self.live.is_some()),
                dead: self.letters.len() as u64,
                schedule_in: Duration::ZERO,
            },
            now: Now { wall, steady: wall },
            random: self.numbers,
        };
        let live = self.live.clone().map(Box::new);
        match (step, live, self.held) {
            (Step::Wait(ms), live, held) => {
                self.ms += ms;
                if let (Some(timer), None) = (live, held)
                    && let Ok(effect) = expire(timer, &context)
                {
                    self.write(effect)?;
                }
            }
            (Step::Claim, Some(timer), None) if timer.claimable_at() <= wall => {
                let (nonce, attempt) = (self.numbers, timer.attempts + 1);
                let held_for = Duration::from_secs(60);
                self.held = Some(HeldLease {
                    nonce,
                    attempt,
                    claimed_at: wall,
                    held_for,
                    ends: true,
                    stopped: false,
                });
            }
            (Step::Settle(verdict), Some(timer), Some(held)) => {
                let (effect, outcome) = settle(timer, &held, &verdict, &context);
                let effect = effect.expect("a consumer's lease always changes");
                let ends = matches!(verdict, SettleVerdict::Ack | SettleVerdict::Extend { .. });
                let is_cancelled = held.stopped && !ends;
                prop_assert_eq!(outcome == SettleOutcome::Cancelled, is_cancelled);
                prop_assert!(
                    !is_cancelled || matches!(effect, Effect::End(_)),
                    "no attempt follows"
                );
                self.write(effect)?;
            }
            (Step::LoseLease, Some(timer), Some(held)) => {
                self.write(lose_lease(timer, &held, LeaseLoss::Ended, wall, &context))?;
            }
            (Step::Claim | Step::Settle(_) | Step::LoseLease, ..) => {}
            (step, ..) => {
                let operation = self.operation(step);
                let names_letter = operation.letter().is_some();
                let imported = match &operation {
                    Operation::Import { timer } => Some(delivery_of(timer)),
                    _ => None,
                };
                let letter = match imported {
                    Some(own) => self.letters.iter().find(|letter| delivery_of(letter) == own),
                    None => self.letters.last().filter(|_| names_letter),
                };
                let letter = letter.cloned().map(Box::new);
                let known = Known { timer: self.view(wall), letter };
                self.check(operate(operation, known, &context))?;
            }
        }
        prop_assert!(self.live.is_none() || self.tombstone.is_none(), "one of both");
        let deliveries: BTreeSet<_> = self.letters.iter().map(delivery_of).collect();
        prop_assert_eq!(deliveries.len(), self.letters.len(), "P3: a letter for each firing");
        Ok(())
    }

    fn operation(&self, step: Step) -> Operation {
        let letter = DeadLetterId::Timer(id());
        match step {
            Step::Schedule { request: number, if_exists } => {
                let mut asked = request(When::At(at(NOW_MS + u64::from(number))));
                asked.spec.expire_after = (number == 2).then_some(Millis::from_ms(1_000));
                Operation::Schedule { schedule: Box::new(asked), if_exists }
            }
            Step::ImportLetter(number) => {
                let mut imported = dead();
                imported.incarnation = Incarnation(u64::MAX - number);
                Operation::Import { timer: Box::new(imported) }
            }
            Step::Reschedule { content, if_revision } => {
                let mut patch = Patch::default();
                if content {
                    patch.payload = Change::Set(payload());
                } else {
                    patch.tags = Change::Reset;
                }
                Operation::Reschedule { id: id(), patch: Box::new(patch), if_revision }
            }
            Step::Cancel(if_revision) => Operation::Cancel { id: id(), if_revision },
            Step::CancelOrStop(if_revision) => {
                Operation::CancelOrStop { id: id(), if_revision, seen: None }
            }
            Step::Fire => Operation::Fire { id: id() },
            Step::Overdue => Operation::DeadLetter { id: id(), if_due_by: at(NOW_MS + self.ms) },
            Step::Redrive(ms) => Operation::Redrive { letter, delay: Millis::from_ms(ms) },
            Step::Forget => Operation::Forget { id: id() },
            _ => Operation::Purge { letter },
        }
    }

    /// Checks a decision and applies its effect.
    fn check(&mut self, decided: Result<Decision, Refusal>) -> Result<(), TestCaseError> {
        let Ok(Decision { effect, quota_use, reply, .. }) = decided else { return Ok(()) };
        let changes_nothing = matches!(
            reply,
            Reply::Existing(_)
                | Reply::Unchanged(_)
                | Reply::Cancelled { already: true, .. }
                | Reply::Stopped { already: true, .. }
        );
        prop_assert_eq!(effect.is_none(), changes_nothing, "{:?}", reply);
        let (was_live, letters) = (self.live.is_some(), self.letters.len());
        let redrives = matches!(effect, Some(Effect::Put(Cause::Redriven, _)));
        let creates = matches!(effect, Some(Effect::Put(Cause::Created | Cause::Replaced, _)));
        prop_assert!(!creates || quota_use.schedule, "a schedule takes of the rate");
        if let Some(effect) = effect {
            self.write(effect)?;
        }
        let is_one_more = self.live.is_some() && !was_live;
        prop_assert_eq!(
            quota_use.pending,
            is_one_more && !redrives,
            "one more takes of max_pending"
        );
        prop_assert_eq!(quota_use.dead_letter, self.letters.len() > letters, "and of max_dead");
        prop_assert!(!quota_use.dead_letter || self.letters.len() as u64 <= DEAD_MAX);
        Ok(())
    }
}

fn delivery_of(timer: &Timer) -> DeliveryId {
    timer.delivery_id("n")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_happens_the_invariants_hold(steps in prop::collection::vec(steps(), 1..60)) {
        let mut place = Place::default();
        for step in steps {
            place.take(step)?;
        }
    }
}
