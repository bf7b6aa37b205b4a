//! Repairs a shard that takes no calls, at an operator's command.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Invalid, Millis, NamespaceName, shard::ShardId};
use duly_store::{Error, Repaired, Result, query::ShardFault};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    change::{AT_ONCE, at_once},
    deployment::Deployment,
    error::unavailable,
    features::{self, KEYS},
    marker::{self, CoordinatorList, MarkerNote, fault_of},
};

impl Deployment {
    pub(crate) async fn repair(&self, shard: ShardId) -> Result<Repaired> {
        let repaired = self.repair_marker(shard).await?;
        let settled = self.settle_access(self.access_states().await, shard).await;
        // A shard that was rolled back has keys. Those of all shards are settled once enough take calls, or once an
        // operator has decided about keys that were rolled back too.
        let is_later = matches!(repaired, Repaired::Confirmed { .. });
        if !is_later && self.access.rolled_back().is_none() {
            settled?;
        }
        Ok(repaired)
    }

    /// Makes a shard take calls again, and restores its namespaces.
    async fn repair_marker(&self, shard: ShardId) -> Result<Repaired> {
        if self.router.has_open_slot(shard).await == Ok(true) {
            return Err(unavailable(marker::describe(ShardFault::OpenSlot, &[shard])));
        }
        let marker = self.router.marker(shard).await?;
        let held = marker.as_ref().and_then(|marker| marker.held);
        match fault_of(marker.as_ref(), &self.identity.id) {
            None => {
                self.router.set_fault(shard, None);
                // An earlier repair may have stopped after it wrote the marker.
                match self.restore_namespaces(shard).await? {
                    0 => Ok(Repaired::Nothing),
                    namespaces => Ok(Repaired::Restored { namespaces }),
                }
            }
            Some(ShardFault::Foreign) => {
                let allowed = "a shard of this deployment; empty it first if the data of the other \
                               deployment is not needed";
                Err(Invalid::new("shard", shard.0, allowed.to_owned()).into())
            }
            Some(ShardFault::RolledBack) => {
                let list = self.list.lock().clone();
                self.write_marker(shard, &list, true).await?;
                self.end_leases(shard).await;
                Ok(Repaired::Confirmed { behind: Millis::from_ms(held.unwrap_or(0)) })
            }
            Some(ShardFault::Missing) => {
                let list = self.newest_list().await;
                self.write_marker(shard, &list, false).await?;
                let namespaces = self.restore_namespaces(shard).await?;
                Ok(Repaired::Restored { namespaces })
            }
            // No marker has such a fault.
            Some(fault) => Err(unavailable(marker::describe(fault, &[shard]))),
        }
    }

    /// Reads the marker of a shard, and with it if the shard takes calls.
    pub(crate) async fn refresh_fault(&self, shard: ShardId) -> Result<()> {
        self.router.refresh_fault(shard, &self.identity.id).await
    }

    /// Writes the marker of a shard.
    async fn write_marker(
        &self,
        shard: ShardId,
        list: &CoordinatorList,
        confirms: bool,
    ) -> Result<()> {
        let restores = shard == ShardId(0);
        let is_sealed = restores || self.older.lock().is_sealed;
        let features = self.features().await;
        let note = MarkerNote { confirms, restores, is_sealed };
        marker::write_marker(&self.router, shard, &self.identity, list, &features, note).await?;
        self.router.set_fault(shard, None);
        Ok(())
    }

    /// Returns the names of the features that any shard or this node knows, separated by commas.
    async fn features(&self) -> String {
        let markers = marker::read_all(&self.router, self.shards).await;
        let markers = markers.into_iter().filter_map(|(_, marker)| marker.ok().flatten());
        let own = self.access.is_used().then(|| KEYS.to_owned());
        let own_markers = markers.filter(|marker| marker.identity == self.identity);
        let all = own_markers
            .filter_map(|it| features::names(&it.format, &it.features).ok().map(str::to_owned));
        all.chain(own).collect::<Vec<_>>().join(",")
    }

    /// Returns the newest list of coordinator shards that any shard or this node knows.
    async fn newest_list(&self) -> CoordinatorList {
        let own = self.list.lock().clone();
        let markers = marker::read_all(&self.router, self.shards).await;
        let markers = markers.into_iter().filter_map(|(_, marker)| marker.ok().flatten());
        let lists = markers.filter(|m| m.identity == self.identity).map(|m| m.list);
        lists.chain([own]).max_by_key(|list| list.own.version).expect("there is this node's own")
    }

    /// Gives a shard the settings of all namespaces that only the other shards have, as far as these reply: each has
    /// all names. Returns the number
    /// of namespaces. Once every shard takes calls, it restores the records that coordinator shards have
    /// lost, and begins new allocations of the limits: the transfers of the shard are lost.
    async fn restore_namespaces(&self, shard: ShardId) -> Result<u64> {
        let own = self.names_of(shard).await?;
        // Others may have lost data that this node does not know of yet, or may not reply.
        let polls = self.others(shard).map(async |other| {
            self.refresh_fault(other).await?;
            Ok::<_, Error>((other, self.names_of(other).await?))
        });
        let read: BTreeMap<_, _> = at_once(polls).await.into_iter().flatten().collect();
        let names: BTreeSet<_> = read.values().flatten().cloned().collect();
        let names: Vec<_> = names.difference(&own).cloned().collect();
        let is_last = read.len() + 1 == usize::from(self.shards);
        let work = stream::iter(names).map(async |name| {
            let coordinator = self.coordinator_of(&name);
            if coordinator != shard && !read.contains_key(&coordinator) {
                // It comes with the repair of that shard, or with the first poll to which every shard replies.
                return Ok(());
            }
            match self.control_of(coordinator, &name).await?.1 {
                Some(control) => {
                    let allocations = self.allocations_of(&control).await?;
                    self.take(shard, &control, &allocations).await?;
                    if is_last && let Some(spread) = self.reallocate(&name).await? {
                        // Until the limits are allocated, deliveries stall.
                        self.allocate_lowered(&spread).await;
                    }
                    Ok(())
                }
                None if is_last => match self.repair_namespace(&name, None).await {
                    Err(error @ Error::Invalid(_)) => {
                        tracing::warn!(
                            namespace = %name,
                            %error,
                            "namespace not repaired: an operator must choose a number with `duly \
                             namespace repair`"
                        );
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

    async fn names_of(&self, shard: ShardId) -> Result<BTreeSet<NamespaceName>> {
        Ok(self.numbers(shard).await?.into_iter().map(|(name, _)| name).collect())
    }
}
