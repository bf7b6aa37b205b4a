//! Plans a rebalance: which shards send quota, and which receive it. Pure.
//!
//! 1. A short shard gets what it lacks, and in addition the average that all shards would have left.
//! 2. A sender keeps that average if possible. Shards with the most unused quota send first.
//! 3. So a shard that takes many timers at once needs only a few rebalances, and the rest stays evenly
//!    spread.

use std::{cmp::Reverse, collections::BTreeMap};

use super::Report;

/// The transfers of a rebalance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Transfers to the coordinator shard that it has not received yet: sending shard, total.
    pub(super) told_home: Vec<(u16, u64)>,
    /// Transfers of the coordinator shard that have not been received yet: receiving shard, total.
    pub(super) told_others: Vec<(u16, u64)>,
    /// New transfers to the coordinator shard: sending shard, most.
    pub(super) gifts: Vec<(u16, u64)>,
    /// New transfers of the coordinator shard: receiving shard, most.
    pub(super) onward: Vec<(u16, u64)>,
}

impl Plan {
    pub(super) const fn is_empty(&self) -> bool {
        self.told_home.is_empty()
            && self.told_others.is_empty()
            && self.gifts.is_empty()
            && self.onward.is_empty()
    }
}

/// Plans transfers to the shards that want more, from the reports of shards that are all allocated.
pub(super) fn plan(
    home: u16,
    shards: u16,
    reports: &BTreeMap<u16, &Report>,
    wanted: &BTreeMap<u16, u64>,
) -> Plan {
    let mut plan = Plan::default();
    let Some(at_home) = reports.get(&home) else {
        return plan;
    };
    // Transfers under way count as received.
    let mut coming: BTreeMap<u16, u64> = BTreeMap::new();
    let total = |of: Option<&u64>| of.copied().unwrap_or(0);
    for (shard, report) in reports.iter().filter(|(shard, _)| **shard != home) {
        if report.deal != at_home.deal {
            continue;
        }
        let (given, taken) = (total(report.given.get(&home)), total(at_home.taken.get(shard)));
        if given > taken {
            plan.told_home.push((*shard, given));
            *coming.entry(home).or_default() += given - taken;
        }
        let (given, taken) = (total(at_home.given.get(shard)), total(report.taken.get(&home)));
        if given > taken {
            plan.told_others.push((*shard, given));
            *coming.entry(*shard).or_default() += given - taken;
        }
    }
    let allowance = |shard: u16, report: &Report| report.allowance + total(coming.get(&shard));
    let short: Vec<(u16, u64)> = wanted
        .iter()
        .filter_map(|(shard, want)| {
            let report = reports.get(shard)?;
            let lacks = (report.used + want).saturating_sub(allowance(*shard, report));
            (lacks > 0).then_some((*shard, lacks))
        })
        .collect();
    let is_short = |shard: u16| short.iter().any(|(own, _)| *own == shard);
    let mut unused: Vec<(u16, u64)> = reports
        .iter()
        .filter(|(shard, report)| !is_short(**shard) && report.deal == at_home.deal)
        .map(|(shard, report)| (*shard, allowance(*shard, report).saturating_sub(report.used)))
        .collect();
    unused.sort_by_key(|(shard, unused)| (Reverse(*unused), *shard));
    let free: u64 = unused.iter().map(|(_, unused)| unused).sum();
    let lacking: u64 = short.iter().map(|(_, lacks)| lacks).sum();
    let spare = free.saturating_sub(lacking) / u64::from(shards.max(1));
    let mut got = 0;
    let mut to_get = (lacking + spare * short.len() as u64).min(free);
    for keep in [spare, 0] {
        for (shard, unused) in &mut unused {
            let gift = unused.saturating_sub(keep).min(to_get);
            if gift == 0 {
                continue;
            }
            *unused -= gift;
            to_get -= gift;
            got += gift;
            // The coordinator shard passes on what it does not use; it sends nothing to itself.
            if *shard != home {
                plan.gifts.push((*shard, gift));
            }
        }
    }
    for (shard, lacks) in short {
        let share = (lacks + spare).min(got);
        got -= share;
        if share > 0 && shard != home {
            plan.onward.push((shard, share));
        }
    }
    plan
}

#[cfg(test)]
mod tests;
