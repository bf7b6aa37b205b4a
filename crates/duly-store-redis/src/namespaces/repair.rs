//! Namespaces that differ between shards: a background pass mends what it can, and an operator restores
//! the records that coordinator shards have lost.
//!
//! All shards have all namespaces, so the digests over their names and numbers are equal if nothing is
//! missing. Only if they differ does the pass compare the names:
//!
//! 1. A shard that holds a number whose end is recorded removes it.
//! 2. A shard that does not have a namespace of the coordinator shard takes it.
//! 3. A number of which the coordinator shard has no record stays, and is counted until an operator has it
//!    repaired.
//!
//! The repair at an operator's command:
//!
//! 4. The settings are those of the shard with the latest version.
//! 5. If the shards hold the name under several numbers, as after a rollback of a coordinator shard,
//!    only one of them can be kept, and the operator names it.
//! 6. The timers under the other numbers are removed. Their end is recorded first, like that of any
//!    namespace.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use duly_core::{Invalid, NamespaceName, Timestamp, shard::ShardId};
use duly_store::{Error, Result, namespaces::Repaired};

use super::{CoordinatorWrite, NextNamespace, SettingsAuthor, absent::HeldNamespace, namespace};
use crate::{
    change::{at_once, digits},
    deployment::Deployment,
    error::{after_change, damaged, unavailable},
    script::Script,
};

/// Names of one page.
const PAGE: usize = 1_000;
/// Most namespaces that one pass handles.
const UNEVEN_MAX: usize = 10_000;
/// Most names in a line of the log.
const LOGGED: usize = 10;

/// The shards that hold a name, by number.
type Holders = BTreeMap<String, Vec<ShardId>>;

/// Total of the shards under one number.
#[derive(Debug, Default)]
struct NumberTotals {
    num: String,
    shards: Vec<ShardId>,
    /// The shard with the latest version.
    latest: (u64, ShardId),
    created_at: Timestamp,
    pending: u64,
    dead: u64,
}

impl NumberTotals {
    fn add(&mut self, shard: ShardId, held: HeldNamespace) {
        self.num = held.num;
        self.shards.push(shard);
        self.latest = self.latest.max((held.ver, shard));
        self.created_at = self.created_at.max(held.created_at);
        self.pending += held.pending;
        self.dead += held.dead;
    }
}

impl fmt::Display for NumberTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (created {}, {} pending timers and {} dead letters in {} shards)",
            self.num,
            self.created_at,
            self.pending,
            self.dead,
            self.shards.len()
        )
    }
}

impl Deployment {
    /// Compares all names of all shards, mends what can be mended, and remembers the namespaces that
    /// need repair.
    pub(crate) async fn reconcile(&self) -> Result<()> {
        let mut all: BTreeMap<NamespaceName, Holders> = BTreeMap::new();
        for shard in (0..self.shards).map(ShardId) {
            for (name, num) in self.numbers(shard).await? {
                all.entry(name).or_default().entry(num).or_default().push(shard);
            }
        }
        let is_even = |holders: &Holders| {
            let mut shards = holders.values().map(Vec::len);
            shards.next() == Some(usize::from(self.shards))
        };
        let uneven = all.into_iter().filter(|(_, holders)| !is_even(holders)).take(UNEVEN_MAX);
        let mended = uneven.map(|(name, holders)| async move {
            let is_mended = self.mend(&name, &holders).await.unwrap_or_else(|error| {
                tracing::debug!(
                    namespace = %name,
                    %error,
                    "namespace not repaired yet; the next pass tries again"
                );
                !self.to_repair.lock().contains(&name)
            });
            (name, is_mended)
        });
        let mended = at_once(mended).await.into_iter();
        let lost = mended.filter(|(_, is_mended)| !is_mended).map(|(name, _)| name);
        self.remember_lost(lost.collect());
        Ok(())
    }

    /// Remembers the namespaces that need repair, and logs if there are new ones.
    pub(crate) fn remember_lost(&self, lost: BTreeSet<NamespaceName>) {
        let before = std::mem::replace(&mut *self.to_repair.lock(), lost.clone());
        if lost.difference(&before).next().is_none() {
            return;
        }
        let names: Vec<&str> = lost.iter().take(LOGGED).map(NamespaceName::as_str).collect();
        tracing::warn!(
            count = lost.len(),
            namespaces = names.join(", "),
            "coordinator shards have lost the records of namespaces that other shards hold; nothing was \
             removed; restore each with `duly namespace repair NAME`"
        );
    }

    /// Mends a namespace that differs between shards. Returns `true` if it needs no repair.
    async fn mend(&self, name: &NamespaceName, holders: &Holders) -> Result<bool> {
        let nums: Vec<&str> = holders.keys().map(String::as_str).collect();
        let records = self.records(name, &nums).await?;
        for ((num, shards), ended) in holders.iter().zip(&records.ended) {
            let Some(ver) = ended else { continue };
            for shard in shards {
                self.end_in(*shard, name, num, ver).await?;
            }
        }
        if records.is_any_unrecorded(&nums) {
            return Ok(false);
        }
        if records.current.is_some() {
            self.spread_again(name).await?;
        }
        Ok(true)
    }

    /// Returns the names that a shard has, with their numbers.
    pub(crate) async fn numbers(&self, shard: ShardId) -> Result<Vec<(NamespaceName, String)>> {
        let mut all: Vec<(NamespaceName, String)> = Vec::new();
        loop {
            let after = all.last().map_or_else(Vec::new, |(name, _)| name.as_str().into());
            let arguments = vec![after, digits(PAGE)];
            let mut reply = self.call_script(shard, Script::Numbers, arguments).await?;
            let page = reply.rest(|reply| Ok((reply.name()?, reply.text()?)))?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Restores the record of a namespace that its coordinator shard has lost. `keep` is the number to keep if
    /// there are several.
    pub(crate) async fn repair_namespace(
        &self,
        name: &NamespaceName,
        keep: Option<&str>,
    ) -> Result<Repaired> {
        let coordinator = self.coordinator_of(name);
        let mut numbers: BTreeMap<String, NumberTotals> = BTreeMap::new();
        let mut above = 0;
        // New allocations stop deliveries until every shard has taken them. So all shards must reply.
        for (shard, answer) in self.held_by(name, (0..self.shards).map(ShardId)).await {
            let Some(held) = answer.map_err(needs_every_shard)? else { continue };
            above = above.max(held.ver);
            numbers.entry(held.num.clone()).or_default().add(shard, held);
        }
        let nums: Vec<&str> = numbers.keys().map(String::as_str).collect();
        let records = self.records(name, &nums).await?;
        let mut found = Vec::new();
        for (number, ended) in numbers.into_values().zip(records.ended) {
            match ended {
                Some(ver) => {
                    for shard in &number.shards {
                        self.end_in(*shard, name, &number.num, &ver).await?;
                    }
                }
                None => found.push(number),
            }
        }
        if found.is_empty() {
            return Err(Error::UnknownNamespace(name.to_string()));
        }
        let place = match keep {
            Some(keep) => found.iter().position(|number| number.num == keep),
            None => Some(0).filter(|_| found.len() == 1),
        };
        let Some(place) = place else {
            return Err(choice(keep, &found));
        };
        let kept = found.remove(place);
        let (mut pending_lost, mut dead_lost) = (0, 0);
        for number in &found {
            tracing::warn!(
                namespace = %name,
                %number,
                "namespace repair removes the timers under this number"
            );
            self.give_up(name, &number.num).await?;
            pending_lost += number.pending;
            dead_lost += number.dead;
        }
        let is_lost = records.current.as_deref() != Some(kept.num.as_str());
        if is_lost {
            self.restore(name, &kept, above).await?;
            tracing::warn!(
                namespace = %name,
                number = %kept,
                "namespace repair restored the record at the coordinator shard"
            );
        } else {
            after_change(self.spread_again(name).await)?;
        }
        self.to_repair.lock().remove(name);
        let control = self.control_of(coordinator, name).await?.1;
        let control = control.ok_or_else(|| unavailable("the namespace was deleted meanwhile"))?;
        Ok(Repaired { namespace: namespace(control), restored: is_lost, pending_lost, dead_lost })
    }

    /// Records the end of a number, and removes what shards hold under it.
    async fn give_up(&self, name: &NamespaceName, num: &str) -> Result<()> {
        match self.end_number(name, num, "lost", "").await?.0.as_str() {
            "DONE" => Ok(()),
            word => Err(damaged(format!("unknown reply to the end of a namespace: {word}"))),
        }
    }

    /// Writes the namespace of another shard at the coordinator shard, with a later version, and has all
    /// shards take it.
    async fn restore(&self, name: &NamespaceName, kept: &NumberTotals, above: u64) -> Result<()> {
        let changed = || unavailable("the namespace changed while it was repaired; repeat it");
        let lost = self.control_of(kept.latest.1, name).await?.1;
        let lost = lost.filter(|lost| lost.num == kept.num).ok_or_else(changed)?;
        let next = NextNamespace::of(&lost, SettingsAuthor::Explicit);
        let coordinator = self.coordinator_of(name);
        let write = CoordinatorWrite::Restored { lost: &lost, above };
        let restored = self.put_at_coordinator(coordinator, name, None, &next, write).await?;
        let spread = self.spread(restored.ok_or_else(changed)?).await?;
        self.allocate_lowered(&spread).await;
        Ok(())
    }
}

/// Returns the error of a shard with the reason why a repair does not go on without it.
fn needs_every_shard(error: Error) -> Error {
    match error {
        Error::Unavailable { reason, retry_after } => {
            let reason = format!(
                "{reason}. The repair of a namespace needs every shard: without one, it would stop the deliveries that \
                 go on now. Start its master, or accept its loss with `duly store repair`, which restores \
                 the records of namespaces too; then repeat"
            );
            Error::Unavailable { reason, retry_after }
        }
        other => other,
    }
}

/// Returns the refusal of a repair that does not name the number to keep.
fn choice(keep: Option<&str>, found: &[NumberTotals]) -> Error {
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    let allowed = format!(
        "the number under which the namespace is kept, as its shards do not agree: {}. The timers under \
         any other number are removed",
        found.join("; or ")
    );
    Error::Invalid(match keep {
        Some(keep) => Invalid::new("keep", keep, allowed),
        None => Invalid::unseen("keep", allowed),
    })
}
