//! Verdicts on leased firings, and what follows where there is none: the one place that says what each of
//! them does.
//!
//! The store finds the lease by its token, and loads the timer as far as [`SettleVerdict::level`] says. A
//! token whose lease is lost changes nothing (P8): [`settled_before`] tells whether it was settled the same
//! way.

use std::time::Duration;

use crate::{
    Millis, State, Timer, Timestamp, Tombstone,
    lifecycle::{Budget, Event, Transition, transition},
    namespace::LEASE_MAX,
    operate::{Cause, Context, Effect, Level},
    retry::BACKOFF_MAX,
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Next, SettledToken, Verdict, Wait},
    tombstone::Ended,
};

#[cfg(test)]
mod tests;

/// What the holder says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleVerdict {
    /// Confirmed by the receiver.
    Ack,
    /// Not delivered; to be tried again by the retry policy.
    Retry {
        /// How long to wait.
        wait: Wait,
        /// How the attempt ended.
        outcome: AttemptOutcome,
        /// Why, for a person.
        reason: String,
    },
    /// Never to be tried again: a dead letter.
    Dead {
        /// Why, for a person.
        reason: String,
    },
    /// The lease is to end this long from now, at most 12 h after the claim; a node's lease has no
    /// end to move. A length outside `LEASE_MIN..=LEASE_MAX` refuses the whole call before anything
    /// is done.
    Extend {
        /// How long from now.
        lease: Millis,
    },
    /// Handed back untouched; the attempt does not count.
    Release,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SettleOutcome {
    /// Taken.
    Ok,
    /// Taken; that retry was the last attempt, so it is a dead letter now.
    Dead,
    /// The same token was settled the same way before. Known for the token that was settled last,
    /// while the timer is pending, dead, or finished with a tombstone; `LeaseLost` otherwise.
    AlreadySettled,
    /// The lease is not held any more; nothing changed (P8).
    LeaseLost,
    /// No token of this store or namespace.
    InvalidToken,
    /// Whether it was taken is not known: settle the same way again.
    InDoubt,
}

impl SettleOutcome {
    /// The word of the contract.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Dead => "dead",
            Self::AlreadySettled => "already_settled",
            Self::LeaseLost => "lease_lost",
            Self::InvalidToken => "invalid_token",
            Self::InDoubt => "in_doubt",
        }
    }
}

/// A lease that is held, as the store knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The random part of its token.
    pub nonce: u64,
    /// The attempt under way.
    pub attempt: u32,
    /// When it was claimed, by the wall clock.
    pub claimed_at: Timestamp,
    /// How long it has been held.
    pub held_for: Duration,
    /// `true` if it ends by the clock: a consumer's. A node's lives as long as the node.
    pub ends: bool,
}

/// Why a lease ended without a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseLoss {
    /// Its end was reached.
    Ended,
    /// The node that held it left the deployment.
    NodeGone,
    /// The store was opened again.
    Restarted,
}

impl LeaseLoss {
    /// The reason in the history of the attempt.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "the lease ended before a verdict",
            Self::NodeGone => "the node that held the lease is gone",
            Self::Restarted => "the server stopped before a verdict",
        }
    }
}

impl SettleVerdict {
    /// How much of the timer the store has to know.
    pub const fn level(&self) -> Level {
        match self {
            Self::Ack | Self::Extend { .. } => Level::Head,
            Self::Retry { .. } | Self::Dead { .. } | Self::Release => Level::Whole,
        }
    }

    /// Its kind, if it ends the lease.
    pub const fn ending(&self) -> Option<Verdict> {
        match self {
            Self::Ack => Some(Verdict::Ack),
            Self::Retry { .. } => Some(Verdict::Retry),
            Self::Dead { .. } => Some(Verdict::Dead),
            Self::Release => Some(Verdict::Release),
            Self::Extend { .. } => None,
        }
    }
}

impl Held {
    fn attempt(&self, outcome: AttemptOutcome, reason: &str) -> Attempt {
        Attempt::new(self.attempt, self.claimed_at, outcome, reason)
    }
}

/// Returns what a verdict on a held lease does. The usage of quotas plays no part: a dead letter that a
/// delivery makes is never refused.
pub fn settle(
    mut timer: Box<Timer>,
    held: &Held,
    verdict: &SettleVerdict,
    context: &Context<'_>,
) -> (Option<Effect>, SettleOutcome) {
    if let Some(verdict) = verdict.ending() {
        timer.last_settled = Some(SettledToken { nonce: held.nonce, verdict });
    }
    let effect = match verdict {
        SettleVerdict::Ack => {
            expect(Event::Ack, Transition::Move(State::Finished));
            timer.attempt_concluded(held.attempt(AttemptOutcome::Delivered, ""));
            let tombstone = Tombstone::of(&timer, Ended::Finished, context.now.wall);
            Effect::End(Box::new(tombstone))
        }
        SettleVerdict::Retry { wait, outcome, reason } => {
            let ended = held.attempt(*outcome, reason);
            let (next, effect) = fail(timer, ended, capped(*wait), context.now.steady, context);
            let outcome = match next {
                Next::Retry(_) => SettleOutcome::Ok,
                Next::Dead => SettleOutcome::Dead,
            };
            return (Some(effect), outcome);
        }
        SettleVerdict::Dead { reason } => {
            expect(Event::DeadLetter, Transition::Move(State::Dead));
            timer.attempt_concluded(held.attempt(AttemptOutcome::Rejected, reason));
            timer.die(context.now.wall, DeadLetterReason::Rejected);
            Effect::DeadLetter(Cause::AttemptFailed, timer)
        }
        SettleVerdict::Extend { .. } if !held.ends => return (None, SettleOutcome::Ok),
        SettleVerdict::Extend { lease } => Effect::Extend(extension(*lease, held.held_for)),
        SettleVerdict::Release => {
            expect(Event::Release, Transition::Change);
            Effect::Put(Cause::Released, timer)
        }
    };
    (Some(effect), SettleOutcome::Ok)
}

/// Returns what follows where a lease ended without a verdict: the attempt counts, and the firing is due
/// again from `since` by the steady clock, or spent.
pub fn lose_lease(
    timer: Box<Timer>,
    held: &Held,
    loss: LeaseLoss,
    since: Timestamp,
    context: &Context<'_>,
) -> Effect {
    let ended = held.attempt(AttemptOutcome::LeaseLost, loss.as_str());
    fail(timer, ended, Wait::None, since, context).1
}

/// Makes a dead letter of a live timer under no lease whose `expire_after` has passed.
///
/// # Errors
/// Gives back the timer that has not expired, or of which an attempt is still to be made.
pub fn expire(mut timer: Box<Timer>, context: &Context<'_>) -> Result<Effect, Box<Timer>> {
    let wall = context.now.wall;
    let allowed = transition(Some(timer.unleased_state(wall)), Event::Expire);
    if !timer.is_expired(wall) || allowed != Transition::Move(State::Dead) {
        return Err(timer);
    }
    timer.die(wall, DeadLetterReason::Expired);
    Ok(Effect::DeadLetter(Cause::Expired, timer))
}

/// Returns the outcome for a token that holds no lease, by the tokens that are known to be settled of its
/// timer: of the live timer, the tombstone ([`Tombstone::settled`]) and the dead letters.
pub fn settled_before(
    known: impl IntoIterator<Item = Option<SettledToken>>,
    nonce: u64,
    verdict: &SettleVerdict,
) -> SettleOutcome {
    let same = verdict.ending().map(|verdict| SettledToken { nonce, verdict });
    if same.is_some() && known.into_iter().any(|known| known == same) {
        SettleOutcome::AlreadySettled
    } else {
        SettleOutcome::LeaseLost
    }
}

/// Ends an attempt without a confirmation. Its wait begins at `since` by the steady clock.
fn fail(
    mut timer: Box<Timer>,
    ended: Attempt,
    wait: Wait,
    since: Timestamp,
    context: &Context<'_>,
) -> (Next, Effect) {
    let wall = context.now.wall;
    let policy = timer.spec.retry.clone();
    let policy = policy.as_ref().unwrap_or(&context.settings.retry);
    let seed = timer.delivery_id(context.namespace.as_str()).seed();
    let next = timer.attempt_failed(ended, wait, policy, seed, since);
    let dies_of = match next {
        Next::Dead => {
            expect(Event::Fail(Budget::Spent), Transition::Move(State::Dead));
            DeadLetterReason::AttemptsSpent
        }
        Next::Retry(_) => {
            expect(Event::Fail(Budget::Left), Transition::Move(State::Retrying));
            if !timer.is_expired(wall) {
                return (next, Effect::Put(Cause::AttemptFailed, timer));
            }
            DeadLetterReason::Expired
        }
    };
    timer.die(wall, dies_of);
    (next, Effect::DeadLetter(Cause::AttemptFailed, timer))
}

/// How long from now a lease ends that is to be extended by `lease`: at most [`LEASE_MAX`] after the claim.
fn extension(lease: Millis, held_for: Duration) -> Millis {
    let left = LEASE_MAX.to_std().saturating_sub(held_for).as_millis();
    lease.min(Millis::from_ms(u64::try_from(left).unwrap_or(u64::MAX)))
}

fn capped(wait: Wait) -> Wait {
    match wait {
        Wait::AtLeast(wait) => Wait::AtLeast(wait.min(BACKOFF_MAX)),
        Wait::Exactly(wait) => Wait::Exactly(wait.min(BACKOFF_MAX)),
        Wait::Policy | Wait::None => wait,
    }
}

fn expect(event: Event, expected: Transition) {
    let allowed = transition(Some(State::InFlight), event);
    assert_eq!(allowed, expected, "a held lease allows every verdict");
}
