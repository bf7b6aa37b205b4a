//! Limits that all shards keep together: `max_pending` and `max_dead`.
//!
//! No step spans two shards, so each has an *allowance*, and is full when it uses as much. It begins
//! with a plain share of the limit. Before anything is refused in a shard that is full, what other
//! shards do not use is called in: all are looked at, some give to the home, the home gives to those
//! that are short. So a limit is never exceeded, and refused below it only within a second after a
//! call-in that found nothing.
//!
//! ```text
//!   shard ── has given 7 so far ──► home ── has given you 4 so far ──► shard that is full
//!      '>home' = 7        '<shard' = 7   '>full' = 4          '<home' = 4
//! ```
//!
//! **Why no call that is lost, late or repeated does harm.** Between a shard and the home only totals
//! are told, and only by who gives. Giving lowers the allowance and raises the total in one script;
//! taking raises the allowance by what the total is above the last one that was taken. Totals only
//! grow, so the same total again, or an older one, brings nothing, and no shard takes what was not
//! given: allowances and what is between shards add up to the limit, always. A gift that never came is
//! seen by whoever calls in next, as a total that was told and not taken, and is taken then. Nobody
//! has to clean up. (`scripts/move.lua`, `plan.rs`)
//!
//! **When the limit changes** no share moves back. The allowance is the plain share of the *present*
//! limit and what moved, so a higher limit gives every shard more where it stands, and what is
//! on its way stays good. A lower limit could leave a shard below nothing while another keeps what it
//! got. So it begins a new *deal*, named by the version that lowered it: whoever takes that version
//! has no allowance and forgets what moved, and gifts of another deal are not taken. Once all have,
//! what they use is counted, which cannot grow meanwhile. If it is less than the limit, the home
//! settles once what each gets: what it uses, and a plain share of the rest. Everybody takes that once.
//! As long as more is used than the limit allows nothing is dealt and all refuse. The change itself
//! deals; should it die, whoever is refused does. A home that has lost what it settled, or a change that
//! others took, begins another deal. (`scripts/put.lua`, `deal.rs`)
//!
//! What this does not stand: a failover that loses a gift after it was taken (`Options::min_replicas`
//! is for that). Not counted are redrives, which one shard does not refuse either. A shard without a
//! dead letter goes on claiming even without an allowance, else a limit smaller than the number of
//! shards would stop most of them, and firings under way may die past the limit.

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

/// How long nothing is called in after a call-in that found nothing.
const REST: Duration = Duration::from_secs(1);
/// How long call-ins that found something are apart.
const PAUSE: Duration = Duration::from_millis(20);
/// How often one call-in looks again, after clearing away what kept it from moving anything.
const LOOKS: usize = 4;
/// Shards that are asked at once.
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

/// Call-ins of this node, one at a time for each limit.
#[derive(Debug, Default)]
pub(crate) struct CallIns(Mutex<HashMap<Quota, Arc<CallIn>>>);

impl CallIns {
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
    /// How much more each shard wants.
    wanted: Mutex<BTreeMap<u16, u64>>,
    turn: tokio::sync::Mutex<Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    /// When the last one ended, and whether it found something.
    last: Option<(Instant, bool)>,
}

impl Turn {
    /// Whether the last one found nothing a short while ago.
    fn rests(&self) -> bool {
        self.last.is_some_and(|(at, found)| !found && at.elapsed() < REST)
    }
}

impl Deployment {
    /// Calls in one more of what other shards do not use. Answers whether to try again: with `false`
    /// there was nothing.
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
            // Somebody called in for all who were waiting.
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

    /// Calls in room for a dead letter of a namespace that stands still in a shard for want of it, in
    /// the background and at most once a second.
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
            // Whoever is at it, or was a moment ago, hears of this shard next time.
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

    /// Looks at all shards and brings what is unused to those that want more. Answers whether there
    /// was anything.
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
                // Who cannot take a raised limit now has a smaller one, and the others do without.
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
            // Somebody has called in for it meanwhile.
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
            // What has ended by the clock is used no more, and nobody has written that yet.
            swept = true;
            for shard in owing {
                self.sweep_all(shard).await?;
            }
        }
        Ok(false)
    }

    /// Moves what is to be moved: to the home first, and from there on. Answers whether anything did.
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
                // It gives nothing, or is seen to have given next time.
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

    /// Has a shard take what others gave, by their totals, and give what it does not use; answers the
    /// totals of what it gave.
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
            // The shares are dealt anew: what moved before is nothing now.
            "OTHER" => Ok(Vec::new()),
            "OK" => gifts.iter().map(|_| reply.number()).collect(),
            other => Err(damaged(format!("a move was answered with {other}"))),
        }
    }
}
