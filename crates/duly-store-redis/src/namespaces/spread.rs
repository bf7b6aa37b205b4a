//! Copies a namespace from its coordinator shard to all others.

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::Result;

use super::{CoordinatorState, NextNamespace, SettingsAuthor, time};
use crate::{
    change::{TRIES, everywhere},
    deployment::Deployment,
    error::{after_change, damaged, unavailable},
    quota::Allocations,
    reply::namespace_name,
    row::Control,
    script::Script,
};

impl Deployment {
    /// Has every other shard take the namespace of the coordinator shard, and notes there that they
    /// have. Returns what they took: a newer version of it if a shard had seen this version before.
    pub(crate) async fn spread(
        &self,
        mut at_coordinator: CoordinatorState,
    ) -> Result<CoordinatorState> {
        let coordinator = self.coordinator_of(&at_coordinator.control.name);
        for _ in 0..TRIES {
            let CoordinatorState { control, allocations } = &at_coordinator;
            let takes =
                self.others(coordinator).map(|shard| self.take(shard, control, allocations));
            let ahead = after_change(everywhere(takes).await)?.into_iter().flatten().max();
            let newer = match ahead {
                Some(ahead) => after_change(self.put_again(control, ahead).await)?,
                None => {
                    let done =
                        [namespace_arguments(control, "take"), vec![b"done".to_vec()]].concat();
                    // If this is lost, the change is spread once more.
                    let _done = self.call_script(coordinator, Script::Put, done).await;
                    None
                }
            };
            match newer {
                Some(newer) => at_coordinator = newer,
                None => return Ok(at_coordinator),
            }
        }
        after_change(Err(unavailable("shards kept receiving newer versions")))
    }

    /// Has a shard take the namespace of the coordinator shard. If the shard holds it under another
    /// number, that goes first, provided that its end is recorded; otherwise nothing is taken. Returns
    /// the version that the shard has seen instead, if it is not older than this one.
    pub(crate) async fn take(
        &self,
        shard: ShardId,
        control: &Control,
        allocations: &Allocations,
    ) -> Result<Option<u64>> {
        for _ in 0..TRIES {
            let mut arguments = namespace_arguments(control, "take");
            let next = NextNamespace::of(control, SettingsAuthor::Kept);
            let (created, updated) = (time(control.created_at), time(control.updated_at));
            arguments.extend(self.fields(&next, shard, created, updated));
            arguments.extend(allocations.fields());
            let mut reply = self.call_script(shard, Script::Put, arguments).await?;
            let (word, _) = (reply.text()?, reply.time()?);
            match word.as_str() {
                "DONE" => return Ok(None),
                "AHEAD" => return reply.number().map(Some),
                "OLD" => self.end_recorded(shard, &control.name, &reply.text()?).await?,
                other => {
                    return Err(damaged(format!("unknown reply to a namespace change: {other}")));
                }
            }
        }
        Err(damaged("an ended namespace cannot be removed from a shard"))
    }

    /// Returns `true` if all shards have the namespace as the coordinator shard has it.
    pub(super) async fn is_everywhere(&self, control: &Control) -> Result<bool> {
        let seen = (0..self.shards).map(|shard| self.control_of(ShardId(shard), &control.name));
        let seen = everywhere(seen).await?;
        let same = |own: &Control| {
            (&own.num, &own.ver, own.updated_at) == (&control.num, &control.ver, control.updated_at)
        };
        Ok(seen.iter().all(|(_, own)| own.as_ref().is_some_and(same)))
    }

    /// Has every shard take a namespace as its coordinator shard has it, also after an unfinished change.
    /// Returns what all shards have now; `None` if there is no such namespace.
    pub(crate) async fn spread_again(
        &self,
        name: &NamespaceName,
    ) -> Result<Option<CoordinatorState>> {
        let found = self.control_of(self.coordinator_of(name), name).await?.1;
        let Some(control) = found else { return Ok(None) };
        let allocations = self.allocations_of(&control).await?;
        self.spread(CoordinatorState { control, allocations }).await.map(Some)
    }

    /// Finishes an unfinished change of a namespace, as its coordinator shard has noted it. Returns what
    /// all shards have now.
    pub(crate) async fn finish(&self, todo: &str) -> Result<Option<CoordinatorState>> {
        let mut parts = todo.split('\0');
        let (kind, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let name = namespace_name(name)?;
        match (kind, parts.next(), parts.next()) {
            ("put", ..) => self.spread_again(&name).await,
            ("gone", Some(num), Some(ver)) => {
                self.end_elsewhere(&name, num, ver).await.map(|()| None)
            }
            _ => Err(damaged(format!("an unknown unfinished change of a namespace: {todo:?}"))),
        }
    }
}

/// Returns the arguments that identify a namespace to a shard: name, mode, number, version.
pub(crate) fn namespace_arguments(control: &Control, mode: &str) -> Vec<Vec<u8>> {
    [control.name.as_str(), mode, &control.num, &control.ver]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
