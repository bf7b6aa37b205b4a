//! Settle: what the holder of a lease says. A token whose lease is lost changes nothing (P8).

use duly_core::{
    Millis, State, Tombstone,
    lifecycle::{self, Decision, Event},
    namespace::LEASE_MAX,
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Next, SettledToken, Verdict, Wait},
    tombstone::Ended,
};
use duly_store::{Error, SettleOutcome, SettleVerdict, Settlement, Token};

use crate::{
    files::ReadError,
    format::record::{self, Cause, Record},
    index::{Entry, Key},
};

use super::{
    Engine, Stop,
    allowance::{Allowance, SHARE_RECORDS},
    leases,
    leases::Lease,
    view::not_now,
};

impl Engine {
    /// Goes on with verdicts for one share; the outcomes when all are taken. When one cannot be
    /// written, it and those behind are in doubt.
    pub(crate) fn settle_on(
        &mut self,
        settling: &mut Settling,
    ) -> Option<Result<Vec<SettleOutcome>, Error>> {
        let outcomes = &mut settling.outcomes;
        let mut allowance = Allowance::of_a_share();
        let left = &settling.settlements[outcomes.len()..];
        let keys = left.iter().filter_map(|settlement| leases::parse(&settlement.token));
        self.namespaces.warm(keys.map(|(key, _)| key).take(SHARE_RECORDS));
        for settlement in left {
            if allowance.is_spent() {
                return None;
            }
            match self.settle_within(settlement, &mut allowance) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) if outcomes.is_empty() => return Some(Err(error)),
                Err(_) => {
                    outcomes.resize(settling.settlements.len(), SettleOutcome::InDoubt);
                    break;
                }
            }
        }
        Some(Ok(std::mem::take(outcomes)))
    }

    /// Hands back a firing that nobody has seen. Where that cannot be written its lease ends soon.
    pub(crate) fn hand_back(&mut self, token: &Token) {
        let verdict = SettleVerdict::Release;
        let settlement = Settlement { token: token.clone(), namespace: None, verdict };
        if self.settle(&settlement).is_err()
            && let Some((key, nonce)) = leases::parse(token)
            && let Some(lease) = self.leases.get_mut(key).filter(|lease| lease.nonce == nonce)
        {
            let again_ms = self.now.boot_ms + super::time::AGAIN_MS;
            lease.ends_boot_ms = again_ms;
            self.lease_ends.insert(again_ms, key.pack());
        }
    }

    /// Takes one verdict.
    pub(crate) fn settle(&mut self, settlement: &Settlement) -> Result<SettleOutcome, Error> {
        self.settle_within(settlement, &mut Allowance::of_a_share())
    }

    fn settle_within(
        &mut self,
        settlement: &Settlement,
        allowance: &mut Allowance,
    ) -> Result<SettleOutcome, Error> {
        let Some((key, nonce)) = leases::parse(&settlement.token) else {
            return Ok(SettleOutcome::InvalidToken);
        };
        if let Some(name) = &settlement.namespace
            && self.namespaces.number_of(name) != Some(key.namespace())
        {
            return Ok(SettleOutcome::InvalidToken);
        }
        let lease = self.leases.get(key).copied().filter(|lease| lease.nonce == nonce);
        let is_over = lease.is_some_and(|lease| lease.ends_boot_ms <= self.now.boot_ms);
        if is_over {
            // Among very many that ended at once it had not its turn yet.
            self.end_lease(key, "the lease ended before a verdict");
        }
        let lease = lease.filter(|_| !is_over);
        let (Some(lease), Some(entry)) = (lease, self.namespaces.live(key)) else {
            allowance.spend(LOOK_BACK_BYTES);
            return self.settled_before(key, nonce, &settlement.verdict);
        };
        let needs_record = settlement.verdict != SettleVerdict::Ack || !self.leases.has_head(key);
        allowance.spend(if needs_record { entry.location().bytes_estimate() } else { 0 });
        self.settled(|engine| engine.take_verdict(key, &entry, &lease, &settlement.verdict))
    }

    fn take_verdict(
        &mut self,
        key: Key,
        entry: &Entry,
        lease: &Lease,
        verdict: &SettleVerdict,
    ) -> Result<SettleOutcome, Stop> {
        let head = if *verdict == SettleVerdict::Ack { self.leases.take_head(key) } else { None };
        let loaded = head.map_or_else(|| self.load_timer(entry.location()), Ok);
        let mut timer = match loaded {
            Ok(timer) => timer,
            Err(error) => {
                self.quarantine(key, entry, &error)?;
                return Ok(SettleOutcome::Dead);
            }
        };
        let attempt =
            |outcome, reason: &str| Attempt::new(lease.attempt, lease.claimed_at, outcome, reason);
        let settled = |verdict| Some(SettledToken { nonce: lease.nonce, verdict });
        match verdict {
            SettleVerdict::Ack => {
                assert_allowed(Event::Ack);
                timer.attempt_concluded(attempt(AttemptOutcome::Delivered, ""));
                timer.last_settled = settled(Verdict::Ack);
                let tombstone = Tombstone::of(&timer, Ended::Finished, self.now.wall());
                self.write_ended(key, tombstone)?;
                Ok(SettleOutcome::Ok)
            }
            SettleVerdict::Retry { wait, outcome, reason } => {
                timer.last_settled = settled(Verdict::Retry);
                let ended = attempt(*outcome, reason);
                let since = self.now.steady();
                match self.fail_attempt(key, timer, ended, capped(*wait), since)? {
                    Next::Retry(_) => Ok(SettleOutcome::Ok),
                    Next::Dead => Ok(SettleOutcome::Dead),
                }
            }
            SettleVerdict::Dead { reason } => {
                assert_allowed(Event::DeadLetter);
                timer.attempt_concluded(attempt(AttemptOutcome::Rejected, reason));
                timer.last_settled = settled(Verdict::Dead);
                timer.die(self.now.wall(), DeadLetterReason::Rejected);
                self.write_keyed(key, &Record::Dead(Cause::AttemptFailed, timer))?;
                Ok(SettleOutcome::Ok)
            }
            SettleVerdict::Extend { lease: extension } => {
                // A node's lease has no end to move.
                if lease.node.is_none() {
                    self.extend(key, timer.id.clone(), lease, *extension)?;
                }
                Ok(SettleOutcome::Ok)
            }
            SettleVerdict::Release => {
                assert_allowed(Event::Release);
                timer.last_settled = settled(Verdict::Release);
                self.write_keyed(key, &Record::Pending(Cause::Released, timer))?;
                Ok(SettleOutcome::Ok)
            }
        }
    }

    fn extend(
        &mut self,
        key: Key,
        id: duly_core::TimerId,
        lease: &Lease,
        extension: Millis,
    ) -> Result<(), Stop> {
        let held_ms = self.now.boot_ms.saturating_sub(lease.claimed_boot_ms);
        let left_ms = LEASE_MAX.ms().saturating_sub(held_ms);
        let lease_ms = extension.ms().min(left_ms);
        let record = Record::Lease(record::Lease {
            id,
            nonce: lease.nonce,
            attempt: lease.attempt,
            node: lease.node,
            claimed_at: lease.claimed_at,
            lease_ms,
            until: self.now.wall().saturating_add(Millis::from_ms(lease_ms)),
            extends: true,
        });
        self.write_keyed(key, &record)
    }

    /// Whether the same token was settled the same way before.
    fn settled_before(
        &self,
        key: Key,
        nonce: u64,
        verdict: &SettleVerdict,
    ) -> Result<SettleOutcome, Error> {
        let Some(verdict) = verdict_of(verdict) else {
            return Ok(SettleOutcome::LeaseLost);
        };
        let damaged = |error: ReadError| match &error {
            ReadError::Disk(error) => not_now(error),
            _ => Error::Damaged(error.to_string()),
        };
        let Some(namespace) = self.namespaces.get(key.namespace()) else {
            return Ok(SettleOutcome::LeaseLost);
        };
        let mut known = Vec::new();
        if let Some(entry) = namespace.live.get(key) {
            known.push(self.load_timer(entry.location()).map_err(damaged)?.last_settled);
        }
        if let Some(entry) = namespace.tombstones.get(key, self.now.wall_ms) {
            // A cancelled timer forgets its tokens: most cancels do not look at the record.
            let tombstone = self.load_tombstone(entry.location()).map_err(damaged)?;
            let details = tombstone.details.filter(|_| tombstone.ended == Ended::Finished);
            known.push(details.and_then(|details| details.settled));
        }
        for location in namespace.letters.of(key) {
            known.push(self.load_timer(location).map_err(damaged)?.last_settled);
        }
        Ok(if known.contains(&Some(SettledToken { nonce, verdict })) {
            SettleOutcome::AlreadySettled
        } else {
            SettleOutcome::LeaseLost
        })
    }

    /// Goes on ending the leases of a node for one share; how many there were when that is done.
    pub(crate) fn release_on(&mut self, releasing: &mut Releasing) -> Option<u64> {
        let run = Some(releasing.run.0);
        let mut allowance = Allowance::of_a_share();
        for _ in 0..PARTS_PER_SHARE {
            while let Some(key) = releasing.keys.pop() {
                let is_held = self.leases.get(key).is_some_and(|lease| lease.node == run);
                let entry = self.namespaces.live(key).filter(|_| is_held);
                let Some(entry) = entry else {
                    continue;
                };
                allowance.spend(entry.location().bytes_estimate());
                self.end_lease(key, "the node that held the lease is gone");
                releasing.ended += 1;
                if allowance.is_spent() {
                    return None;
                }
            }
            if releasing.part == leases::PARTS {
                return Some(releasing.ended);
            }
            releasing.keys = self.leases.keys_where(releasing.part, |lease| lease.node == run);
            releasing.part += 1;
        }
        None
    }
}

/// Verdicts that are being taken.
#[derive(Debug)]
pub(crate) struct Settling {
    settlements: Vec<Settlement>,
    outcomes: Vec<SettleOutcome>,
}

impl Settling {
    /// Refuses a call whose values are not allowed.
    pub(crate) fn new(settlements: Vec<Settlement>) -> Result<Self, Error> {
        duly_store::settle::check(&settlements)?;
        let outcomes = Vec::with_capacity(settlements.len());
        Ok(Self { settlements, outcomes })
    }
}

/// Leases of a node that are being ended.
#[derive(Debug)]
pub(crate) struct Releasing {
    run: duly_store::MemberId,
    /// The part of all leases that is looked at next.
    part: usize,
    keys: Vec<Key>,
    ended: u64,
}

impl Releasing {
    pub(crate) const fn new(run: duly_store::MemberId) -> Self {
        Self { run, part: 0, keys: Vec::new(), ended: 0 }
    }
}

/// What it is taken to cost to look whether a verdict was given before.
const LOOK_BACK_BYTES: u64 = 4_096;
/// Parts of all leases that one share looks through.
const PARTS_PER_SHARE: usize = 16;

/// The longest wait a holder can ask for.
const WAIT_MAX: Millis = duly_core::retry::BACKOFF_MAX;

fn capped(wait: Wait) -> Wait {
    match wait {
        Wait::AtLeast(wait) => Wait::AtLeast(wait.min(WAIT_MAX)),
        Wait::Exactly(wait) => Wait::Exactly(wait.min(WAIT_MAX)),
        Wait::Policy | Wait::None => wait,
    }
}

const fn verdict_of(verdict: &SettleVerdict) -> Option<Verdict> {
    match verdict {
        SettleVerdict::Ack => Some(Verdict::Ack),
        SettleVerdict::Retry { .. } => Some(Verdict::Retry),
        SettleVerdict::Dead { .. } => Some(Verdict::Dead),
        SettleVerdict::Release => Some(Verdict::Release),
        SettleVerdict::Extend { .. } => None,
    }
}

fn assert_allowed(event: Event) {
    let decision = lifecycle::decide(Some(State::InFlight), event);
    assert!(!matches!(decision, Decision::Refuse(_)), "a leased firing allows {event:?}");
}
