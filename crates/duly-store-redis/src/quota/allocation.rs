//! Reports of the shards about a limit, and a new allocation of it after it was lowered.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use duly_core::shard::ShardId;
use duly_store::Result;

use crate::{
    change::{TRIES, at_once},
    deployment::Deployment,
    error::{damaged, unavailable},
    namespaces::CoordinatorState,
    row::Control,
    script::Script,
    settings::even_split,
};

use super::{LimitKind, NamespaceLimit};

/// Longest wait for the report of a shard; the rebalance goes on without it.
const REPORT_WITHIN: Duration = Duration::from_secs(2);

/// Report of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuotaReport {
    pub(super) ver: String,
    pub(super) allocation: String,
    pub(super) is_allocated: bool,
    /// The whole limit; `None`: there is no limit.
    pub(super) max: Option<u64>,
    pub(super) quota: u64,
    pub(super) used: u64,
    /// `true`: something has ended by the clock and still counts as used.
    pub(super) has_unswept: bool,
    /// Totals that were sent to other shards in this allocation, and received from them.
    pub(super) sent: HashMap<u16, u64>,
    pub(super) received: HashMap<u16, u64>,
    /// The amounts that the coordinator shard has settled for all shards in this allocation.
    pub(super) settled: Option<String>,
}

/// Versions that named the present allocations of a namespace's limits, as its coordinator shard has
/// them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allocations {
    pub(crate) pending: String,
    pub(crate) dead: String,
}

impl Allocations {
    /// Returns the fields from which the other shards take them.
    pub(crate) fn fields(&self) -> Vec<Vec<u8>> {
        ["@deal_pending", &self.pending, "@deal_dead", &self.dead].map(|text| text.into()).to_vec()
    }
}

impl Deployment {
    /// Asks all shards. Shards that do not reply are left out; a shard without the namespace has `None`.
    pub(super) async fn reports(
        &self,
        limit: &NamespaceLimit,
    ) -> BTreeMap<u16, Option<QuotaReport>> {
        let asked = (0..self.shards).map(ShardId).map(|shard| async move {
            let report = tokio::time::timeout(REPORT_WITHIN, self.report(shard, limit)).await;
            (shard.0, report.unwrap_or_else(|_| Err(unavailable("no reply yet"))))
        });
        let reports = at_once(asked).await.into_iter().filter_map(|(shard, report)| match report {
            Ok(report) => Some((shard, report)),
            Err(error) => {
                tracing::debug!(
                    %error,
                    shard,
                    "shard does not report its quota; rebalancing without it"
                );
                None
            }
        });
        reports.collect()
    }

    pub(super) async fn report(
        &self,
        shard: ShardId,
        limit: &NamespaceLimit,
    ) -> Result<Option<QuotaReport>> {
        let mut reply = self.call_script(shard, Script::QuotaReport, limit.arguments()).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        if word == "NONE" {
            return Ok(None);
        }
        let mut report = QuotaReport {
            ver: reply.text()?,
            allocation: reply.text()?,
            is_allocated: reply.flag()?,
            max: reply.maybe_number()?,
            quota: reply.number()?,
            used: reply.number()?,
            has_unswept: reply.flag()?,
            sent: HashMap::new(),
            received: HashMap::new(),
            settled: None,
        };
        while !reply.is_done() {
            let (field, value) = (reply.text()?, reply.text()?);
            if field == "=" {
                report.settled = Some(value);
                continue;
            }
            let strange = || damaged(format!("unknown transfer total {field} = {value}"));
            let totals = match field.get(..1) {
                Some(">") => &mut report.sent,
                Some("<") => &mut report.received,
                _ => return Err(strange()),
            };
            let other = field[1..].parse().map_err(|_| strange())?;
            totals.insert(other, value.parse().map_err(|_| strange())?);
        }
        Ok(Some(report))
    }

    /// Returns the allocations of this version of a namespace.
    pub(crate) async fn allocations_of(&self, control: &Control) -> Result<Allocations> {
        let coordinator = self.coordinator_of(&control.name);
        for _ in 0..TRIES {
            let [pending, dead] = LimitKind::ALL.map(|kind| async move {
                self.report(coordinator, &NamespaceLimit::of(control, kind)).await
            });
            if let (Some(pending), Some(dead)) = (pending.await?, dead.await?)
                && pending.ver == dead.ver
            {
                if pending.ver != control.ver {
                    break;
                }
                return Ok(Allocations { pending: pending.allocation, dead: dead.allocation });
            }
        }
        Err(unavailable("the namespace is being changed by another call"))
    }

    /// Allocates the limits that a change has lowered. If that fails, the next refused call does it.
    pub(crate) async fn allocate_lowered(
        &self,
        CoordinatorState { control, allocations }: &CoordinatorState,
    ) {
        for (kind, allocation) in
            [(LimitKind::Pending, &allocations.pending), (LimitKind::Dead, &allocations.dead)]
        {
            if *allocation != control.ver {
                continue;
            }
            let limit = NamespaceLimit::of(control, kind);
            if let Err(error) = self.rebalance_once(&limit, &BTreeMap::new()).await {
                tracing::debug!(
                    %error,
                    "limit not allocated yet; the next refused call tries again"
                );
            }
        }
    }

    /// Allocates a limit of `max`, as far as that is not done. Returns `true` if there is anything to
    /// allocate.
    pub(super) async fn allocate(
        &self,
        limit: &NamespaceLimit,
        max: u64,
        reports: &BTreeMap<u16, &QuotaReport>,
    ) -> Result<bool> {
        let coordinator = self.coordinator_of(&limit.name);
        let Some(at_coordinator) = reports.get(&coordinator.0) else {
            return Ok(false);
        };
        let QuotaReport { allocation, ver, .. } = at_coordinator;
        let settled = match &at_coordinator.settled {
            Some(settled) => settled.clone(),
            None => {
                let used = counted(at_coordinator, reports.values().copied());
                if used.len() < usize::from(self.shards) {
                    if self.is_lost(limit, at_coordinator, reports).await? {
                        self.reallocate(&limit.name).await?;
                        return Ok(true);
                    }
                    return Err(unavailable(format!(
                        "a limit of the namespace was changed, and {} of {} shards have the change",
                        used.len(),
                        self.shards
                    )));
                }
                let Some(amounts) = split_limit(max, &used) else {
                    return Ok(false);
                };
                let written =
                    self.write_allocation(coordinator, limit, allocation, ver, &amounts).await?;
                let Some(settled) = written else {
                    return Ok(true);
                };
                settled
            }
        };
        let amounts: Vec<&str> = settled.split(' ').collect();
        for (shard, report) in reports {
            let amount = amounts.get(usize::from(*shard));
            let amount = amount
                .ok_or_else(|| damaged(format!("an allocation without this shard: {settled:?}")))?;
            if !report.is_allocated {
                self.write_allocation(ShardId(*shard), limit, allocation, "", amount).await?;
            }
        }
        Ok(true)
    }

    /// Returns `true` if the coordinator shard has lost what it had settled: another shard was allocated
    /// quota of it. The coordinator shard is asked once more, as it may have settled it since its
    /// report.
    async fn is_lost(
        &self,
        limit: &NamespaceLimit,
        at_coordinator: &QuotaReport,
        reports: &BTreeMap<u16, &QuotaReport>,
    ) -> Result<bool> {
        let is_allocated = |report: &&&QuotaReport| {
            report.is_allocated && report.allocation == at_coordinator.allocation
        };
        if !reports.values().any(|report| is_allocated(&report)) {
            return Ok(false);
        }
        let now = self.report(self.coordinator_of(&limit.name), limit).await?;
        Ok(now.is_some_and(|now| {
            now.allocation == at_coordinator.allocation
                && now.settled.is_none()
                && !now.is_allocated
        }))
    }

    /// Writes an allocation. Returns what is settled, or `None` if there is another allocation by now.
    pub(super) async fn write_allocation(
        &self,
        shard: ShardId,
        limit: &NamespaceLimit,
        allocation: &str,
        ver: &str,
        amount: &str,
    ) -> Result<Option<String>> {
        let mut arguments = limit.arguments();
        arguments.extend([allocation.into(), ver.into(), amount.into()]);
        let mut reply = self.call_script(shard, Script::AllocateQuotas, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            "OTHER" => Ok(None),
            "DONE" => reply.text().map(Some),
            other => Err(damaged(format!("unknown reply to an allocation: {other}"))),
        }
    }
}

/// Returns the use of the shards whose use counts. A shard with another version may still use more, and
/// so may one that has its new quota. All shards must be counted before anything is allocated.
pub(super) fn counted<'a>(
    at_coordinator: &QuotaReport,
    reports: impl Iterator<Item = &'a QuotaReport>,
) -> Vec<u64> {
    let is_counted = |report: &&QuotaReport| {
        !report.is_allocated
            && (&report.ver, &report.allocation)
                == (&at_coordinator.ver, &at_coordinator.allocation)
    };
    reports.filter(is_counted).map(|report| report.used).collect()
}

/// Returns what each shard gets beyond its even split of `max`: then it has its use, and its even split
/// of the rest. Returns `None` if there is no rest.
pub(super) fn split_limit(max: u64, used: &[u64]) -> Option<String> {
    let rest = max.checked_sub(used.iter().sum()).filter(|rest| *rest > 0)?;
    let shards = used.len() as u64;
    let amounts: Vec<String> = (0..shards)
        .zip(used)
        .map(|(shard, used)| {
            let has = used + even_split(rest, shard, shards);
            (i128::from(has) - i128::from(even_split(max, shard, shards))).to_string()
        })
        .collect();
    Some(amounts.join(" "))
}

#[cfg(test)]
mod tests;
