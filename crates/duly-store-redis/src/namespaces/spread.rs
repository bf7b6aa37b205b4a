//! Copies a namespace from its coordinator shard to all others.

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::Result;

use super::{CoordinatorState, time};
use crate::{
    case::Control,
    change::{TRIES, everywhere},
    deployment::Deployment,
    error::{after, damaged, unavailable},
    script::Script,
    shares::Deals,
};

impl Deployment {
    /// Has every other shard take the namespace of the coordinator shard, and notes there that they
    /// have. Returns what they took: a newer version of it if a shard had seen this version before.
    pub(crate) async fn spread(
        &self,
        home: ShardId,
        mut at_home: CoordinatorState,
    ) -> Result<CoordinatorState> {
        for _ in 0..TRIES {
            let CoordinatorState { control, deals } = &at_home;
            let takes = self.others(home).map(|shard| self.take(shard, control, deals));
            let ahead = after(everywhere(takes).await)?.into_iter().flatten().max();
            let newer = match ahead {
                Some(ahead) => after(self.put_again(home, control, ahead).await)?,
                None => {
                    let done = [own(control, "take"), vec![b"done".to_vec()]].concat();
                    // If this is lost, the change is spread once more.
                    let _done = self.ask(home, Script::Put, done).await;
                    None
                }
            };
            match newer {
                Some(newer) => at_home = newer,
                None => return Ok(at_home),
            }
        }
        after(Err(unavailable("shards kept hearing of newer versions")))
    }

    /// Has a shard take the namespace of the coordinator shard. If the shard holds it under another
    /// number, that goes first, provided that its end is recorded; otherwise nothing is taken. Returns
    /// the version that the shard has seen instead, if it is not older than this one.
    pub(crate) async fn take(
        &self,
        shard: ShardId,
        control: &Control,
        deals: &Deals,
    ) -> Result<Option<u64>> {
        for _ in 0..TRIES {
            let mut arguments = own(control, "take");
            let paused = (control.paused, control.resumes_at);
            let (created, updated) = (time(control.created_at), time(control.updated_at));
            arguments.extend(self.fields(&control.settings, paused, shard, created, updated));
            arguments.extend(deals.fields());
            let mut reply = self.ask(shard, Script::Put, arguments).await?;
            let (word, _) = (reply.text()?, reply.time()?);
            match word.as_str() {
                "DONE" => return Ok(None),
                "AHEAD" => return reply.number().map(Some),
                "OLD" => self.end_recorded(shard, &control.name, &reply.text()?).await?,
                other => return Err(damaged(format!("a change was answered with {other}"))),
            }
        }
        Err(damaged("a namespace that ended does not go"))
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

    /// Finishes an unfinished change of a namespace, as its coordinator shard has noted it. Returns what
    /// all shards have now.
    pub(crate) async fn finish(
        &self,
        home: ShardId,
        todo: &str,
    ) -> Result<Option<CoordinatorState>> {
        let mut parts = todo.split('\0');
        let (kind, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let name = NamespaceName::new(name).map_err(|_| damaged("a namespace's name"))?;
        match (kind, parts.next(), parts.next()) {
            ("put", ..) => match self.control_of(home, &name).await?.1 {
                Some(control) => {
                    let deals = self.deals_of(home, &control).await?;
                    self.spread(home, CoordinatorState { control, deals }).await.map(Some)
                }
                None => Ok(None),
            },
            ("gone", Some(num), Some(ver)) => {
                self.end_elsewhere(home, &name, num, ver).await.map(|()| None)
            }
            _ => Err(damaged(format!("a change {todo:?} of a namespace"))),
        }
    }
}

/// Returns the arguments that identify a namespace to a shard: name, mode, number, version.
pub(crate) fn own(control: &Control, how: &str) -> Vec<Vec<u8>> {
    [control.name.as_str(), how, &control.num, &control.ver]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
