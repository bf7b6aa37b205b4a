//! The reference store with one fault.

use std::sync::Arc;

use duly_core::{DeliveryId, destination::LaneKey, shard::ShardId};
use futures::FutureExt;
use parking_lot::Mutex;

use super::Fault;
use crate::{
    ClaimRequest, Claimed, Command, Firing, Lane, LaneClaim, Operation, Outcome, SettleOutcome,
    SettleVerdict, Settlement, Store, StoreFuture, TimerView, Timers, Token,
    conformance::{ManualClock, StandIn},
    memory::MemoryStore,
    query::Body,
};

/// A reference store with a fault.
#[derive(Debug)]
pub(super) struct FaultyStore {
    inner: MemoryStore,
    clock: ManualClock,
    fault: Fault,
    replaced: Mutex<Vec<TimerView>>,
}

impl FaultyStore {
    pub(super) fn new(inner: MemoryStore, clock: ManualClock, fault: Fault) -> Self {
        Self { inner, clock, fault, replaced: Mutex::new(Vec::new()) }
    }

    pub(super) fn reopen(&self) {
        self.inner.reopen();
    }

    async fn apply_one(&self, shard: ShardId, command: Command) -> crate::Result<Outcome> {
        let id = match &command.operation {
            Operation::Schedule { schedule, .. } => Some(schedule.id.clone()),
            Operation::Cancel { id, .. } | Operation::Reschedule { id, .. } => Some(id.clone()),
            _ => None,
        };
        let old = match id {
            Some(id) => self.inner.get(shard, command.namespace.clone(), id, u64::MAX).await?,
            None => None,
        };
        let waiting =
            old.clone().filter(|old| old.state.is_pending() && old.attempt_under_way.is_none());
        match (self.fault, &command.operation, waiting) {
            (Fault::FalseCancel, Operation::Cancel { .. }, Some(old)) => {
                return Ok(Outcome::Cancelled {
                    attempts: old.attempts(),
                    maybe_delivered: old.maybe_delivered(),
                    already: false,
                });
            }
            (Fault::FalseChange, Operation::Reschedule { patch, .. }, Some(mut old)) => {
                if let Body::Whole(timer) = &mut old.body {
                    let now = duly_core::env::Clock::now(&self.clock);
                    timer.change((**patch).clone(), now).unwrap();
                }
                return Ok(Outcome::Changed(Arc::new(old)));
            }
            _ => {}
        }
        let outcome = self.inner.apply(shard, vec![command]).await?.remove(0);
        if let (Outcome::Replaced(_), Some(old)) = (&outcome, old) {
            self.replaced.lock().push(old);
        }
        Ok(outcome)
    }

    /// Returns the firings of timers that were replaced earlier.
    fn resurrected(&self) -> Vec<Firing> {
        let now = duly_core::env::Clock::now(&self.clock);
        let mut replaced = self.replaced.lock();
        let due = replaced.extract_if(.., |old| old.due_at() <= now);
        let firings = due.filter_map(|old| {
            let timer = old.timer()?.clone();
            let at = timer.claimable_at();
            let token = Token::new(ShardId(0), &[0; 8]);
            let lane = Lane { namespace: old.namespace.clone(), key: LaneKey::Pull };
            Some(Firing::new(timer, token, &lane, at, Some(now), Arc::default()))
        });
        firings.collect()
    }

    fn spoil(&self, firing: &mut Firing) {
        match self.fault {
            Fault::DeliveryIdPerAttempt => {
                let incarnation = duly_core::Incarnation(u64::from(firing.attempt));
                let id = firing.id.as_str();
                firing.delivery_id = DeliveryId::of(firing.namespace.as_str(), id, incarnation, 0);
            }
            Fault::CutsPayloads => {
                if let Some(payload) = &mut Arc::make_mut(&mut firing.spec).payload {
                    payload.bytes.truncate(payload.bytes.len().saturating_sub(1));
                }
            }
            _ => {}
        }
    }
}

impl StandIn for FaultyStore {
    fn behind(&self) -> &dyn Store {
        &self.inner
    }

    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        async move {
            crate::command::check_count(commands.len())?;
            let mut outcomes = Vec::new();
            for command in commands {
                outcomes.push(self.apply_one(shard, command).await?);
            }
            Ok(outcomes)
        }
        .boxed()
    }

    fn claim(&self, shard: ShardId, mut request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        async move {
            if self.fault == Fault::OtherLanes {
                let ready = self.inner.ready(shard, None, 100).await?;
                request.lanes.extend(ready.lanes.into_iter().map(|ready| LaneClaim {
                    lane: ready.lane,
                    first_max: 1,
                    retry_max: 1,
                }));
            }
            let early = i64::from(self.fault == Fault::FiresEarly);
            self.clock.step_wall(early);
            let claimed = self.inner.claim(shard, request).await;
            self.clock.step_wall(-early);
            let mut claimed = claimed?;
            if self.fault == Fault::Resurrects {
                claimed.firings.extend(self.resurrected());
            }
            claimed.firings.iter_mut().for_each(|firing| self.spoil(firing));
            Ok(claimed)
        }
        .boxed()
    }

    fn settle(
        &self,
        shard: ShardId,
        mut settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        async move {
            for settlement in &mut settlements {
                let retry = matches!(settlement.verdict, SettleVerdict::Retry { .. });
                if self.fault == Fault::LosesRetries && retry {
                    settlement.verdict = SettleVerdict::Ack;
                }
            }
            let mut outcomes = self.inner.settle(shard, settlements).await?;
            for outcome in &mut outcomes {
                if self.fault == Fault::StaleSettle && *outcome == SettleOutcome::LeaseLost {
                    *outcome = SettleOutcome::Ok;
                }
            }
            Ok(outcomes)
        }
        .boxed()
    }
}
