//! The checker: finds what the completed calls about one timer prove. Pure.
//!
//! A call took effect between its start and its reply. So a fault is only what no order of overlapping
//! calls explains.

use duly_core::State;
use duly_store::SettleOutcome;

/// The verdict of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Ack,
    Dead,
    Retry { wait_ms: u64 },
    Release,
    Extend { lease_ms: u64 },
}

/// The reply to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// Scheduled.
    Made { due_ms: u64 },
    /// Rescheduled or fired.
    Moved { due_ms: u64 },
    /// Cancelled, for the first time.
    Cancelled,
    /// Not cancelled, because it is in flight.
    InFlight,
    /// Leased.
    Claimed { token: String, due_ms: u64, leased_until_ms: u64 },
    /// A verdict on a lease.
    Settled { token: String, said: Verdict, outcome: SettleOutcome },
}

/// A completed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    /// Its place among the starts and replies of all calls.
    pub(super) made: u64,
    pub(super) answered: u64,
    /// The wall clock just before the start and just after the reply.
    pub(super) before_ms: u64,
    pub(super) after_ms: u64,
    pub(super) event: Event,
}

/// A broken promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    /// More than one end was acknowledged, or none though every call was waited for.
    Outcomes(usize),
    /// The acknowledged end is not the one that the store shows.
    OtherEnd,
    /// A claim followed an acknowledged end.
    ClaimedAfterEnd,
    /// A claim had a due time that an acknowledged change had replaced.
    OldTime,
    /// A claim came before the due time, or before the end of its wait.
    Early,
    /// Two callers had a lease at once.
    LeasedTwice,
    /// A verdict was accepted with a token that had lost its lease.
    StaleSettle,
    /// A cancel was refused as in flight, though no caller can have had the timer.
    HeldByNobody,
}

impl Answered {
    /// Returns `true` if this call started after the reply to `other`.
    const fn follows(&self, other: &Self) -> bool {
        self.made > other.answered
    }

    const fn due_ms(&self) -> Option<u64> {
        match self.event {
            Event::Made { due_ms } | Event::Moved { due_ms } => Some(due_ms),
            _ => None,
        }
    }

    /// Returns the end that this reply reports.
    pub(super) const fn end(&self) -> Option<State> {
        match &self.event {
            Event::Cancelled => Some(State::Cancelled),
            Event::Settled { said: Verdict::Ack, outcome: SettleOutcome::Ok, .. } => {
                Some(State::Finished)
            }
            Event::Settled { said: Verdict::Dead, outcome: SettleOutcome::Ok, .. }
            | Event::Settled {
                said: Verdict::Retry { .. }, outcome: SettleOutcome::Dead, ..
            } => Some(State::Dead),
            _ => None,
        }
    }

    /// Returns `true` if a verdict that ends the lease of this token was accepted.
    fn gives_back(&self, of: &str) -> bool {
        matches!(
            &self.event,
            Event::Settled { token, said, outcome: SettleOutcome::Ok | SettleOutcome::Dead }
                if token == of && !matches!(said, Verdict::Extend { .. })
        )
    }
}

/// Returns all faults in the life of one timer. `end` is its state after all calls had time to finish.
pub(super) fn check(life: &[Answered], end: Option<State>) -> Vec<Fault> {
    let mut faults = Vec::new();
    let ends: Vec<&Answered> = life.iter().filter(|a| a.end().is_some()).collect();
    match ends.as_slice() {
        [one] if one.end() == end => {}
        [_] => faults.push(Fault::OtherEnd),
        ends => faults.push(Fault::Outcomes(ends.len())),
    }
    for answered in life {
        match &answered.event {
            Event::Claimed { token, due_ms, leased_until_ms } => {
                if ends.iter().any(|end| answered.follows(end)) {
                    faults.push(Fault::ClaimedAfterEnd);
                }
                if is_old_time(life, answered, *due_ms) {
                    faults.push(Fault::OldTime);
                }
                if answered.after_ms < *due_ms || waits(life, answered) {
                    faults.push(Fault::Early);
                }
                if is_leased_twice(life, answered, token, *leased_until_ms) {
                    faults.push(Fault::LeasedTwice);
                }
            }
            Event::Settled { token, said, outcome } => {
                if is_stale(life, answered, token, *said, *outcome) {
                    faults.push(Fault::StaleSettle);
                }
            }
            Event::InFlight => {
                let mut claims = life.iter().filter(|a| matches!(a.event, Event::Claimed { .. }));
                if claims.all(|claim| claim.made > answered.answered) {
                    faults.push(Fault::HeldByNobody);
                }
            }
            Event::Made { .. } | Event::Moved { .. } | Event::Cancelled => {}
        }
    }
    faults
}

/// Returns `true` if a change to another time had been acknowledged, and every call that set this time
/// was over before that change started.
fn is_old_time(life: &[Answered], claim: &Answered, due_ms: u64) -> bool {
    let setters = || life.iter().filter(|a| a.due_ms() == Some(due_ms));
    let mut changes = life.iter().filter(|a| matches!(a.event, Event::Moved { .. }));
    changes.any(|change| {
        change.due_ms() != Some(due_ms)
            && claim.follows(change)
            && setters().all(|setter| change.follows(setter))
    })
}

/// Returns `true` if the firing was handed back for later, no change followed, and that time has not
/// come.
fn waits(life: &[Answered], claim: &Answered) -> bool {
    life.iter().any(|a| {
        let Event::Settled { said: Verdict::Retry { wait_ms }, outcome: SettleOutcome::Ok, .. } =
            a.event
        else {
            return false;
        };
        let changed = life
            .iter()
            .any(|other| matches!(other.event, Event::Moved { .. }) && other.answered > a.made);
        claim.follows(a) && !changed && claim.after_ms < a.before_ms + wait_ms
    })
}

/// Returns `true` if another lease lived at the same time, whichever of the two was granted first.
fn is_leased_twice(life: &[Answered], claim: &Answered, token: &str, until_ms: u64) -> bool {
    life.iter().any(|other| {
        let Event::Claimed { token: theirs, leased_until_ms: their_until_ms, .. } = &other.event
        else {
            return false;
        };
        if other.made >= claim.made {
            return false;
        }
        let given_back = |token: &str, until: &Answered| {
            life.iter().any(|a| a.gives_back(token) && a.made < until.answered)
        };
        let both_live = claim.after_ms < *their_until_ms && other.after_ms < until_ms;
        theirs == token || both_live && !given_back(theirs, claim) && !given_back(token, other)
    })
}

fn is_stale(
    life: &[Answered],
    settle: &Answered,
    token: &str,
    said: Verdict,
    outcome: SettleOutcome,
) -> bool {
    let mut claims = life
        .iter()
        .filter(|a| matches!(&a.event, Event::Claimed { token: granted, .. } if granted == token));
    let Some(claim) = claims.next() else {
        return outcome != SettleOutcome::InvalidToken;
    };
    let same = |a: &&Answered| !std::ptr::eq(*a, settle) && a.gives_back(token);
    let mut others = life.iter().filter(same);
    match outcome {
        SettleOutcome::Ok | SettleOutcome::Dead => {}
        SettleOutcome::AlreadySettled => {
            return !others.any(|a| {
                matches!(a.event, Event::Settled { said: theirs, .. } if theirs == said)
                    && a.made < settle.answered
            });
        }
        _ => return false,
    }
    let extends = matches!(said, Verdict::Extend { .. });
    // Another call gave this lease back. Of two such calls one is stale, and so is an extension that
    // follows.
    let settled = others.any(|a| !extends || settle.follows(a));
    let overtaken = life.iter().any(|a| {
        let takes =
            matches!(a.event, Event::Claimed { .. } | Event::Cancelled | Event::Moved { .. });
        takes && a.follows(claim) && settle.follows(a)
    });
    settled || overtaken || settle.before_ms > lease_end_ms(life, claim, settle)
}

/// Returns the latest end that the lease can have had when this was settled.
///
/// A lease lasts by the boot clock, which the store reads after the wall clock. So it may last longer than its holder
/// was told, by as much as the clocks moved during the claim.
fn lease_end_ms(life: &[Answered], claim: &Answered, settle: &Answered) -> u64 {
    let Event::Claimed { token: of, leased_until_ms, .. } = &claim.event else {
        return 0;
    };
    let extended = life.iter().filter_map(|a| match &a.event {
        Event::Settled {
            token,
            said: Verdict::Extend { lease_ms },
            outcome: SettleOutcome::Ok,
        } if token == of && !std::ptr::eq(a, settle) && a.made < settle.answered => {
            Some(a.after_ms + lease_ms)
        }
        _ => None,
    });
    let granted = leased_until_ms + claim.after_ms.saturating_sub(claim.before_ms);
    extended.fold(granted, u64::max)
}
