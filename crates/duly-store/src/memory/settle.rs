//! Verdicts on leased firings.

use duly_core::{
    Millis, TimerId,
    lifecycle::{Decision, Event, decide},
    namespace::LEASE_MAX,
    shard::ShardId,
    timer::{Attempt, AttemptOutcome, DeadLetterReason, Next, SettledToken, Verdict},
    tombstone::Ended,
};

use super::{
    clock::Now,
    space::{Lease, Space},
    state::State,
};
use crate::{Owner, Result, SettleOutcome, SettleVerdict, Settlement, Token, settle};

impl State {
    /// An extension of a length that is not allowed refuses the call before anything is done.
    pub(super) fn settle(
        &mut self,
        shard: ShardId,
        settlements: Vec<Settlement>,
        now: Now,
    ) -> Result<Vec<SettleOutcome>> {
        settle::check(&settlements)?;
        let outcomes =
            settlements.into_iter().map(|settlement| self.settle_one(shard, settlement, now));
        Ok(outcomes.collect())
    }

    fn settle_one(&mut self, shard: ShardId, settlement: Settlement, now: Now) -> SettleOutcome {
        let Some(nonce) = self.nonce_of(shard, &settlement.token) else {
            return SettleOutcome::InvalidToken;
        };
        let Some(grant) = self.grants.get(&nonce) else {
            return SettleOutcome::InvalidToken;
        };
        if settlement.namespace.is_some_and(|name| name != grant.namespace) {
            return SettleOutcome::InvalidToken;
        }
        match self.spaces.get_mut(&grant.namespace) {
            Some(space) if space.number == grant.space => {
                space.settle(&grant.id, nonce, settlement.verdict, now)
            }
            _ => SettleOutcome::LeaseLost,
        }
    }

    fn nonce_of(&self, shard: ShardId, token: &Token) -> Option<u64> {
        let own: [u8; 16] = token.own().try_into().ok()?;
        let (store_id, nonce) = own.split_at(8);
        let ours = token.shard() == shard && store_id == self.store_id.to_be_bytes();
        ours.then(|| nonce.try_into().map(u64::from_be_bytes).ok())?
    }
}

impl Space {
    fn settle(
        &mut self,
        id: &TimerId,
        nonce: u64,
        verdict: SettleVerdict,
        now: Now,
    ) -> SettleOutcome {
        let held =
            self.live.get(id).and_then(|live| live.lease).filter(|lease| lease.nonce == nonce);
        let Some(lease) = held else {
            return self.settled_before(id, nonce, &verdict);
        };
        let ended =
            |outcome, reason: &str| Attempt::new(lease.attempt, lease.claimed_at, outcome, reason);
        if let (Some(live), Some(verdict)) = (self.live.get_mut(id), kind(&verdict)) {
            live.timer.last_settled = Some(SettledToken { nonce, verdict });
        }
        match verdict {
            SettleVerdict::Ack => self.acknowledge(id, ended(AttemptOutcome::Delivered, ""), now),
            SettleVerdict::Retry { wait, outcome, reason } => {
                match self.fail(id, ended(outcome, &reason), wait, now.steady, now) {
                    Next::Retry(_) => SettleOutcome::Ok,
                    Next::Dead => SettleOutcome::Dead,
                }
            }
            SettleVerdict::Dead { reason } => {
                self.give_up(id, ended(AttemptOutcome::Rejected, &reason), now)
            }
            SettleVerdict::Extend { lease: length } => self.extend(id, lease, length, now),
            SettleVerdict::Release => self.hand_back(id, now),
        }
    }

    fn acknowledge(&mut self, id: &TimerId, ended: Attempt, now: Now) -> SettleOutcome {
        self.expect(id, Event::Ack, Decision::Move(duly_core::State::Finished), now);
        let mut timer = self.take_live(id);
        timer.attempt_concluded(ended);
        self.end(&timer, Ended::Finished, now);
        self.totals.delivered += 1;
        SettleOutcome::Ok
    }

    fn give_up(&mut self, id: &TimerId, ended: Attempt, now: Now) -> SettleOutcome {
        self.expect(id, Event::DeadLetter, Decision::Move(duly_core::State::Dead), now);
        if let Some(live) = self.live.get_mut(id) {
            live.timer.attempt_concluded(ended);
        }
        self.totals.failed += 1;
        self.bury(id, DeadLetterReason::Rejected, now);
        SettleOutcome::Ok
    }

    /// The lease ends `length` from now, at most [`LEASE_MAX`] after the claim; a node's has no end.
    fn extend(&mut self, id: &TimerId, lease: Lease, length: Millis, now: Now) -> SettleOutcome {
        if matches!(lease.owner, Owner::Node(_)) {
            return SettleOutcome::Ok;
        }
        let latest_boot = lease.claimed_boot + LEASE_MAX.to_std();
        let ends_boot = (now.boot + length.to_std()).min(latest_boot);
        let left = ends_boot.saturating_sub(now.boot).as_millis();
        let left = Millis::from_ms(u64::try_from(left).unwrap_or(u64::MAX));
        let leased_until = Some(now.wall.saturating_add(left));
        if let Some(live) = self.live.get_mut(id) {
            live.lease = Some(Lease { ends_boot, leased_until, ..lease });
        }
        SettleOutcome::Ok
    }

    fn hand_back(&mut self, id: &TimerId, now: Now) -> SettleOutcome {
        self.expect(id, Event::Release, Decision::Change, now);
        if let Some(live) = self.live.get_mut(id) {
            live.lease = None;
        }
        SettleOutcome::Ok
    }

    fn expect(&self, id: &TimerId, event: Event, expected: Decision, now: Now) {
        let state = self.live.get(id).map(|live| live.state(now));
        assert_eq!(decide(state, event), expected, "a held lease allows every verdict");
    }

    /// What a token gets that holds no lease: whether it was settled the same way before.
    fn settled_before(&self, id: &TimerId, nonce: u64, verdict: &SettleVerdict) -> SettleOutcome {
        let Some(verdict) = kind(verdict) else {
            return SettleOutcome::LeaseLost;
        };
        let live = self.live.get(id).and_then(|live| live.timer.last_settled);
        // A cancelled timer forgets its tokens: a store may cancel without a look at the record.
        let finished =
            self.tombstones.get(id).filter(|tombstone| tombstone.value.ended == Ended::Finished);
        let tombstone = finished.and_then(|tombstone| tombstone.value.details.as_ref()?.settled);
        let dead = self.dead.values().filter(|letter| letter.value.id == *id);
        let dead = dead.filter_map(|letter| letter.value.last_settled);
        let known = live.into_iter().chain(tombstone).chain(dead);
        if known.into_iter().any(|settled| settled == SettledToken { nonce, verdict }) {
            SettleOutcome::AlreadySettled
        } else {
            SettleOutcome::LeaseLost
        }
    }
}

/// The kind of a verdict that ends a lease.
const fn kind(verdict: &SettleVerdict) -> Option<Verdict> {
    match verdict {
        SettleVerdict::Ack => Some(Verdict::Ack),
        SettleVerdict::Retry { .. } => Some(Verdict::Retry),
        SettleVerdict::Dead { .. } => Some(Verdict::Dead),
        SettleVerdict::Release => Some(Verdict::Release),
        SettleVerdict::Extend { .. } => None,
    }
}
