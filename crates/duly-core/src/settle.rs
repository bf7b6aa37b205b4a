//! Verdicts on leased firings, and the end of a lease without a verdict: the only code that decides their
//! effects.
//!
//! The store finds the lease by its token, and loads as much of the timer as [`SettleVerdict::level`] says.
//! A token whose lease is lost changes nothing (P8). [`settled_before`] tells whether it was already settled
//! with the same verdict.

use std::time::Duration;

use crate::{
    Millis, State, Timer, Timestamp, Tombstone,
    lifecycle::{Event, RetryBudget, Transition, transition},
    namespace::LEASE_MAX,
    operate::{Cause, Context, Effect, Level},
    retry::BACKOFF_MAX,
    timer::{AfterFailure, Attempt, AttemptOutcome, DeadLetterReason, SettledToken, Verdict, Wait},
    tombstone::Ended,
};

#[cfg(test)]
mod tests;

/// The verdict of the holder of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettleVerdict {
    /// The firing was delivered: the receiver confirmed it.
    Ack,
    /// The firing was not delivered; it is tried again by the retry policy.
    Retry {
        /// The wait before the next attempt.
        wait: Wait,
        /// The outcome of the attempt.
        outcome: AttemptOutcome,
        /// The reason, for people.
        reason: String,
    },
    /// The firing must not be tried again: it becomes a dead letter.
    Dead {
        /// The reason, for people.
        reason: String,
    },
    /// The lease ends `lease` from now, at most 12 h after the claim. The lease of a node has no end that
    /// could move. A duration outside `LEASE_MIN..=LEASE_MAX` refuses the whole call before anything is
    /// done.
    Extend {
        /// The duration from now.
        lease: Millis,
    },
    /// The firing is put off: it is tried again after exactly `after`, at most [`BACKOFF_MAX`], and the attempt
    /// does not count for the retry budget. A firing can be put off any number of times until it expires.
    Snooze {
        /// The wait before the next attempt.
        after: Millis,
    },
    /// The firing is returned; the attempt does not count.
    Release,
}

crate::named_enum! {
    /// The outcome of a settlement.
    pub enum SettleOutcome {
        /// The verdict was applied.
        Ok = "ok",
        /// The retry was applied. It was the last attempt, so the firing is a dead letter now.
        Dead = "dead",
        /// The verdict was applied. A caller had cancelled the timer during the attempt, so the timer is
        /// cancelled now.
        Cancelled = "cancelled",
        /// The same token was settled with the same verdict before. The store knows this only of the last
        /// settled token, and only while the timer is pending, dead, or ended with a tombstone; otherwise
        /// it returns `LeaseLost`.
        AlreadySettled = "already_settled",
        /// The lease is no longer held; nothing changed (P8).
        LeaseLost = "lease_lost",
        /// The token does not belong to this store or namespace.
        InvalidToken = "invalid_token",
        /// The outcome is not known: settle again with the same verdict.
        InDoubt = "in_doubt",
    }

    /// The cause of the end of a lease without a verdict. Its name is the reason in the history of the attempt.
    pub enum LeaseLoss {
        /// The lease expired.
        Ended = "the lease ended before a verdict",
        /// The node that held it left the deployment.
        NodeGone = "the node that held the lease is gone",
        /// The store was opened again.
        Restarted = "the server stopped before a verdict",
    }
}

impl SettleOutcome {
    /// Returns `true` if the settlement changed something, or may have.
    pub const fn has_changed(self) -> bool {
        match self {
            Self::Ok | Self::Dead | Self::Cancelled | Self::InDoubt => true,
            Self::AlreadySettled | Self::LeaseLost | Self::InvalidToken => false,
        }
    }
}

/// A lease that is held, as the store knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldLease {
    /// The random part of its token.
    pub nonce: u64,
    /// The number of the attempt under way.
    pub attempt: u32,
    /// The time of the claim, by the wall clock.
    pub claimed_at: Timestamp,
    /// The time since the claim.
    pub held_for: Duration,
    /// `true`: the lease ends by the clock, as the lease of a consumer does. `false`: it lasts as long as
    /// its node.
    pub ends: bool,
    /// `true`: a caller stopped the timer, so no attempt follows this one.
    pub stopped: bool,
}

impl SettleVerdict {
    /// Returns how much of the timer the store has to load.
    pub const fn level(&self) -> Level {
        match self {
            Self::Ack | Self::Extend { .. } => Level::Head,
            Self::Retry { .. } | Self::Dead { .. } | Self::Snooze { .. } | Self::Release => {
                Level::Whole
            }
        }
    }

    /// Returns its kind, if it ends the lease.
    pub const fn ending(&self) -> Option<Verdict> {
        match self {
            Self::Ack => Some(Verdict::Ack),
            Self::Retry { .. } => Some(Verdict::Retry),
            Self::Dead { .. } => Some(Verdict::Dead),
            Self::Snooze { .. } | Self::Release => Some(Verdict::Release),
            Self::Extend { .. } => None,
        }
    }
}

impl SettleOutcome {
    /// Returns `true` if this settlement applied its verdict.
    pub const fn is_accepted(self) -> bool {
        matches!(self, Self::Ok | Self::Dead | Self::Cancelled)
    }
}

impl HeldLease {
    fn attempt(&self, outcome: AttemptOutcome, reason: &str) -> Attempt {
        Attempt::new(self.attempt, self.claimed_at, outcome, reason)
    }
}

/// Returns the effect of a verdict on a held lease. Quotas do not matter: a dead letter that a delivery
/// makes is never refused.
pub fn settle(
    mut timer: Box<Timer>,
    held: &HeldLease,
    verdict: &SettleVerdict,
    context: &Context<'_>,
) -> (Option<Effect>, SettleOutcome) {
    if let Some(verdict) = verdict.ending() {
        timer.last_settled = Some(SettledToken { nonce: held.nonce, verdict });
    }
    if held.stopped && !matches!(verdict, SettleVerdict::Ack | SettleVerdict::Extend { .. }) {
        let ended = match verdict {
            SettleVerdict::Retry { outcome, reason, .. } => Some(held.attempt(*outcome, reason)),
            SettleVerdict::Dead { reason } => Some(held.attempt(AttemptOutcome::Rejected, reason)),
            SettleVerdict::Snooze { .. } => {
                timer.attempt_snoozed(held.attempt, held.claimed_at, context.now.steady);
                None
            }
            SettleVerdict::Ack | SettleVerdict::Extend { .. } | SettleVerdict::Release => None,
        };
        return (Some(end_stopped(timer, ended, context)), SettleOutcome::Cancelled);
    }
    let effect = match verdict {
        SettleVerdict::Ack => {
            assert_transition(Event::Ack, Transition::Move(State::Finished));
            timer.attempt_concluded(held.attempt(AttemptOutcome::Delivered, ""));
            let tombstone = Tombstone::of(&timer, Ended::Finished, context.now.wall);
            Effect::End(Box::new(tombstone))
        }
        SettleVerdict::Retry { wait, outcome, reason } => {
            let ended = held.attempt(*outcome, reason);
            let (next, effect) = fail(timer, ended, capped(*wait), context.now.steady, context);
            let outcome = match next {
                AfterFailure::Retry(_) => SettleOutcome::Ok,
                AfterFailure::Dead => SettleOutcome::Dead,
            };
            return (Some(effect), outcome);
        }
        SettleVerdict::Dead { reason } => {
            assert_transition(Event::DeadLetter, Transition::Move(State::Dead));
            timer.attempt_concluded(held.attempt(AttemptOutcome::Rejected, reason));
            timer.mark_dead_letter(context.now.wall, DeadLetterReason::Rejected);
            Effect::DeadLetter(Cause::AttemptFailed, timer)
        }
        SettleVerdict::Extend { .. } if !held.ends => return (None, SettleOutcome::Ok),
        SettleVerdict::Extend { lease } => Effect::Extend(extension(*lease, held.held_for)),
        SettleVerdict::Snooze { after } => {
            assert_transition(Event::Snooze, Transition::Move(State::Retrying));
            let next = context.now.steady.saturating_add((*after).min(BACKOFF_MAX));
            timer.attempt_snoozed(held.attempt, held.claimed_at, next);
            let wall = context.now.wall;
            if timer.is_expired(wall) {
                timer.mark_dead_letter(wall, DeadLetterReason::Expired);
                Effect::DeadLetter(Cause::Expired, timer)
            } else {
                Effect::Put(Cause::Released, timer)
            }
        }
        SettleVerdict::Release => {
            assert_transition(Event::Release, Transition::Change);
            Effect::Put(Cause::Released, timer)
        }
    };
    (Some(effect), SettleOutcome::Ok)
}

/// Returns the effect of a lease that ended without a verdict. The attempt counts. The firing is due again
/// from `since` by the steady clock, dead if its attempts are spent, or cancelled if it was stopped.
pub fn lose_lease(
    timer: Box<Timer>,
    held: &HeldLease,
    loss: LeaseLoss,
    since: Timestamp,
    context: &Context<'_>,
) -> Effect {
    let ended = held.attempt(AttemptOutcome::LeaseLost, loss.as_str());
    if held.stopped {
        return end_stopped(timer, Some(ended), context);
    }
    fail(timer, ended, Wait::None, since, context).1
}

/// Cancels a stopped timer whose attempt ended without a confirmation. An attempt that does not count is left
/// out.
fn end_stopped(mut timer: Box<Timer>, ended: Option<Attempt>, context: &Context<'_>) -> Effect {
    assert_transition(Event::EndStopped, Transition::Move(State::Cancelled));
    if let Some(ended) = ended {
        timer.attempt_concluded(ended);
    }
    Effect::End(Box::new(Tombstone::of(&timer, Ended::Cancelled, context.now.wall)))
}

/// Dead-letters a live timer without a lease whose `expire_after` has passed.
///
/// # Errors
/// The unchanged timer, if it has not expired or its state does not allow it to expire.
pub fn expire(mut timer: Box<Timer>, context: &Context<'_>) -> Result<Effect, Box<Timer>> {
    let wall = context.now.wall;
    let allowed = transition(Some(timer.unleased_state(wall)), Event::Expire);
    if !timer.is_expired(wall) || allowed != Transition::Move(State::Dead) {
        return Err(timer);
    }
    timer.mark_dead_letter(wall, DeadLetterReason::Expired);
    Ok(Effect::DeadLetter(Cause::Expired, timer))
}

/// Returns the outcome for a token that holds no lease. `known` are the tokens of its timer that are known
/// to be settled: of the live timer, the tombstone ([`Tombstone::settled`]) and the dead letters.
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

/// Ends an attempt without a confirmation. The wait begins at `since` by the steady clock.
fn fail(
    mut timer: Box<Timer>,
    ended: Attempt,
    wait: Wait,
    since: Timestamp,
    context: &Context<'_>,
) -> (AfterFailure, Effect) {
    let wall = context.now.wall;
    let policy = timer.spec.retry.clone();
    let policy = policy.as_ref().unwrap_or(&context.settings.retry);
    let seed = timer.delivery_id(context.namespace.as_str()).seed();
    let next = timer.attempt_failed(ended, wait, policy, seed, since);
    let reason = match next {
        AfterFailure::Dead => {
            assert_transition(Event::Fail(RetryBudget::Spent), Transition::Move(State::Dead));
            DeadLetterReason::AttemptsSpent
        }
        AfterFailure::Retry(_) => {
            assert_transition(Event::Fail(RetryBudget::Left), Transition::Move(State::Retrying));
            if !timer.is_expired(wall) {
                return (next, Effect::Put(Cause::AttemptFailed, timer));
            }
            DeadLetterReason::Expired
        }
    };
    timer.mark_dead_letter(wall, reason);
    (next, Effect::DeadLetter(Cause::AttemptFailed, timer))
}

/// Returns the time from now to the end of a lease that is extended by `lease`: at most [`LEASE_MAX`] after
/// the claim.
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

fn assert_transition(event: Event, expected: Transition) {
    let allowed = transition(Some(State::InFlight), event);
    assert_eq!(allowed, expected, "a held lease allows every verdict");
}
