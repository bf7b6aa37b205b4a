//! Which shards give, and who gets it. Pure.
//!
//! Whoever is short gets what it is short of, and as much beyond that as all have left over on
//! average; givers keep that average, those with the most give first. So a shard that takes many at once
//! calls in a few times, and what is left lies evenly again.

use std::{cmp::Reverse, collections::BTreeMap};

use super::Report;

/// What is to be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// What others have given to the home, as far as it has not taken it: shard, total.
    pub(super) told_home: Vec<(u16, u64)>,
    /// What the home has given to others, as far as they have not taken it.
    pub(super) told_others: Vec<(u16, u64)>,
    /// Who is to give to the home: shard, most.
    pub(super) gifts: Vec<(u16, u64)>,
    /// To whom the home is to give: shard, most.
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

/// What is to be moved, by the reports of shards that are all dealt, for those that want more.
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
    // What is on its way counts as arrived.
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
            // What the home does not use it passes on; it gives nothing to itself.
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
