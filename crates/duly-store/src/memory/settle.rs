//! Verdicts on leased firings, and the end of leases without a verdict.

use duly_core::{
    TimerId, Timestamp,
    operate::Effect,
    settle::{self, LeaseLoss, expire, lose_lease, settled_before},
    shard::ShardId,
};

use super::{
    clock::ClockReading,
    namespace_state::{Lease, NamespaceState},
    state::MemoryState,
};
use crate::{Result, SettleOutcome, SettleVerdict, Settlement, Token, settle::check};

impl MemoryState {
    /// Applies verdicts. An extension of a length that is not allowed refuses the call before anything is
    /// done.
    pub(super) fn settle(
        &mut self,
        shard: ShardId,
        settlements: Vec<Settlement>,
        now: ClockReading,
    ) -> Result<Vec<SettleOutcome>> {
        check(&settlements)?;
        let outcomes =
            settlements.into_iter().map(|settlement| self.settle_one(shard, settlement, now));
        Ok(outcomes.collect())
    }

    fn settle_one(
        &mut self,
        shard: ShardId,
        settlement: Settlement,
        now: ClockReading,
    ) -> SettleOutcome {
        let Some(nonce) = self.nonce_of(shard, &settlement.token) else {
            return SettleOutcome::InvalidToken;
        };
        let Some(token) = self.tokens.get(&nonce) else {
            return SettleOutcome::InvalidToken;
        };
        if settlement.namespace.is_some_and(|name| name != token.namespace) {
            return SettleOutcome::InvalidToken;
        }
        match self.namespaces.get_mut(&token.namespace) {
            Some(namespace) if namespace.number == token.namespace_number => {
                namespace.settle(&token.id, nonce, &settlement.verdict, now)
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

impl NamespaceState {
    /// Catches up with the clock: ended leases, expired firings, old tombstones. A lease that ended is
    /// processed as of its end, even if the call comes later, so the order of the retries does not depend on
    /// the call.
    pub(super) fn catch_up(&mut self, now: ClockReading) {
        if self.own.resumes_at.is_some_and(|at| at <= now.wall) {
            (self.own.paused, self.own.resumes_at, self.own.updated_at) = (false, None, now.wall);
        }
        for id in self.leased(|lease| lease.is_over(now)) {
            let ended = self.live[&id].lease.map(|lease| now.origin.steady_at(lease.ends_boot));
            self.lose_lease(&id, LeaseLoss::Ended, ended.unwrap_or(now.steady), now);
        }
        let unleased = self.live.values().filter(|live| live.lease.is_none());
        let context = self.context(0, now);
        let expired = unleased.filter_map(|it| expire(Box::new(it.timer.clone()), &context).ok());
        for effect in expired.collect::<Vec<_>>() {
            self.write(effect);
        }
        self.drop_tombstones_past_retention(now);
        self.trim_tombstones();
    }

    pub(super) fn drop_tombstones_past_retention(&mut self, now: ClockReading) {
        let retention = self.own.settings.retention;
        self.tombstones
            .retain(|_, tombstone| tombstone.value.ended_at.saturating_add(retention) > now.wall);
    }

    /// Returns the ids of the leased firings for which `which` returns `true`.
    pub(super) fn leased(&self, which: impl Fn(&Lease) -> bool) -> Vec<TimerId> {
        let held = self.live.iter().filter(|(_, live)| live.lease.as_ref().is_some_and(&which));
        held.map(|(id, _)| id.clone()).collect()
    }

    /// Ends a lease without a verdict.
    pub(super) fn lose_lease(
        &mut self,
        id: &TimerId,
        loss: LeaseLoss,
        since: Timestamp,
        now: ClockReading,
    ) {
        let live = &self.live[id];
        if let Some(lease) = live.lease {
            let timer = Box::new(live.timer.clone());
            let effect = lose_lease(timer, &lease.held(now), loss, since, &self.context(0, now));
            self.write(effect);
        }
    }

    fn settle(
        &mut self,
        id: &TimerId,
        nonce: u64,
        verdict: &SettleVerdict,
        now: ClockReading,
    ) -> SettleOutcome {
        let context = self.context(0, now);
        let live = self.live.get(id);
        let held = live.and_then(|live| Some((live, live.lease?)));
        let Some((live, lease)) = held.filter(|(_, lease)| lease.nonce == nonce) else {
            let live = live.map(|live| live.timer.last_settled);
            let tombstone = self.tombstones.get(id).map(|tombstone| tombstone.value.settled());
            let dead = self.dead.values().filter(|letter| letter.value.id == *id);
            let dead = dead.map(|letter| letter.value.last_settled);
            return settled_before(live.into_iter().chain(tombstone).chain(dead), nonce, verdict);
        };
        let timer = Box::new(live.timer.clone());
        let (effect, outcome) = settle::settle(timer, &lease.held(now), verdict, &context);
        match effect {
            Some(Effect::Extend(left)) => {
                let ends_boot = now.boot + left.to_std();
                let leased_until = Some(now.wall.saturating_add(left));
                if let Some(live) = self.live.get_mut(id) {
                    live.lease = Some(Lease { ends_boot, leased_until, ..lease });
                }
            }
            Some(effect) => self.write(effect),
            None => {}
        }
        outcome
    }
}
