//! What is let in until it is known whether it was created: namespaces, and commands on timers.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Refusal, State, TimerView,
    access::TenantLimit,
    rate::{Rate, TakeMark},
    refusal::wait_of,
    request_hash::RequestHash,
    schedule::IfExists,
};
use duly_store::{Command, Error, Operation, Outcome};

use super::{TenantState, Use, WAIT, rate};
use crate::problem::Problem;

/// A namespace that was let in, until it is known if it was created.
#[derive(Debug)]
pub(crate) struct NamespaceAdmission {
    state: Arc<TenantState>,
    count: u64,
}

/// Schedules that were let in, or refused, before they go to the store.
#[derive(Debug)]
pub(crate) struct Admission {
    state: Arc<TenantState>,
    /// For each command its refusal, or what was added for it.
    commands: Vec<Result<Use, Refusal>>,
    /// Number of the count on which it is based.
    count: u64,
    /// The rate, and the mark of the last schedule that was taken from it.
    taken: Option<(Rate, TakeMark)>,
}

impl TenantState {
    /// Admits a new namespace.
    pub(crate) fn admit_namespace(self: &Arc<Self>) -> Result<NamespaceAdmission, Problem> {
        let most = self.tenant().limits[TenantLimit::MaxNamespaces].unwrap_or(u64::MAX);
        let mut counts = self.counts.lock();
        if counts.sum().namespaces >= most {
            drop(counts);
            return Err(self.problem(TenantLimit::MaxNamespaces, Some(WAIT)));
        }
        counts.since.namespaces += 1;
        Ok(NamespaceAdmission { state: Arc::clone(self), count: counts.number })
    }

    /// Admits those of the commands that the limits allow, at `now` by the boot-time clock. Returns `None` if no
    /// limit concerns them.
    pub(crate) fn admit(
        self: &Arc<Self>,
        commands: &[Command],
        now: Duration,
    ) -> Option<Admission> {
        use TenantLimit::{MaxDead, MaxPending, MaxPendingBytes, SchedulePerSecond};
        let limits = self.tenant().limits;
        let is_free = [MaxDead, MaxPending, MaxPendingBytes, SchedulePerSecond]
            .iter()
            .all(|limit| limits[*limit].is_none());
        if is_free || commands.iter().all(|command| added_by(command) == Use::default()) {
            return None;
        }
        let rate = rate(&limits, SchedulePerSecond);
        let most = |limit: TenantLimit| limits[limit].unwrap_or(u64::MAX);
        let mut counts = self.counts.lock();
        let mut taken = None;
        let commands = commands.iter().map(|command| {
            let added = added_by(command);
            let sum = counts.sum();
            let full = [
                (MaxDead, makes_timer(command) && sum.dead >= most(MaxDead)),
                (MaxPending, added.pending > 0 && sum.pending >= most(MaxPending)),
                (
                    MaxPendingBytes,
                    added.pending_bytes > 0
                        && sum.pending_bytes.saturating_add(added.pending_bytes)
                            > most(MaxPendingBytes),
                ),
            ];
            if let Some((limit, _)) = full.into_iter().find(|(_, is_full)| *is_full) {
                return Err(self.refusal(limit, (limit != MaxDead).then_some(WAIT)));
            }
            if let Some(rate) =
                rate.filter(|_| matches!(command.operation, Operation::Schedule { .. }))
            {
                if counts.schedules.available(rate, now) == 0 {
                    let wait = wait_of(counts.schedules.next_in(rate, now));
                    return Err(self.refusal(SchedulePerSecond, Some(wait)));
                }
                taken = Some((rate, counts.schedules.take(rate, now, 1)));
            }
            counts.since = counts.since.plus(added);
            Ok(added)
        });
        let commands = commands.collect();
        Some(Admission { state: Arc::clone(self), commands, count: counts.number, taken })
    }
}

impl NamespaceAdmission {
    /// Keeps the namespace, which was created.
    pub(crate) fn keep(mut self) {
        self.count = u64::MAX;
    }
}

impl Drop for NamespaceAdmission {
    fn drop(&mut self) {
        self.state.give_back(self.count, Use { namespaces: 1, ..Use::default() });
    }
}

impl TenantState {
    /// Takes what was let in back, unless a count came after `count`.
    fn give_back(&self, count: u64, unused: Use) {
        let mut counts = self.counts.lock();
        if counts.number == count {
            counts.since = counts.since.minus(unused);
        }
    }
}

impl Admission {
    /// Returns the positions of refused commands that may repeat an earlier one.
    pub(crate) fn refused(&self, commands: &[Command]) -> Vec<usize> {
        let refused = (0..self.commands.len()).filter(|at| self.commands[*at].is_err());
        refused.filter(|at| makes_timer(&commands[*at])).collect()
    }

    /// Lets a command in after all.
    pub(crate) fn let_in(&mut self, position: usize) {
        self.commands[position] = Ok(Use::default());
    }

    /// Returns the commands that were let in.
    pub(crate) fn admitted(&self, commands: Vec<Command>) -> Vec<Command> {
        let pairs = commands.into_iter().zip(&self.commands);
        pairs.filter(|(_, admitted)| admitted.is_ok()).map(|(command, _)| command).collect()
    }

    /// Gives back what was added for commands that the store has not carried out.
    pub(crate) fn failed(self, error: &Error) {
        if !matches!(error, Error::InDoubt { .. }) {
            let added = self.commands.iter().flatten();
            let unused = added.fold(Use::default(), |sum, added| sum.plus(*added));
            self.give_back(unused);
        }
    }

    /// Returns the outcomes of all commands, of which those that were let in have these.
    pub(crate) fn outcomes(mut self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let (mut outcomes, mut unused) = (outcomes.into_iter(), Use::default());
        let commands = std::mem::take(&mut self.commands).into_iter();
        let all = commands.filter_map(|admitted| match admitted {
            Err(refusal) => Some(Outcome::Refused(refusal)),
            Ok(added) => {
                let outcome = outcomes.next()?;
                let is_added = match &outcome {
                    Outcome::Created(_)
                    | Outcome::Changed(_)
                    | Outcome::Failed(Error::InDoubt { .. }) => Use::default(),
                    // The new payload is there; the number of timers is the same.
                    Outcome::Replaced(_) => Use { pending_bytes: 0, schedules: 0, ..added },
                    _ => added,
                };
                unused = unused.plus(is_added);
                Some(outcome)
            }
        });
        let all = all.collect();
        self.give_back(unused);
        all
    }

    fn give_back(self, unused: Use) {
        if let Some((rate, mark)) = self.taken.filter(|_| unused.schedules > 0) {
            self.state.counts.lock().schedules.release(rate, mark, unused.schedules);
        }
        self.state.give_back(self.count, unused);
    }
}

/// Returns `true` if a command makes a timer.
pub(crate) const fn makes_timer(command: &Command) -> bool {
    matches!(command.operation, Operation::Schedule { .. } | Operation::Import { .. })
}

/// Returns `true` if a command adds nothing where there is this timer: it repeats an earlier one, or keeps the timer.
pub(crate) fn adds_nothing(command: &Command, known: &TimerView) -> bool {
    match &command.operation {
        Operation::Schedule { schedule, if_exists } => {
            let is_same = *if_exists != IfExists::Restart
                && known.request_hash() == Some(RequestHash::of(schedule));
            let keeps = *if_exists == IfExists::Keep && known.state.is_pending();
            keeps || is_same && known.state != State::Dead
        }
        Operation::Import { timer } => known.is_of(timer),
        _ => false,
    }
}

/// Returns what a command adds, by the sizes of [`duly_core::Timer::stored_bytes`].
fn added_by(command: &Command) -> Use {
    match &command.operation {
        Operation::Schedule { schedule, .. } => Use {
            pending: 1,
            pending_bytes: schedule.stored_bytes(),
            schedules: 1,
            ..Use::default()
        },
        Operation::Import { timer } if timer.dead_letter.is_some() => {
            Use { dead: 1, ..Use::default() }
        }
        Operation::Import { timer } => {
            Use { pending: 1, pending_bytes: timer.stored_bytes(), ..Use::default() }
        }
        // Only the store knows the size: a redrive is refused at a full limit, and its bytes are added afterwards.
        Operation::Redrive { .. } => Use { pending: 1, pending_bytes: 1, ..Use::default() },
        Operation::Reschedule { patch, .. } => {
            Use { pending_bytes: patch.content_bytes(), ..Use::default() }
        }
        Operation::Cancel { .. }
        | Operation::CancelSeen { .. }
        | Operation::CancelOrStop { .. }
        | Operation::Fire { .. }
        | Operation::DeadLetter { .. }
        | Operation::Purge { .. }
        | Operation::Forget { .. } => Use::default(),
    }
}
