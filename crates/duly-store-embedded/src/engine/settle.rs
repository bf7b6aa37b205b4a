//! Settle: carries out the verdicts of lease holders. A token whose lease is lost changes nothing (P8).

use duly_core::{
    Millis, TimerId,
    operate::{Effect, Level},
    settle::{self, LeaseLoss},
};
use duly_store::{Error, SettleOutcome, SettleVerdict, Settlement, Token};

use crate::{
    files::ReadError,
    format::record::{self, Record},
    index::{Entry, Key},
};

use super::{
    Engine, NotWritten, leases,
    leases::Lease,
    step_budget::{SLICE_RECORDS, StepBudget},
    view::not_now,
};

impl Engine {
    /// Carries out one slice of verdicts. Returns the outcomes when all are done. If a verdict cannot be
    /// written, it and those after it are in doubt.
    pub(crate) fn settle_slice(
        &mut self,
        settling: &mut Settling,
    ) -> Option<Result<Vec<SettleOutcome>, Error>> {
        let outcomes = &mut settling.outcomes;
        let mut budget = StepBudget::for_slice();
        let left = &settling.settlements[outcomes.len()..];
        let keys = left.iter().filter_map(|settlement| leases::parse(&settlement.token));
        self.namespaces.warm(keys.map(|(key, _)| key).take(SLICE_RECORDS));
        for settlement in left {
            if budget.is_spent() {
                return None;
            }
            match self.settle_within(settlement, &mut budget) {
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

    /// Returns a firing that no consumer has seen. If that cannot be written, its lease ends soon.
    pub(crate) fn release_unreceived(&mut self, token: &Token) {
        let verdict = SettleVerdict::Release;
        let settlement = Settlement { token: token.clone(), namespace: None, verdict };
        if self.settle(&settlement).is_err()
            && let Some((key, nonce)) = leases::parse(token)
            && let Some(lease) =
                self.leases.get_mut(key).filter(|lease| lease.granted.nonce == nonce)
        {
            let again_ms = self.now.boot_ms + super::time::AGAIN_MS;
            lease.ends_boot_ms = again_ms;
            self.lease_ends.insert(again_ms, key.pack());
        }
    }

    /// Carries out one verdict.
    pub(crate) fn settle(&mut self, settlement: &Settlement) -> Result<SettleOutcome, Error> {
        self.settle_within(settlement, &mut StepBudget::for_slice())
    }

    fn settle_within(
        &mut self,
        settlement: &Settlement,
        budget: &mut StepBudget,
    ) -> Result<SettleOutcome, Error> {
        let Some((key, nonce)) = leases::parse(&settlement.token) else {
            return Ok(SettleOutcome::InvalidToken);
        };
        if let Some(name) = &settlement.namespace
            && self.namespaces.number_of(name) != Some(key.namespace())
        {
            return Ok(SettleOutcome::InvalidToken);
        }
        let lease = self.leases.get(key).copied().filter(|lease| lease.granted.nonce == nonce);
        let is_over = lease.is_some_and(|lease| lease.ends_boot_ms <= self.now.boot_ms);
        if is_over {
            // A large number of leases ended at once, and this one waits for its turn.
            self.end_lease(key, LeaseLoss::Ended);
        }
        let lease = lease.filter(|_| !is_over);
        let (Some(lease), Some(entry)) = (lease, self.namespaces.live(key)) else {
            budget.spend(PRIOR_VERDICT_BYTES);
            return self.settled_before(key, nonce, &settlement.verdict);
        };
        let is_at_hand =
            settlement.verdict.level() == Level::Head && self.leases.head(key).is_some();
        budget.spend(if is_at_hand { 0 } else { entry.location().bytes_estimate() });
        self.settled(|engine| engine.take_verdict(key, &entry, &lease, &settlement.verdict))
    }

    fn take_verdict(
        &mut self,
        key: Key,
        entry: &Entry,
        lease: &Lease,
        verdict: &SettleVerdict,
    ) -> Result<SettleOutcome, NotWritten> {
        let head = match verdict {
            SettleVerdict::Ack => self.leases.take_head(key),
            SettleVerdict::Extend { .. } => self.leases.head(key).cloned().map(Box::new),
            _ => None,
        };
        let timer = match head.map_or_else(|| self.load_timer(entry.location()), Ok) {
            Ok(timer) => timer,
            Err(error) => {
                self.quarantine(key, entry, &error)?;
                return Ok(SettleOutcome::Dead);
            }
        };
        let (id, held) = (timer.id.clone(), lease.held(self.now.boot_ms));
        let (effect, outcome) = self.with_context(key.namespace(), 0, |context| {
            settle::settle(timer, &held, verdict, context)
        });
        match effect {
            Some(Effect::Extend(left)) => self.extend(key, id, lease, left)?,
            Some(effect) => drop(self.persist(key, effect)?),
            None => {}
        }
        Ok(outcome)
    }

    fn extend(
        &mut self,
        key: Key,
        id: TimerId,
        lease: &Lease,
        left: Millis,
    ) -> Result<(), NotWritten> {
        let lease = record::Lease {
            lease_ms: left.ms(),
            until: self.now.wall().saturating_add(left),
            ..lease.granted
        };
        self.rewrite_lease(key, id, lease)
    }

    /// Writes that no attempt follows the one under this lease. The end of the lease stays.
    pub(super) fn stop_lease(&mut self, key: Key, id: TimerId) -> Result<(), NotWritten> {
        let lease = *self.leases.get(key).expect("the timer is in flight");
        self.rewrite_lease(key, id, record::Lease { stopped: true, ..lease.granted })
    }

    /// Writes a changed lease in place of the one that is held.
    fn rewrite_lease(
        &mut self,
        key: Key,
        id: TimerId,
        lease: record::Lease,
    ) -> Result<(), NotWritten> {
        let record = Record::Lease { id, lease: record::Lease { extends: true, ..lease } };
        // The new lease replaces the one that has the head.
        let head = self.leases.take_head(key);
        let written = self.write_keyed(key, &record);
        if let Some(head) = head {
            self.leases.keep_head(key, || *head);
        }
        written
    }

    /// Returns the outcome for a token without a lease.
    fn settled_before(
        &self,
        key: Key,
        nonce: u64,
        verdict: &SettleVerdict,
    ) -> Result<SettleOutcome, Error> {
        let damaged = |error: ReadError| match &error {
            ReadError::Disk(error) => not_now(error),
            _ => Error::Damaged(error.to_string()),
        };
        let mut known = Vec::new();
        if let (Some(namespace), Some(_)) = (self.namespaces.get(key.namespace()), verdict.ending())
        {
            let live = namespace.live.get(key).map(|entry| entry.location());
            for location in live.into_iter().chain(namespace.dead_letters.of(key)) {
                known.push(self.load_timer(location).map_err(damaged)?.last_settled);
            }
            if let Some(entry) = namespace.tombstones.get(key, self.now.wall_ms) {
                known.push(self.load_tombstone(entry.location()).map_err(damaged)?.settled());
            }
        }
        Ok(settle::settled_before(known, nonce, verdict))
    }

    /// Ends one slice of the leases of a node. Returns their number when all are ended.
    pub(crate) fn release_slice(&mut self, releasing: &mut Releasing) -> Option<u64> {
        let member = Some(releasing.member.0);
        let mut budget = StepBudget::for_slice();
        for _ in 0..PARTS_PER_SLICE {
            while let Some(key) = releasing.keys.pop() {
                let is_held =
                    self.leases.get(key).is_some_and(|lease| lease.granted.node == member);
                let entry = self.namespaces.live(key).filter(|_| is_held);
                let Some(entry) = entry else {
                    continue;
                };
                budget.spend(entry.location().bytes_estimate());
                self.end_lease(key, LeaseLoss::NodeGone);
                releasing.ended += 1;
                if budget.is_spent() {
                    return None;
                }
            }
            if releasing.part == leases::PARTS {
                return Some(releasing.ended);
            }
            releasing.keys =
                self.leases.keys_where(releasing.part, |lease| lease.granted.node == member);
            releasing.part += 1;
        }
        None
    }
}

/// Verdicts that are being carried out.
#[derive(Debug)]
pub(crate) struct Settling {
    settlements: Vec<Settlement>,
    outcomes: Vec<SettleOutcome>,
}

impl Settling {
    /// Creates the state of a call. Refuses values that are not allowed.
    pub(crate) fn new(settlements: Vec<Settlement>) -> Result<Self, Error> {
        duly_store::settle::check(&settlements)?;
        let outcomes = Vec::with_capacity(settlements.len());
        Ok(Self { settlements, outcomes })
    }
}

/// Leases of a node that are being ended.
#[derive(Debug)]
pub(crate) struct Releasing {
    member: duly_store::MemberId,
    /// Next part of the leases.
    part: usize,
    keys: Vec<Key>,
    ended: u64,
}

impl Releasing {
    pub(crate) const fn new(member: duly_store::MemberId) -> Self {
        Self { member, part: 0, keys: Vec::new(), ended: 0 }
    }
}

/// Estimated cost of a check whether a verdict was given before, in bytes.
const PRIOR_VERDICT_BYTES: u64 = 4_096;
/// Parts of the leases that one slice visits.
const PARTS_PER_SLICE: usize = 16;
