//! Smallest server that keeps the API's promises, as far as the checker tests them.
//!
//! It has one map, and the time is a parameter. Every call is atomic at that time. The planted
//! [`Bug`] affects a fixed share of the timers, chosen by their marks.

use std::collections::BTreeMap;

use super::Bug;
use crate::history::{Answer, Due, EndState, SettleAnswer, SettleVerdict};

/// A granted claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim {
    pub(super) key: u32,
    pub(super) mark: u64,
    pub(super) delivery_id: u32,
    pub(super) occurrence: u32,
    pub(super) attempt: u32,
    pub(super) due_ms: u64,
    pub(super) token: u64,
    pub(super) leased_until_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimerState {
    Waiting,
    InFlight { token: u64, until_us: u64 },
    Finished,
    Cancelled,
    Dead,
}

#[derive(Debug, Clone, Copy)]
struct Timer {
    mark: u64,
    due_ms: u64,
    old_due_ms: Option<u64>,
    not_before_us: u64,
    state: TimerState,
    attempts: u32,
    occurrence: u32,
    incarnation: u32,
    unknown_outcome: bool,
    last_settled: Option<(u64, SettleVerdict)>,
}

impl Timer {
    fn is_affected(&self) -> bool {
        self.mark.is_multiple_of(3)
    }
}

/// Attempts after which a firing becomes a dead letter.
const ATTEMPTS_MAX: u32 = 5;

#[derive(Debug)]
pub(super) struct ModelServer {
    bug: Option<Bug>,
    timers: BTreeMap<u32, Timer>,
    next_token: u64,
    next_incarnation: u32,
}

impl ModelServer {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self { bug, timers: BTreeMap::new(), next_token: 1, next_incarnation: 0 }
    }

    /// Returns the timer, after the end of an expired lease.
    fn at(&mut self, key: u32, now_us: u64) -> Option<&mut Timer> {
        let timer = self.timers.get_mut(&key)?;
        if let TimerState::InFlight { until_us, .. } = timer.state
            && until_us <= now_us
        {
            timer.unknown_outcome = true;
            end_attempt(timer, now_us);
        }
        Some(timer)
    }

    pub(super) fn schedule(&mut self, key: u32, mark: u64, due: Due, now_us: u64) -> Answer {
        let due_ms = match due {
            Due::At(ms) => ms,
            Due::In(delay_ms) => now_us / 1_000 + delay_ms,
        };
        let old = self.at(key, now_us).copied();
        let answer = match old.map(|timer| timer.state) {
            None | Some(TimerState::Finished | TimerState::Cancelled | TimerState::Dead) => {
                Answer::Created { due_ms }
            }
            Some(TimerState::Waiting) => Answer::Replaced { due_ms },
            Some(TimerState::InFlight { .. }) => return Answer::Refused,
        };
        self.next_incarnation += 1;
        self.timers.insert(
            key,
            Timer {
                mark,
                due_ms,
                old_due_ms: None,
                not_before_us: 0,
                state: TimerState::Waiting,
                attempts: 0,
                occurrence: 0,
                incarnation: self.next_incarnation,
                unknown_outcome: false,
                last_settled: None,
            },
        );
        answer
    }

    pub(super) fn reschedule(
        &mut self,
        key: u32,
        mark: Option<u64>,
        due_ms: u64,
        now_us: u64,
    ) -> Answer {
        let bug = self.bug;
        let Some(timer) = self.at(key, now_us) else {
            return Answer::Refused;
        };
        if timer.state != TimerState::Waiting {
            return Answer::Refused;
        }
        if matches!(bug, Some(Bug::OldTime | Bug::ForgottenChange)) {
            timer.old_due_ms = Some(timer.due_ms);
        }
        if timer.attempts > 0 {
            timer.occurrence += 1;
            timer.attempts = 0;
        }
        timer.mark = mark.unwrap_or(timer.mark);
        timer.due_ms = due_ms;
        timer.not_before_us = 0;
        Answer::Changed { due_ms }
    }

    pub(super) fn cancel(&mut self, key: u32, now_us: u64) -> Answer {
        let Some(timer) = self.at(key, now_us) else {
            return Answer::Refused;
        };
        if !matches!(timer.state, TimerState::Waiting | TimerState::Cancelled) {
            return Answer::Refused;
        }
        timer.state = TimerState::Cancelled;
        Answer::Cancelled { attempts: timer.attempts, maybe_delivered: timer.unknown_outcome }
    }

    pub(super) fn fire(&mut self, key: u32, now_us: u64) -> Answer {
        let Some(timer) = self.at(key, now_us) else {
            return Answer::Refused;
        };
        match timer.state {
            TimerState::Waiting if timer.attempts == 0 => {
                timer.due_ms = timer.due_ms.min(now_us / 1_000);
            }
            TimerState::Waiting => timer.not_before_us = 0,
            TimerState::InFlight { .. } => return Answer::Unchanged,
            _ => return Answer::Refused,
        }
        Answer::Changed { due_ms: timer.due_ms }
    }

    pub(super) fn redrive(&mut self, key: u32, now_us: u64) -> Answer {
        match self.at(key, now_us) {
            Some(timer) if timer.state == TimerState::Dead => {
                timer.state = TimerState::Waiting;
                timer.not_before_us = now_us;
                Answer::Redriven
            }
            _ => Answer::Unchanged,
        }
    }

    /// Claims up to `max` due firings of the keys for which `wanted` holds.
    pub(super) fn claim(
        &mut self,
        now_us: u64,
        lease_us: u64,
        max: usize,
        wanted: impl Fn(u32) -> bool,
    ) -> Vec<Claim> {
        let revives = matches!(self.bug, Some(Bug::ClaimAfterCancel | Bug::Resurrected));
        let keys: Vec<u32> = self
            .timers
            .iter()
            .filter(|(key, timer)| {
                let alive =
                    matches!(timer.state, TimerState::Waiting | TimerState::InFlight { .. });
                wanted(**key) && (alive || revives)
            })
            .map(|(key, _)| *key)
            .collect();
        let mut claims = Vec::new();
        for key in keys {
            if claims.len() == max {
                break;
            }
            claims.extend(self.claim_one(key, now_us, lease_us));
        }
        claims
    }

    fn claim_one(&mut self, key: u32, now_us: u64, lease_us: u64) -> Option<Claim> {
        let timer = *self.at(key, now_us)?;
        let planted = self.bug.filter(|_| timer.is_affected());
        let has_bug = |bug| planted == Some(bug);
        let waiting = timer.state == TimerState::Waiting
            || timer.state == TimerState::Cancelled && has_bug(Bug::ClaimAfterCancel)
            || timer.state == TimerState::Finished
                && has_bug(Bug::Resurrected)
                && timer.attempts < ATTEMPTS_MAX;
        let ahead_us = if has_bug(Bug::EarlyFire) { 8_000 } else { 0 };
        let reported_due_ms = match timer.old_due_ms {
            Some(old) if has_bug(Bug::OldTime) => old,
            _ => timer.due_ms,
        };
        let due = reported_due_ms * 1_000 <= now_us + ahead_us && timer.not_before_us <= now_us;
        if !waiting || !due || has_bug(Bug::Stuck) {
            return None;
        }
        let short = if has_bug(Bug::ShortLease) { 4 } else { 1 };
        let token = self.next_token;
        self.next_token += 1;
        let changed = u32::from(has_bug(Bug::ChangedDeliveryId) && timer.attempts > 0);
        let mixed_up = u64::from(has_bug(Bug::WrongPayload)) * 1_000_000;
        let entry = self.timers.get_mut(&key)?;
        entry.attempts += 1;
        entry.old_due_ms = entry.old_due_ms.filter(|_| self.bug != Some(Bug::OldTime));
        entry.state = TimerState::InFlight { token, until_us: now_us + lease_us / short };
        Some(Claim {
            key,
            mark: timer.mark + mixed_up,
            delivery_id: timer.incarnation * 1_000 + timer.occurrence * 10 + changed,
            occurrence: timer.occurrence,
            attempt: timer.attempts + 1,
            due_ms: reported_due_ms,
            token,
            leased_until_ms: (now_us + lease_us) / 1_000,
        })
    }

    pub(super) fn settle(
        &mut self,
        key: u32,
        sent_token: u64,
        verdict: SettleVerdict,
        now_us: u64,
    ) -> SettleAnswer {
        let stale = self.bug == Some(Bug::StaleSettle);
        let Some(timer) = self.at(key, now_us) else {
            return SettleAnswer::InvalidToken;
        };
        let holds = match timer.state {
            TimerState::InFlight { token, .. } => token == sent_token || stale,
            _ => stale && timer.state == TimerState::Waiting,
        };
        if !holds {
            return if timer.last_settled == Some((sent_token, verdict)) {
                SettleAnswer::AlreadySettled
            } else {
                SettleAnswer::LeaseLost
            };
        }
        if !matches!(verdict, SettleVerdict::Extend { .. }) {
            timer.last_settled = Some((sent_token, verdict));
        }
        match verdict {
            SettleVerdict::Ack => timer.state = TimerState::Finished,
            SettleVerdict::Dead => timer.state = TimerState::Dead,
            SettleVerdict::Retry { after_ms } => {
                end_attempt(timer, now_us + after_ms.unwrap_or(20) * 1_000);
                if timer.state == TimerState::Dead {
                    return SettleAnswer::Dead;
                }
            }
            SettleVerdict::Extend { lease_ms } => {
                timer.state =
                    TimerState::InFlight { token: sent_token, until_us: now_us + lease_ms * 1_000 };
            }
        }
        SettleAnswer::Ok
    }

    /// Simulates a crash and a restart: webhook claims are released, leases continue.
    pub(super) fn crash(&mut self, now_us: u64, is_push: impl Fn(u32) -> bool) {
        if self.bug == Some(Bug::Lost) {
            self.timers.retain(|_, timer| !timer.is_affected());
        }
        let bug = self.bug;
        for (key, timer) in &mut self.timers {
            if is_push(*key) && matches!(timer.state, TimerState::InFlight { .. }) {
                timer.unknown_outcome = true;
                end_attempt(timer, now_us);
            }
            if bug == Some(Bug::ForgottenChange)
                && let Some(old) = timer.old_due_ms.take()
            {
                timer.due_ms = old;
            }
            if bug == Some(Bug::CancelUndone) && timer.state == TimerState::Cancelled {
                // Far in the future, so that only the read at the end detects it.
                timer.due_ms += 1_000_000_000;
                timer.state = TimerState::Waiting;
            }
        }
    }

    pub(super) fn end(&self, key: u32, now_us: u64) -> (EndState, Option<u64>, Option<u64>) {
        let Some(timer) = self.timers.get(&key) else {
            return (EndState::NotFound, None, None);
        };
        let state = match timer.state {
            TimerState::Waiting if timer.attempts > 0 => EndState::Retrying,
            TimerState::Waiting if timer.due_ms * 1_000 <= now_us => EndState::Due,
            TimerState::Waiting => EndState::Scheduled,
            TimerState::InFlight { .. } => EndState::InFlight,
            TimerState::Finished => EndState::Finished,
            TimerState::Cancelled => EndState::Cancelled,
            TimerState::Dead => EndState::Dead,
        };
        (state, Some(timer.due_ms), Some(timer.mark))
    }
}

/// Handles a failed attempt: the timer may be claimed again from `not_before_us`, or becomes a dead
/// letter.
fn end_attempt(timer: &mut Timer, not_before_us: u64) {
    timer.not_before_us = not_before_us;
    timer.state =
        if timer.attempts >= ATTEMPTS_MAX { TimerState::Dead } else { TimerState::Waiting };
}
