//! Plans a rebalance: which shards send quota, and which receive it. Pure.
//!
//! 1. A short shard gets what it lacks, and in addition the average that all shards would have left.
//! 2. A sender keeps that average if possible. Shards with the most unused quota send first.
//! 3. So a shard that takes many timers at once needs only a few rebalances, and the rest stays evenly
//!    spread.

use std::{cmp::Reverse, collections::BTreeMap};

use super::QuotaReport;

/// The transfers of a rebalance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TransferPlan {
    /// Transfers to the coordinator shard that it has not received yet: sending shard, total.
    pub(super) unreceived_by_coordinator: Vec<(u16, u64)>,
    /// Transfers of the coordinator shard that have not been received yet: receiving shard, total.
    pub(super) unreceived_from_coordinator: Vec<(u16, u64)>,
    /// New transfers to the coordinator shard: sending shard, most.
    pub(super) to_coordinator: Vec<(u16, u64)>,
    /// New transfers of the coordinator shard: receiving shard, most.
    pub(super) from_coordinator: Vec<(u16, u64)>,
}

/// Plans transfers to the shards that want more, from the reports of shards that are all allocated.
pub(super) fn plan_transfers(
    coordinator: u16,
    shards: u16,
    reports: &BTreeMap<u16, &QuotaReport>,
    wanted: &BTreeMap<u16, u64>,
) -> TransferPlan {
    let mut plan = TransferPlan::default();
    let Some(at_coordinator) = reports.get(&coordinator) else {
        return plan;
    };
    // Transfers under way count as received.
    let mut coming: BTreeMap<u16, u64> = BTreeMap::new();
    let total = |of: Option<&u64>| of.copied().unwrap_or(0);
    for (shard, report) in reports.iter().filter(|(shard, _)| **shard != coordinator) {
        if report.allocation != at_coordinator.allocation {
            continue;
        }
        let (sent, received) =
            (total(report.sent.get(&coordinator)), total(at_coordinator.received.get(shard)));
        if sent > received {
            plan.unreceived_by_coordinator.push((*shard, sent));
            *coming.entry(coordinator).or_default() += sent - received;
        }
        let (sent, received) =
            (total(at_coordinator.sent.get(shard)), total(report.received.get(&coordinator)));
        if sent > received {
            plan.unreceived_from_coordinator.push((*shard, sent));
            *coming.entry(*shard).or_default() += sent - received;
        }
    }
    let quota_of = |shard: u16, report: &QuotaReport| report.quota + total(coming.get(&shard));
    let short: Vec<(u16, u64)> = wanted
        .iter()
        .filter_map(|(shard, want)| {
            let report = reports.get(shard)?;
            let lacks = (report.used + want).saturating_sub(quota_of(*shard, report));
            (lacks > 0).then_some((*shard, lacks))
        })
        .collect();
    let is_short = |shard: u16| short.iter().any(|(own, _)| *own == shard);
    let mut unused: Vec<(u16, u64)> = reports
        .iter()
        .filter(|(shard, report)| {
            !is_short(**shard) && report.allocation == at_coordinator.allocation
        })
        .map(|(shard, report)| (*shard, quota_of(*shard, report).saturating_sub(report.used)))
        .collect();
    unused.sort_by_key(|(shard, unused)| (Reverse(*unused), *shard));
    let free: u64 = unused.iter().map(|(_, unused)| unused).sum();
    let lacking: u64 = short.iter().map(|(_, lacks)| lacks).sum();
    let spare = free.saturating_sub(lacking) / u64::from(shards.max(1));
    let mut got = 0;
    let mut to_get = (lacking + spare * short.len() as u64).min(free);
    for keep in [spare, 0] {
        for (shard, unused) in &mut unused {
            let transfer = unused.saturating_sub(keep).min(to_get);
            if transfer == 0 {
                continue;
            }
            *unused -= transfer;
            to_get -= transfer;
            got += transfer;
            // The coordinator shard passes on what it does not use; it sends nothing to itself.
            if *shard != coordinator {
                plan.to_coordinator.push((*shard, transfer));
            }
        }
    }
    for (shard, lacks) in short {
        let amount = (lacks + spare).min(got);
        got -= amount;
        if amount > 0 && shard != coordinator {
            plan.from_coordinator.push((shard, amount));
        }
    }
    plan
}

#[cfg(test)]
mod tests;
