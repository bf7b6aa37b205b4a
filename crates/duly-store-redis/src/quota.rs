//! Quotas: the limits of a namespace that apply to the sum over all shards, `max_pending` and `max_dead`.
//!
//! A Lua script runs in one shard, so no script can count all shards. So each shard has a *quota* of each
//! limit. The *use* of a shard (its pending timers, or its dead letters) may reach the quota; then the shard is
//! *full*. A new timer takes quota of `max_pending`. A new dead letter takes quota of `max_dead`. A claim takes
//! none. A shard grants claims only while its dead letters are below its quota of `max_dead`, because a firing
//! may become a dead letter (see the limitations).
//!
//! An *allocation* is one division of a limit over the shards. A new one begins when a limit is lowered or set
//! where there was none (rule 7), and when shards have lost what they need for the present one (rule 11). When
//! a shard has taken its share (rule 9), its quota is the sum of three terms:
//!
//! - the even split of the limit that this shard knows (the first shards get one more if the limit does not
//!   divide);
//! - a correction. Even split and correction together are the share of the shard. The correction stays when the
//!   limit rises later. It is zero in the first allocation, and it may be negative;
//! - all that the shard has received from other shards, minus all that it has sent to them.
//!
//! **Transfers** (`scripts/transfer.lua`, `plan.rs`). Before a full shard refuses a call, the node that serves
//! the call *rebalances*. A claim is not refused: it skips the namespace, and the background poll of the lanes
//! rebalances.
//!
//! 1. It reads the quota and the use of all shards that reply, and moves unused quota to the shards that lack
//!    some. All transfers go through the namespace's coordinator shard. Shards with older settings get the
//!    present ones first.
//! 2. If no shard has unused quota, not even after ended timers were removed, the call is refused. This node
//!    does not rebalance for this limit again for a second. If the coordinator shard does not reply, the call
//!    fails as unavailable.
//!
//! Lost, late and repeated messages do no harm:
//!
//! 3. Each shard stores two running totals for each shard that it exchanges quota with: sent to it, and
//!    received from it. The message to the receiver names the sent total ("7 in all"), not an amount. It also
//!    names its allocation, and counts in no other one.
//! 4. A script that sends lowers the quota and raises the sent total. A repeated request sends again, but
//!    unused quota only.
//! 5. A script that receives a total above its stored one raises the quota by the difference and stores the new
//!    total. An equal or smaller total has no effect.
//! 6. If a message was lost, the sent total is above the received one. The next rebalance finds this and sends
//!    the total again.
//!
//! ```text
//!   shard A (unused quota)          coordinator shard C              shard F (full)
//!   sent to C: 7        ──"7"──►    received from A: 7
//!                                   sent to F: 4        ──"4"──►     received from C: 4
//!                                   (the other 3 are now part of C's own quota)
//! ```
//!
//! **A higher limit** raises the even split, and with it the quotas, as soon as the shards have the new
//! settings. The allocation and its totals stay.
//!
//! **A lower limit** begins a new allocation, named by the version of the settings that lowered the limit
//! (`scripts/put.lua`, `allocation.rs`). Without a new allocation, the even split of a shard could fall below
//! what it has sent. Its quota would be negative, the receivers would keep theirs, and the sum in use would
//! exceed the limit.
//!
//! 7. When a shard gets this version, it forgets its totals, and its quota is 0 until it takes its share (rule
//!    9).
//! 8. When all shards reply, have the present settings and have taken no share, a node counts their use. If the
//!    use is not below the limit, the quotas stay 0; a later call counts again.
//! 9. Otherwise the share of each shard is its use, and an even split of the rest. The coordinator shard
//!    records the corrections that give these shares, once. Each shard takes its correction once.
//! 10. The call that changes the limit carries out these steps as far as it can. Later, any rebalance continues
//!     them.
//! 11. A failover of the coordinator shard may lose the newest settings. Or it may lose the corrections of rule
//!     9 after a shard has taken its share. A node that finds this writes the settings again with a new
//!     version, which begins a new allocation of both limits. So does a repair that restores missing namespaces
//!     of a shard, once every shard takes calls.
//!
//! What must stay true:
//!
//! 1. The quotas, and the transfers under way (sent and not yet received), never add up to more than the limit.
//!    So the use of all shards does not exceed the limit. There are two exceptions: the limitations below, and
//!    a limit that was lowered. Until all shards have the lower limit, use may still grow up to the one before,
//!    and it stays above the new one until enough timers have ended.
//! 2. Totals only grow, except for what a failover loses. So a message may be lost, late or repeated.
//! 3. No transfer of one allocation counts in another.
//! 4. A shard that has the version of a new allocation admits nothing that needs quota until it takes its
//!    share.
//!
//! A call may be refused although the use of all shards is below the limit: within the second of rule 2, while
//! a shard with unused quota does not reply, and when other calls take the quota first. While a new allocation
//! waits for a shard, a call may fail as unavailable.
//!
//! Limitations:
//!
//! * A failover that loses the record of a send leaves that quota at two shards, until the sender has sent as
//!   much again or a new allocation begins. `Options::min_replicas` makes this rare.
//! * A redrive of a dead letter is not checked against `max_pending`, as in a store of one shard.
//! * `max_dead` does not stop firings under way: they may become dead letters beyond the limit. And a shard
//!   without a dead letter grants claims even if its quota is 0, except while it waits for its share. Otherwise
//!   a limit smaller than the number of shards would stop most shards.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use duly_core::{NamespaceName, shard::ShardId};
use duly_decide::LimitKind;
use duly_store::Result;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    change::{at_once, digits},
    deployment::Deployment,
    error::{damaged, unavailable},
    row::Control,
    script::Script,
};

mod allocation;
mod plan;
#[cfg(test)]
mod tests;

pub(crate) use allocation::Allocations;
use allocation::QuotaReport;
use plan::TransferPlan;

/// Time without a rebalance after one that found nothing.
const REST_AFTER_NOTHING: Duration = Duration::from_secs(1);
/// Least time between rebalances that found something.
const PAUSE: Duration = Duration::from_millis(20);
/// Most rounds of one rebalance: a round that finishes a change or sweeps is followed by another.
const ROUNDS: usize = 4;

/// One limit of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceLimit {
    name: NamespaceName,
    num: String,
    kind: LimitKind,
}

impl NamespaceLimit {
    pub(crate) fn of(control: &Control, kind: LimitKind) -> Self {
        Self { name: control.name.clone(), num: control.num.clone(), kind }
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        [self.name.as_str(), &self.num, self.kind.as_str()].map(|text| text.into()).to_vec()
    }
}

/// The rebalances of one limit by this node, at most one at a time.
#[derive(Debug, Default)]
pub(crate) struct Rebalance {
    /// Additional quota that each shard wants.
    wanted: Mutex<BTreeMap<u16, u64>>,
    /// Time when the last rebalance ended; `true`: it found something.
    last: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl Deployment {
    /// Rebalances: obtains quota that other shards do not use, for one more. Returns `true` if the
    /// caller should try again; `false` if there was none.
    pub(crate) async fn rebalance(&self, shard: ShardId, limit: NamespaceLimit) -> Result<bool> {
        if self.shards == 1 {
            return Ok(false);
        }
        let rebalance = self.rebalances.of(&limit);
        *rebalance.wanted.lock().entry(shard.0).or_default() += 1;
        let mut last = rebalance.last.lock().await;
        let is_resting =
            last.is_some_and(|(at, found)| !found && at.elapsed() < REST_AFTER_NOTHING);
        if !rebalance.wanted.lock().contains_key(&shard.0) {
            // Another call rebalanced for all that were waiting.
            return Ok(!is_resting);
        }
        if is_resting {
            rebalance.wanted.lock().remove(&shard.0);
            return Ok(false);
        }
        if let Some((at, _)) = *last {
            tokio::time::sleep_until(at + PAUSE).await;
        }
        let wanted = std::mem::take(&mut *rebalance.wanted.lock());
        let found = self.rebalance_once(&limit, &wanted).await?;
        *last = Some((Instant::now(), found));
        Ok(found)
    }

    /// Rebalances the dead-letter limit of a namespace that stalls in a shard because its quota is used
    /// up. Runs in the background and at most once a second.
    pub(crate) fn rebalance_dead_letters(
        self: &Arc<Self>,
        shard: ShardId,
        name: &str,
        num: String,
    ) {
        let Ok(name) = NamespaceName::new(name) else { return };
        if self.shards == 1 {
            return;
        }
        let limit = NamespaceLimit { name, num, kind: LimitKind::Dead };
        let rebalance = self.rebalances.of(&limit);
        let is_over = |(at, _): (Instant, bool)| at.elapsed() >= REST_AFTER_NOTHING;
        let is_due = rebalance.last.try_lock().is_ok_and(|last| last.is_none_or(is_over));
        if !is_due {
            // The next rebalance includes this shard.
            rebalance.wanted.lock().entry(shard.0).or_insert(1);
            return;
        }
        let deployment = Arc::clone(self);
        self.router.spawn(async move {
            if let Err(error) = deployment.rebalance(shard, limit).await {
                tracing::debug!(
                    %error,
                    "dead-letter quota not rebalanced; the next poll of the lanes tries again"
                );
            }
        });
    }

    /// Reads the state of all shards and transfers unused quota to those that want more. Returns `true`
    /// if there was any.
    async fn rebalance_once(
        &self,
        limit: &NamespaceLimit,
        wanted: &BTreeMap<u16, u64>,
    ) -> Result<bool> {
        let coordinator = self.coordinator_of(&limit.name);
        let (mut finished, mut swept) = (false, false);
        for _ in 0..ROUNDS {
            let reports = self.reports(limit).await;
            let Some(at_coordinator) = reports.get(&coordinator.0) else {
                return Err(unavailable("the coordinator shard of the namespace does not reply"));
            };
            let Some(at_coordinator) = at_coordinator else {
                // The namespace has ended, unless its record is lost.
                return self.absent(coordinator, &limit.name).await.map(|_| true);
            };
            let is_behind = |report: &Option<QuotaReport>| {
                report.as_ref().is_none_or(|report| report.ver != at_coordinator.ver)
            };
            if !finished && reports.values().any(is_behind) {
                finished = true;
                // A shard that cannot take a raised limit now keeps a smaller quota; the others
                // continue.
                if let Err(error) = self.spread_again(&limit.name).await {
                    tracing::debug!(
                        %error,
                        "present limit not in every shard; rebalancing with those that have it"
                    );
                }
                continue;
            }
            let Some(max) = at_coordinator.max else {
                return Ok(true);
            };
            let here: BTreeMap<u16, &QuotaReport> = reports
                .iter()
                .filter_map(|(shard, report)| Some((*shard, report.as_ref()?)))
                .collect();
            if here.values().any(|report| !report.is_allocated) {
                return self.allocate(limit, max, &here).await;
            }
            let plan = plan::plan_transfers(coordinator.0, self.shards, &here, wanted);
            if plan != TransferPlan::default() {
                return self.carry_out(limit, coordinator, at_coordinator, plan).await;
            }
            // Another rebalance has obtained it in the meantime.
            let has_some = |shard: &u16| here.get(shard).is_some_and(|own| own.quota > own.used);
            if wanted.keys().any(has_some) {
                return Ok(true);
            }
            let unswept = here.iter().filter(|(_, report)| report.has_unswept);
            let unswept: Vec<_> = unswept.map(|(shard, _)| ShardId(*shard)).collect();
            if swept || unswept.is_empty() {
                return Ok(false);
            }
            // What has ended by the clock is no longer used, but that is not written yet.
            swept = true;
            for shard in unswept {
                self.sweep_all(shard).await?;
            }
        }
        Ok(false)
    }

    /// Executes a plan: transfers to the coordinator shard first, and from there on. Returns `true` if
    /// anything moved.
    async fn carry_out(
        &self,
        limit: &NamespaceLimit,
        coordinator: ShardId,
        at_coordinator: &QuotaReport,
        plan: TransferPlan,
    ) -> Result<bool> {
        let allocation = &at_coordinator.allocation;
        let mut announced: BTreeMap<u16, u64> =
            plan.unreceived_by_coordinator.into_iter().collect();
        let sends = plan.to_coordinator.into_iter().map(|(sender, most)| async move {
            let sends = [(coordinator.0, most)];
            (sender, self.transfer(ShardId(sender), limit, allocation, &[], &sends).await)
        });
        for (sender, sent) in at_once(sends).await {
            match sent {
                // Of two totals of one shard the higher is the later one.
                Ok(totals) => {
                    let known = announced.entry(sender).or_default();
                    *known = totals.first().copied().unwrap_or(0).max(*known);
                }
                // It sends nothing, or the next rebalance sees what it sent.
                Err(error) => {
                    tracing::debug!(
                        %error,
                        giver = sender,
                        "shard sends no quota; rebalancing without it"
                    );
                }
            }
        }
        let is_new = |known: &HashMap<u16, u64>, shard: u16, total: u64| {
            total > known.get(&shard).copied().unwrap_or(0)
        };
        let mut moved = !plan.unreceived_from_coordinator.is_empty()
            || announced
                .iter()
                .any(|(sender, total)| is_new(&at_coordinator.received, *sender, *total));
        let announced: Vec<_> = announced.into_iter().collect();
        let totals = self
            .transfer(coordinator, limit, allocation, &announced, &plan.from_coordinator)
            .await?;
        let from_coordinator =
            plan.from_coordinator.iter().map(|(receiver, _)| *receiver).zip(totals);
        let receivers: BTreeMap<u16, u64> =
            plan.unreceived_from_coordinator.into_iter().chain(from_coordinator).collect();
        for (receiver, total) in receivers {
            moved |= is_new(&at_coordinator.sent, receiver, total);
            self.transfer(ShardId(receiver), limit, allocation, &[(coordinator.0, total)], &[])
                .await?;
        }
        Ok(moved)
    }

    /// Makes a shard receive transfers, by the totals that others sent, and send quota that it does not
    /// use. Returns the totals that it sent.
    async fn transfer(
        &self,
        shard: ShardId,
        limit: &NamespaceLimit,
        allocation: &str,
        receives: &[(u16, u64)],
        sends: &[(u16, u64)],
    ) -> Result<Vec<u64>> {
        let mut arguments = limit.arguments();
        arguments.extend([allocation.into(), digits(receives.len())]);
        for (other, amount) in receives.iter().chain(sends) {
            arguments.extend([digits(other), digits(amount)]);
        }
        let mut reply = self.call_script(shard, Script::Transfer, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            // There is a new allocation: earlier transfers do not count.
            "OTHER" => Ok(Vec::new()),
            "OK" => sends.iter().map(|_| reply.number()).collect(),
            other => Err(damaged(format!("unknown reply to a transfer: {other}"))),
        }
    }
}
