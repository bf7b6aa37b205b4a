//! Nodes that share the deployment: members at home in shard 0, holders of leases in each shard, and
//! what is told to all by the channels of the shards.

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    Error, NodeRun, Repaired, Result, StoreFuture,
    deployment::{Allotment, Announcement, Ask, Beat, Heard, Interest, Member, NAME_MAX, Presence},
};
use futures::FutureExt;
use tokio::sync::broadcast;

use crate::{
    change::digits, error::damaged, record::run_name, reply::Reply, script::Script,
    settings::lane_name, store::RedisStore,
};

/// Where members are at home.
const HOME: ShardId = ShardId(0);

impl duly_store::Deployment for RedisStore {
    fn beat(&self, beat: Beat) -> StoreFuture<'_, Heard> {
        async move {
            let presence = match beat.presence {
                Presence::Joining => "joining",
                Presence::Here => "here",
                Presence::Leaving => "leaving",
                Presence::Left => "left",
            };
            let mut name = beat.name;
            name.truncate(name.floor_char_boundary(NAME_MAX));
            let mut arguments = vec![
                run_name(beat.run).into_bytes(),
                presence.into(),
                digits(beat.protocols.0),
                digits(beat.protocols.1),
                name.into_bytes(),
                beat.waits.to_text().into_bytes(),
            ];
            for (run, beats) in beat.dead {
                arguments.extend([run_name(run).into_bytes(), digits(beats)]);
            }
            let mut reply = self.deployment.ask(HOME, Script::Beat, arguments).await?;
            if reply.text()? == "OVER" {
                return Ok(Heard::Over);
            }
            let mut members = Vec::new();
            while !reply.is_done() {
                members.push(member(&mut reply.items()?)?);
            }
            members.sort_unstable_by_key(|member| member.run);
            Ok(Heard::Members(members))
        }
        .boxed()
    }

    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<NodeRun>> {
        async move {
            self.own(shard)?;
            let mut reply = self.deployment.ask(shard, Script::Holders, Vec::new()).await?;
            let mut holders = Vec::new();
            while !reply.is_done() {
                holders.push(run_of(&reply.text()?)?);
            }
            Ok(holders)
        }
        .boxed()
    }

    fn allot(
        &self,
        shard: ShardId,
        run: NodeRun,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>> {
        async move {
            self.own(shard)?;
            let count = asks.len();
            let mut arguments = vec![run_name(run).into_bytes()];
            for ask in asks {
                let lane = format!("{}\0{}", ask.lane.namespace, lane_name(&ask.lane.key));
                let rate = ask.per_second.map(digits).unwrap_or_default();
                arguments.extend([lane.into_bytes(), digits(ask.cap), rate]);
                arguments.extend([digits(ask.keep), digits(ask.wanted)]);
            }
            let mut reply = self.deployment.ask(shard, Script::Allot, arguments).await?;
            if reply.text()? == "GONE" {
                return Err(Error::RunOver);
            }
            let amount = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            (0..count)
                .map(|_| {
                    let slots = amount(reply.number()?);
                    Ok(Allotment { slots, per_second: reply.maybe_number()?.map(amount) })
                })
                .collect()
        }
        .boxed()
    }

    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()> {
        async move {
            self.own(shard)?;
            let arguments = vec![namespace.as_str().into()];
            self.deployment.ask(shard, Script::Announce, arguments).await?;
            Ok(())
        }
        .boxed()
    }

    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.deployment.announced.subscribe()
    }

    fn note_progress(&self, shards: Vec<ShardId>) -> StoreFuture<'_, ()> {
        async move {
            self.deployment.note_progress(shards).await;
            Ok(())
        }
        .boxed()
    }

    fn repair(&self, shard: ShardId) -> StoreFuture<'_, Repaired> {
        async move {
            self.own(shard)?;
            self.deployment.repair(shard).await
        }
        .boxed()
    }
}

fn member(reply: &mut Reply) -> Result<Member> {
    let run = run_of(&reply.text()?)?;
    let (beats, is_leaving) = (reply.number()?, reply.flag()?);
    let mut protocol = || {
        let version = reply.number()?;
        u16::try_from(version).map_err(|_| damaged("the protocol of a member"))
    };
    let protocols = (protocol()?, protocol()?);
    let name = reply.text()?;
    let waits = Interest::from_text(&reply.text()?);
    Ok(Member { run, name, protocols, is_leaving, beats, waits })
}

fn run_of(name: &str) -> Result<NodeRun> {
    let run = u64::from_str_radix(name, 16).map_err(|_| damaged("the run of a node"))?;
    Ok(NodeRun(run))
}
