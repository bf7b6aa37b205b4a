//! Repairs a shard that takes no calls, at an operator's command.

use std::collections::BTreeSet;

use duly_core::{Invalid, Millis, NamespaceName, shard::ShardId};
use duly_store::{Error, Repaired, Result};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    bootstrap::{self, Note},
    change::AT_ONCE,
    deployment::Deployment,
    link::Call,
    marker::{CoordinatorList, Mark},
    script::Script,
};

impl Deployment {
    pub(crate) async fn repair(&self, shard: ShardId) -> Result<Repaired> {
        let marker = self.router.marker(shard).await?;
        let held = marker.as_ref().and_then(|marker| marker.held);
        match Mark::of(marker.as_ref(), &self.identity.id) {
            Mark::Own => {
                self.router.set_mark(shard, Mark::Own);
                // An earlier repair may have stopped after it wrote the marker.
                match self.restore_namespaces(shard).await? {
                    0 => Ok(Repaired::Nothing),
                    namespaces => Ok(Repaired::Restored { namespaces }),
                }
            }
            Mark::Foreign => {
                let allowed = "a shard of this deployment; empty it first if the data of the other \
                               deployment is not needed";
                Err(Invalid::new("shard", shard.0, allowed.to_owned()).into())
            }
            Mark::RolledBack => {
                let list = self.list.lock().clone();
                self.mark(shard, &list, true).await?;
                self.end_leases(shard).await;
                Ok(Repaired::Confirmed { behind: Millis::from_ms(held.unwrap_or(0)) })
            }
            Mark::Missing => {
                let list = self.newest_list().await;
                self.mark(shard, &list, false).await?;
                let namespaces = self.restore_namespaces(shard).await?;
                Ok(Repaired::Restored { namespaces })
            }
        }
    }

    /// Reads the marker of a shard, and with it if the shard takes calls.
    pub(crate) async fn look_at_marker(&self, shard: ShardId) -> Result<()> {
        self.router.look_at_marker(shard, &self.identity.id).await
    }

    /// Writes the marker of a shard.
    async fn mark(&self, shard: ShardId, list: &CoordinatorList, confirms: bool) -> Result<()> {
        let restores = shard == ShardId(0);
        let note = Note { confirms, restores, is_sealed: restores || self.older.is_sealed() };
        let arguments = bootstrap::arguments(&self.identity, list, note);
        bootstrap::marked(&self.router, shard, Call::new(Script::Mark, arguments)).await?;
        self.router.set_mark(shard, Mark::Own);
        Ok(())
    }

    /// Returns the newest list of coordinator shards that any shard or this node knows.
    async fn newest_list(&self) -> CoordinatorList {
        let own = self.list.lock().clone();
        let markers = bootstrap::markers(&self.router, self.shards).await;
        let markers = markers.into_iter().filter_map(|(_, marker)| marker.ok().flatten());
        let lists = markers.filter(|m| m.identity == self.identity).map(|m| m.list);
        lists.chain([own]).max_by_key(|list| list.own.version).expect("there is this node's own")
    }

    /// Gives a shard the settings of all namespaces that only the other shards have. Returns the number
    /// of namespaces. Once every shard takes calls, it restores the records that coordinator shards have
    /// lost, and begins new allocations of the limits: the transfers of the shard are lost.
    async fn restore_namespaces(&self, shard: ShardId) -> Result<u64> {
        let own = self.names_of(shard).await?;
        // Other shards may have lost data that this node does not know of yet.
        let looks = stream::iter((0..self.shards).map(ShardId));
        let _away: Vec<_> =
            looks.map(|other| self.look_at_marker(other)).buffer_unordered(AT_ONCE).collect().await;
        let names: Vec<_> = self.names_elsewhere(shard).await?.difference(&own).cloned().collect();
        let is_last = (0..self.shards).all(|shard| self.router.mark(ShardId(shard)) == Mark::Own);
        let work = stream::iter(names).map(async |name| {
            let home = self.home(&name);
            if self.router.mark(home) != Mark::Own {
                // It comes with the repair of that shard.
                return Ok(());
            }
            match self.control_of(home, &name).await?.1 {
                Some(control) => {
                    let deals = self.deals_of(home, &control).await?;
                    self.take(shard, &control, &deals).await?;
                    if is_last && let Some(spread) = self.deal_anew(&name).await? {
                        // Until the limits are allocated, deliveries stall.
                        self.deal_lowered(&spread).await;
                    }
                    Ok(())
                }
                None if is_last => match self.repair_namespace(&name, None).await {
                    Err(error @ Error::Invalid(_)) => {
                        tracing::warn!(namespace = %name, %error, "an operator has to choose");
                        Ok(())
                    }
                    repaired => repaired.map(drop),
                },
                None => Ok(()),
            }
        });
        work.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        Ok(self.names_of(shard).await?.difference(&own).count() as u64)
    }

    /// Returns the names that any other shard which takes calls has. A shard repaired before may have
    /// none yet.
    async fn names_elsewhere(&self, shard: ShardId) -> Result<BTreeSet<NamespaceName>> {
        let mut names = BTreeSet::new();
        for other in self.others(shard).filter(|other| self.router.mark(*other) == Mark::Own) {
            names.append(&mut self.names_of(other).await?);
        }
        Ok(names)
    }

    async fn names_of(&self, shard: ShardId) -> Result<BTreeSet<NamespaceName>> {
        let mut names = BTreeSet::new();
        let mut after = None;
        loop {
            let page = self.numbers(shard, after.as_ref()).await?;
            after = page.last().map(|(name, _)| name.clone());
            names.extend(page.into_iter().map(|(name, _)| name));
            if after.is_none() {
                return Ok(names);
            }
        }
    }
}
