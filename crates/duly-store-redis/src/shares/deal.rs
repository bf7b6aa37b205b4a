//! A new allocation of a limit between the shards, after the limit was lowered.

use std::collections::BTreeMap;

use duly_core::shard::ShardId;
use duly_store::Result;

use crate::{
    case::Control,
    change::TRIES,
    deployment::Deployment,
    error::{damaged, unavailable},
    namespaces::CoordinatorState,
    script::Script,
    settings::plain_share,
};

use super::{Kind, Quota, Report};

/// Versions that named the present allocations of a namespace's limits, as its coordinator shard has
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deals {
    pub(crate) pending: String,
    pub(crate) dead: String,
}

impl Deals {
    /// Returns the fields from which the other shards take them.
    pub(crate) fn fields(&self) -> Vec<Vec<u8>> {
        ["@deal_pending", &self.pending, "@deal_dead", &self.dead].map(|text| text.into()).to_vec()
    }
}

impl Deployment {
    /// Returns the allocations of this version of a namespace.
    pub(crate) async fn deals_of(&self, home: ShardId, control: &Control) -> Result<Deals> {
        for _ in 0..TRIES {
            let [pending, dead] = [Kind::Pending, Kind::Dead].map(|kind| async move {
                let quota = Quota { name: control.name.clone(), num: control.num.clone(), kind };
                self.report(home, &quota).await
            });
            if let (Some(pending), Some(dead)) = (pending.await?, dead.await?)
                && pending.ver == dead.ver
            {
                if pending.ver != control.ver {
                    break;
                }
                return Ok(Deals { pending: pending.deal, dead: dead.deal });
            }
        }
        Err(unavailable("the namespace is being changed by another call"))
    }

    /// Allocates the limits that a change has lowered. If that fails, the next refused call does it.
    pub(crate) async fn deal_lowered(
        &self,
        CoordinatorState { control, deals }: &CoordinatorState,
    ) {
        for (kind, deal) in [(Kind::Pending, &deals.pending), (Kind::Dead, &deals.dead)] {
            if *deal != control.ver {
                continue;
            }
            let quota = Quota { name: control.name.clone(), num: control.num.clone(), kind };
            if let Err(error) = self.gather(&quota, &BTreeMap::new()).await {
                tracing::debug!(%error, "the shares of a limit are not dealt yet");
            }
        }
    }

    /// Allocates a limit of `max`, as far as that is not done. Returns `true` if there is anything to
    /// allocate.
    pub(super) async fn deal(
        &self,
        quota: &Quota,
        max: u64,
        reports: &BTreeMap<u16, &Report>,
    ) -> Result<bool> {
        let home = self.home(&quota.name);
        let Some(at_home) = reports.get(&home.0) else {
            return Ok(false);
        };
        let settled = match &at_home.settled {
            Some(settled) => settled.clone(),
            None => {
                let used = counted(at_home, reports.values().copied());
                if used.len() < usize::from(self.shards) {
                    if self.is_lost(quota, at_home, reports).await? {
                        self.deal_anew(&quota.name).await?;
                        return Ok(true);
                    }
                    return Err(unavailable(format!(
                        "a limit of the namespace was changed, and {} of {} shards have taken that",
                        used.len(),
                        self.shards
                    )));
                }
                let Some(dealt) = portions(max, &used) else {
                    return Ok(false);
                };
                let written =
                    self.written(home, quota, &at_home.deal, &at_home.ver, &dealt).await?;
                let Some(settled) = written else {
                    return Ok(true);
                };
                settled
            }
        };
        let portions: Vec<&str> = settled.split(' ').collect();
        for (shard, report) in reports {
            let portion = portions.get(usize::from(*shard));
            let portion = portion.ok_or_else(|| damaged(format!("a deal {settled:?}")))?;
            if !report.is_dealt {
                self.written(ShardId(*shard), quota, &at_home.deal, "", portion).await?;
            }
        }
        Ok(true)
    }

    /// Returns `true` if the coordinator shard has lost what it had settled: another shard was allocated
    /// quota of it. The coordinator shard is asked once more, as it may have settled it since its
    /// report.
    async fn is_lost(
        &self,
        quota: &Quota,
        at_home: &Report,
        reports: &BTreeMap<u16, &Report>,
    ) -> Result<bool> {
        let is_dealt = |report: &&&Report| report.is_dealt && report.deal == at_home.deal;
        if !reports.values().any(|report| is_dealt(&report)) {
            return Ok(false);
        }
        let now = self.report(self.home(&quota.name), quota).await?;
        Ok(now
            .is_some_and(|now| now.deal == at_home.deal && now.settled.is_none() && !now.is_dealt))
    }

    /// Writes an allocation. Returns what is settled, or `None` if there is another allocation by now.
    pub(super) async fn written(
        &self,
        shard: ShardId,
        quota: &Quota,
        deal: &str,
        ver: &str,
        portion: &str,
    ) -> Result<Option<String>> {
        let mut arguments = quota.arguments();
        arguments.extend([deal.into(), ver.into(), portion.into()]);
        let mut reply = self.ask(shard, Script::Deal, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            "OTHER" => Ok(None),
            "DONE" => reply.text().map(Some),
            other => Err(damaged(format!("a deal was answered with {other}"))),
        }
    }
}

/// Returns the use of the shards whose use counts. A shard with another version may still use more, and
/// so may one that has its new quota. All shards must be counted before anything is allocated.
pub(super) fn counted<'a>(at_home: &Report, reports: impl Iterator<Item = &'a Report>) -> Vec<u64> {
    let is_counted = |report: &&Report| {
        !report.is_dealt && (&report.ver, &report.deal) == (&at_home.ver, &at_home.deal)
    };
    reports.filter(is_counted).map(|report| report.used).collect()
}

/// Returns what each shard gets beyond its even split of `max`: then it has its use, and its even split
/// of the rest. Returns `None` if there is no rest.
pub(super) fn portions(max: u64, used: &[u64]) -> Option<String> {
    let rest = max.checked_sub(used.iter().sum()).filter(|rest| *rest > 0)?;
    let shards = used.len() as u64;
    let portions: Vec<String> = (0..shards)
        .zip(used)
        .map(|(shard, used)| {
            let has = used + plain_share(rest, shard, shards);
            (i128::from(has) - i128::from(plain_share(max, shard, shards))).to_string()
        })
        .collect();
    Some(portions.join(" "))
}

#[cfg(test)]
mod tests;
