//! Limits that all shards keep together: `max_pending` and `max_dead`.
//!
//! No script spans two shards, so each shard has a *quota* of the limit (`allowance` in code), and is
//! full when it has used it. The quota begins with the even split of the limit. Before a full shard
//! refuses anything, the node *rebalances*: it reads the state of all shards, some shards transfer
//! unused quota to the namespace's coordinator shard, which transfers it on to the shards that need
//! it. So a limit is never exceeded. A call below the limit is refused only within a second after a
//! rebalance that found nothing.
//!
//! ```text
//!   shard ── sent 7 in total ──► coordinator shard ── sent you 4 in total ──► full shard
//!     '>coordinator' = 7         '<shard' = 7   '>full' = 4         '<coordinator' = 4
//! ```
//!
//! **Transfers** are safe against lost, late and repeated calls (`scripts/move.lua`, `plan.rs`):
//!
//! 1. Between a shard and the coordinator shard only running totals are announced, and only those of the
//!    sender.
//! 2. Sending lowers the quota and raises the sent total, in one script.
//! 3. Receiving raises the quota by the difference between the announced total and the last one
//!    received.
//! 4. Totals only grow, so the same total again, or an older one, has no effect. No shard receives what
//!    was not sent: the quotas and the transfers under way always add up to the limit.
//! 5. A lost transfer is detected by the next rebalance (sent total > received total) and applied then.
//!    Nothing has to be cleaned up.
//!
//! **A change of the limit** moves no quota back. The quota is the even split of the *present* limit
//! plus the sum of the transfers:
//!
//! 6. A higher limit gives every shard more at once, and transfers under way stay valid.
//! 7. A lower limit could leave one shard below zero while another keeps what it received. So it begins
//!    a new *allocation* (`deal` in code), named by the version that lowered the limit. A shard that
//!    takes this version has no quota and forgets its transfers. Transfers of another allocation are not
//!    received.
//! 8. Once all shards have taken the version, their use is counted; it cannot grow in the meantime. If
//!    it is below the limit, the coordinator shard settles once what each shard gets: its use, and its
//!    even split of the rest. Each shard takes that once.
//! 9. While the use is not below the limit, nothing is allocated and all shards refuse.
//! 10. The call that changes the limit does the allocation. If it stops before that, the next refused
//!     call does it.
//! 11. If the coordinator shard has lost what it settled, or a change that other shards took, a new
//!     allocation begins (`scripts/put.lua`, `deal.rs`).
//!
//! Limitations:
//!
//! * A failover can lose a transfer after it was received. `Options::min_replicas` makes that rare.
//! * Redrives are not counted; one shard does not refuse them either.
//! * A shard without a dead letter claims even without a quota. Otherwise a limit smaller than the
//!   number of shards would stop most of them. Firings under way may become dead letters past the limit.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::Result;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    case::Control,
    change::digits,
    deployment::{Deployment, KNOWN_MAX},
    error::{damaged, unavailable},
    script::Script,
};

mod deal;
mod plan;
mod report;
#[cfg(test)]
mod tests;

pub(crate) use deal::Deals;
use plan::Plan;
use report::Report;

/// Time without a rebalance after one that found nothing.
const REST: Duration = Duration::from_secs(1);
/// Least time between rebalances that found something.
const PAUSE: Duration = Duration::from_millis(20);
/// Most rounds of one rebalance: a round that finishes a change or sweeps is followed by another.
const LOOKS: usize = 4;
/// Shards that are asked at the same time.
const SHARDS_AT_ONCE: usize = 64;

/// A limit that the shards keep together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Pending,
    Dead,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dead => "dead",
        }
    }
}

/// One limit of one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Quota {
    name: NamespaceName,
    num: String,
    kind: Kind,
}

impl Quota {
    fn arguments(&self) -> Vec<Vec<u8>> {
        [self.name.as_str(), &self.num, self.kind.as_str()].map(|text| text.into()).to_vec()
    }
}

/// Rebalances of this node, at most one at a time for each limit.
#[derive(Debug, Default)]
pub(crate) struct Rebalances(Mutex<HashMap<Quota, Arc<CallIn>>>);

impl Rebalances {
    fn of(&self, quota: &Quota) -> Arc<CallIn> {
        let mut all = self.0.lock();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        Arc::clone(all.entry(quota.clone()).or_default())
    }
}

#[derive(Debug, Default)]
struct CallIn {
    /// Additional quota that each shard wants.
    wanted: Mutex<BTreeMap<u16, u64>>,
    turn: tokio::sync::Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    /// Time when the last rebalance ended; `true`: it found something.
    last: Option<(Instant, bool)>,
}

impl Turn {
    /// Returns `true` if a recent rebalance found nothing.
    fn rests(&self) -> bool {
        self.last.is_some_and(|(at, found)| !found && at.elapsed() < REST)
    }
}

impl Deployment {
    /// Rebalances: obtains quota that other shards do not use, for one more. Returns `true` if the
    /// caller should try again; `false` if there was none.
    pub(crate) async fn call_in(
        &self,
        shard: ShardId,
        control: &Control,
        kind: Kind,
    ) -> Result<bool> {
        let quota = Quota { name: control.name.clone(), num: control.num.clone(), kind };
        self.call_in_quota(shard, quota).await
    }

    async fn call_in_quota(&self, shard: ShardId, quota: Quota) -> Result<bool> {
        if self.shards == 1 {
            return Ok(false);
        }
        let call_in = self.call_ins.of(&quota);
        *call_in.wanted.lock().entry(shard.0).or_default() += 1;
        let mut turn = call_in.turn.lock().await;
        if !call_in.wanted.lock().contains_key(&shard.0) {
            // Another call rebalanced for all that were waiting.
            return Ok(!turn.rests());
        }
        if turn.rests() {
            call_in.wanted.lock().remove(&shard.0);
            return Ok(false);
        }
        if let Some((at, _)) = turn.last {
            tokio::time::sleep_until(at + PAUSE).await;
        }
        let wanted = std::mem::take(&mut *call_in.wanted.lock());
        let found = self.gather(&quota, &wanted).await?;
        turn.last = Some((Instant::now(), found));
        Ok(found)
    }

    /// Rebalances the dead-letter limit of a namespace that stalls in a shard because its quota is used
    /// up. Runs in the background and at most once a second.
    pub(crate) fn call_in_letters(self: &Arc<Self>, shard: ShardId, name: &str, num: String) {
        let Ok(name) = NamespaceName::new(name) else { return };
        if self.shards == 1 {
            return;
        }
        let quota = Quota { name, num, kind: Kind::Dead };
        let call_in = self.call_ins.of(&quota);
        let lately = |turn: &Turn| turn.last.is_some_and(|(at, _)| at.elapsed() < REST);
        let is_due = call_in.turn.try_lock().is_ok_and(|turn| !lately(&turn));
        if !is_due {
            // The next rebalance includes this shard.
            call_in.wanted.lock().entry(shard.0).or_insert(1);
            return;
        }
        let deployment = Arc::clone(self);
        self.router.spawn(async move {
            if let Err(error) = deployment.call_in_quota(shard, quota).await {
                tracing::debug!(%error, "room for dead letters is not called in");
            }
        });
    }

    /// Reads the state of all shards and transfers unused quota to those that want more. Returns `true`
    /// if there was any.
    async fn gather(&self, quota: &Quota, wanted: &BTreeMap<u16, u64>) -> Result<bool> {
        let home = self.home(&quota.name);
        let (mut finished, mut swept) = (false, false);
        for _ in 0..LOOKS {
            let reports = self.reports(quota).await?;
            let Some(at_home) = reports.get(&home.0) else {
                return Err(unavailable("the home of the namespace does not answer"));
            };
            let Some(at_home) = at_home else {
                // The namespace has ended, unless its record is lost.
                return self.absent(home, &quota.name).await.map(|_| true);
            };
            let is_behind = |report: &Option<Report>| {
                report.as_ref().is_none_or(|report| report.ver != at_home.ver)
            };
            if !finished && reports.values().any(is_behind) {
                finished = true;
                // A shard that cannot take a raised limit now keeps a smaller quota; the others
                // continue.
                if let Err(error) = self.finish(home, &format!("put\0{}", quota.name)).await {
                    tracing::debug!(%error, "not every shard has the present limit");
                }
                continue;
            }
            let Some(max) = at_home.max else {
                return Ok(true);
            };
            let here: BTreeMap<u16, &Report> = reports
                .iter()
                .filter_map(|(shard, report)| Some((*shard, report.as_ref()?)))
                .collect();
            if here.values().any(|report| !report.is_dealt) {
                return self.deal(quota, max, &here).await;
            }
            let plan = plan::plan(home.0, self.shards, &here, wanted);
            if !plan.is_empty() {
                return self.carry_out(quota, home, at_home, plan).await;
            }
            // Another rebalance has obtained it in the meantime.
            let has_some =
                |shard: &u16| here.get(shard).is_some_and(|own| own.allowance > own.used);
            if wanted.keys().any(has_some) {
                return Ok(true);
            }
            let owing = here.iter().filter(|(_, report)| report.owes);
            let owing: Vec<_> = owing.map(|(shard, _)| ShardId(*shard)).collect();
            if swept || owing.is_empty() {
                return Ok(false);
            }
            // What has ended by the clock is no longer used, but that is not written yet.
            swept = true;
            for shard in owing {
                self.sweep_all(shard).await?;
            }
        }
        Ok(false)
    }

    /// Executes a plan: transfers to the coordinator shard first, and from there on. Returns `true` if
    /// anything moved.
    async fn carry_out(
        &self,
        quota: &Quota,
        home: ShardId,
        at_home: &Report,
        plan: Plan,
    ) -> Result<bool> {
        let deal = &at_home.deal;
        let mut told: BTreeMap<u16, u64> = plan.told_home.into_iter().collect();
        let gifts = stream::iter(plan.gifts).map(|(giver, most)| async move {
            (giver, self.shift(ShardId(giver), quota, deal, &[], &[(home.0, most)]).await)
        });
        let mut gifts = gifts.buffer_unordered(SHARDS_AT_ONCE);
        while let Some((giver, given)) = gifts.next().await {
            match given {
                // Of two totals of one shard the higher is the later one.
                Ok(totals) => {
                    let known = told.entry(giver).or_default();
                    *known = totals.first().copied().unwrap_or(0).max(*known);
                }
                // It sends nothing, or the next rebalance sees what it sent.
                Err(error) => tracing::debug!(%error, giver, "a shard gives nothing"),
            }
        }
        let is_news = |known: &HashMap<u16, u64>, shard: u16, total: u64| {
            total > known.get(&shard).copied().unwrap_or(0)
        };
        let mut moved = !plan.told_others.is_empty()
            || told.iter().any(|(giver, total)| is_news(&at_home.taken, *giver, *total));
        let told: Vec<_> = told.into_iter().collect();
        let totals = self.shift(home, quota, deal, &told, &plan.onward).await?;
        let onward = plan.onward.iter().map(|(taker, _)| *taker).zip(totals);
        let takers: BTreeMap<u16, u64> = plan.told_others.into_iter().chain(onward).collect();
        for (taker, total) in takers {
            moved |= is_news(&at_home.given, taker, total);
            self.shift(ShardId(taker), quota, deal, &[(home.0, total)], &[]).await?;
        }
        Ok(moved)
    }

    /// Makes a shard receive transfers, by the totals that others sent, and send quota that it does not
    /// use. Returns the totals that it sent.
    async fn shift(
        &self,
        shard: ShardId,
        quota: &Quota,
        deal: &str,
        takes: &[(u16, u64)],
        gifts: &[(u16, u64)],
    ) -> Result<Vec<u64>> {
        let mut arguments = quota.arguments();
        arguments.extend([deal.into(), digits(takes.len())]);
        for (other, amount) in takes.iter().chain(gifts) {
            arguments.extend([digits(other), digits(amount)]);
        }
        let mut reply = self.ask(shard, Script::Move, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            // There is a new allocation: earlier transfers do not count.
            "OTHER" => Ok(Vec::new()),
            "OK" => gifts.iter().map(|_| reply.number()).collect(),
            other => Err(damaged(format!("a move was answered with {other}"))),
        }
    }
}
