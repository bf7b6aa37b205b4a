//! The background pass over namespaces that differ between shards.
//!
//! All shards have all namespaces, so the digests over their names and numbers are equal if nothing is
//! missing. Only if they differ are the names compared:
//!
//! 1. A shard that holds a number whose end is recorded removes it.
//! 2. A shard that does not have a namespace of the coordinator shard takes it.
//! 3. A number of which the coordinator shard has no record stays, and is counted: an operator has it
//!    repaired (`repair.rs`).

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::Result;

use crate::{
    change::{at_once, digits},
    deployment::Deployment,
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

impl Deployment {
    /// Compares all names of all shards, mends what can be mended, and remembers the namespaces that
    /// need repair.
    pub(crate) async fn reconcile(&self) -> Result<()> {
        let mut all: BTreeMap<NamespaceName, Holders> = BTreeMap::new();
        for shard in (0..self.shards).map(ShardId) {
            let mut after = None;
            loop {
                let page = self.numbers(shard, after.as_ref()).await?;
                after = page.last().map(|(name, _)| name.clone()).filter(|_| page.len() == PAGE);
                for (name, num) in page {
                    all.entry(name).or_default().entry(num).or_default().push(shard);
                }
                if after.is_none() {
                    break;
                }
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

    /// Returns a page of the names that a shard has, with their numbers.
    pub(crate) async fn numbers(
        &self,
        shard: ShardId,
        after: Option<&NamespaceName>,
    ) -> Result<Vec<(NamespaceName, String)>> {
        let after = after.map_or_else(Vec::new, |after| after.as_str().into());
        let mut reply = self.call_script(shard, Script::Numbers, vec![after, digits(PAGE)]).await?;
        reply.rest(|reply| Ok((reply.name()?, reply.text()?)))
    }
}
