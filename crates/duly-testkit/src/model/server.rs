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
enum State {
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
    state: State,
    attempts: u32,
    occurrence: u32,
    incarnation: u32,
    unknown_outcome: bool,
    last_settled: Option<(u64, SettleVerdict)>,
}

impl Timer {
    fn is_struck(&self) -> bool {
        self.mark.is_multiple_of(3)
    }
}

/// Attempts after which a firing becomes a dead letter.
const ATTEMPTS_MAX: u32 = 5;

#[derive(Debug)]
pub(super) struct Server {
    bug: Option<Bug>,
    timers: BTreeMap<u32, Timer>,
    next_token: u64,
    next_incarnation: u32,
}

impl Server {
    pub(super) fn new(bug: Option<Bug>) -> Self {
        Self { bug, timers: BTreeMap::new(), next_token: 1, next_incarnation: 0 }
    }

    /// Returns the timer, after the end of an expired lease.
    fn at(&mut self, key: u32, now_us: u64) -> Option<&mut Timer> {
        let timer = self.timers.get_mut(&key)?;
        if let State::InFlight { until_us, .. } = timer.state
            && until_us <= now_us
        {
            timer.unknown_outcome = true;
            give_back(timer, now_us);
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
            None | Some(State::Finished | State::Cancelled | State::Dead) => {
                Answer::Created { due_ms }
            }
            Some(State::Waiting) => Answer::Replaced { due_ms },
            Some(State::InFlight { .. }) => return Answer::Refused,
        };
        self.next_incarnation += 1;
        self.timers.insert(
            key,
            Timer {
                mark,
                due_ms,
                old_due_ms: None,
                not_before_us: 0,
                state: State::Waiting,
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
        if timer.state != State::Waiting {
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
        if !matches!(timer.state, State::Waiting | State::Cancelled) {
            return Answer::Refused;
        }
        timer.state = State::Cancelled;
        Answer::Cancelled { attempts: timer.attempts, maybe_delivered: timer.unknown_outcome }
    }

    pub(super) fn fire(&mut self, key: u32, now_us: u64) -> Answer {
        let Some(timer) = self.at(key, now_us) else {
            return Answer::Refused;
        };
        match timer.state {
            State::Waiting if timer.attempts == 0 => {
                timer.due_ms = timer.due_ms.min(now_us / 1_000);
            }
            State::Waiting => timer.not_before_us = 0,
            State::InFlight { .. } => return Answer::Unchanged,
            _ => return Answer::Refused,
        }
        Answer::Changed { due_ms: timer.due_ms }
    }

    pub(super) fn redrive(&mut self, key: u32, now_us: u64) -> Answer {
        match self.at(key, now_us) {
            Some(timer) if timer.state == State::Dead => {
                timer.state = State::Waiting;
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
                let alive = matches!(timer.state, State::Waiting | State::InFlight { .. });
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
        let planted = self.bug.filter(|_| timer.is_struck());
        let struck = |bug| planted == Some(bug);
        let waiting = timer.state == State::Waiting
            || timer.state == State::Cancelled && struck(Bug::ClaimAfterCancel)
            || timer.state == State::Finished
                && struck(Bug::Resurrected)
                && timer.attempts < ATTEMPTS_MAX;
        let ahead_us = if struck(Bug::EarlyFire) { 8_000 } else { 0 };
        let told_due_ms = match timer.old_due_ms {
            Some(old) if struck(Bug::OldTime) => old,
            _ => timer.due_ms,
        };
        let due = told_due_ms * 1_000 <= now_us + ahead_us && timer.not_before_us <= now_us;
        if !waiting || !due || struck(Bug::Stuck) {
            return None;
        }
        let short = if struck(Bug::ShortLease) { 4 } else { 1 };
        let token = self.next_token;
        self.next_token += 1;
        let changed = u32::from(struck(Bug::ChangedDeliveryId) && timer.attempts > 0);
        let mixed_up = u64::from(struck(Bug::WrongPayload)) * 1_000_000;
        let entry = self.timers.get_mut(&key)?;
        entry.attempts += 1;
        entry.old_due_ms = entry.old_due_ms.filter(|_| self.bug != Some(Bug::OldTime));
        entry.state = State::InFlight { token, until_us: now_us + lease_us / short };
        Some(Claim {
            key,
            mark: timer.mark + mixed_up,
            delivery_id: timer.incarnation * 1_000 + timer.occurrence * 10 + changed,
            occurrence: timer.occurrence,
            attempt: timer.attempts + 1,
            due_ms: told_due_ms,
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
            State::InFlight { token, .. } => token == sent_token || stale,
            _ => stale && timer.state == State::Waiting,
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
            SettleVerdict::Ack => timer.state = State::Finished,
            SettleVerdict::Dead => timer.state = State::Dead,
            SettleVerdict::Retry { after_ms } => {
                give_back(timer, now_us + after_ms.unwrap_or(20) * 1_000);
                if timer.state == State::Dead {
                    return SettleAnswer::Dead;
                }
            }
            SettleVerdict::Extend { lease_ms } => {
                timer.state =
                    State::InFlight { token: sent_token, until_us: now_us + lease_ms * 1_000 };
            }
        }
        SettleAnswer::Ok
    }

    /// Simulates a crash and a restart: webhook claims are released, leases continue.
    pub(super) fn crash(&mut self, now_us: u64, is_push: impl Fn(u32) -> bool) {
        if self.bug == Some(Bug::Lost) {
            self.timers.retain(|_, timer| !timer.is_struck());
        }
        let bug = self.bug;
        for (key, timer) in &mut self.timers {
            if is_push(*key) && matches!(timer.state, State::InFlight { .. }) {
                timer.unknown_outcome = true;
                give_back(timer, now_us);
            }
            if bug == Some(Bug::ForgottenChange)
                && let Some(old) = timer.old_due_ms.take()
            {
                timer.due_ms = old;
            }
            if bug == Some(Bug::CancelUndone) && timer.state == State::Cancelled {
                // Far in the future, so that only the read at the end detects it.
                timer.due_ms += 1_000_000_000;
                timer.state = State::Waiting;
            }
        }
    }

    pub(super) fn end(&self, key: u32, now_us: u64) -> (EndState, Option<u64>, Option<u64>) {
        let Some(timer) = self.timers.get(&key) else {
            return (EndState::NotFound, None, None);
        };
        let state = match timer.state {
            State::Waiting if timer.attempts > 0 => EndState::Retrying,
            State::Waiting if timer.due_ms * 1_000 <= now_us => EndState::Due,
            State::Waiting => EndState::Scheduled,
            State::InFlight { .. } => EndState::InFlight,
            State::Finished => EndState::Finished,
            State::Cancelled => EndState::Cancelled,
            State::Dead => EndState::Dead,
        };
        (state, Some(timer.due_ms), Some(timer.mark))
    }
}

/// Handles a failed attempt: the timer may be claimed again from `not_before_us`, or becomes a dead
/// letter.
fn give_back(timer: &mut Timer, not_before_us: u64) {
    timer.not_before_us = not_before_us;
    timer.state = if timer.attempts >= ATTEMPTS_MAX { State::Dead } else { State::Waiting };
}
