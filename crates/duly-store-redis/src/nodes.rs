//! Nodes that share the deployment: members in the coordinator shards, holders of leases in each shard,
//! and announcements on the channels of the shards.

use std::sync::Arc;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    AccessRemedy, Error, MemberId, Repaired, Result, StoreFuture,
    deployment::{
        Allotment, Announcement, Ask, Coordinators, Heartbeat, HeartbeatReply, Member,
        MembershipStage, NAME_MAX, NamespaceFilter,
    },
};
use futures::FutureExt;
use tokio::sync::broadcast;

use crate::{
    change::digits, error::damaged, marker::CoordinatorList, record::member_id_text, reply::Reply,
    script::Script, settings::lane_name, store::RedisStore,
};

impl duly_store::Deployment for RedisStore {
    fn coordinators(&self) -> Coordinators {
        self.deployment.list.lock().own.clone()
    }

    fn heartbeat(
        &self,
        coordinator: ShardId,
        heartbeat: Heartbeat,
    ) -> StoreFuture<'_, HeartbeatReply> {
        self.in_shard(coordinator, async move {
            let older = self.deployment.older_members().await?;
            if !older.is_empty() {
                return Ok(HeartbeatReply::Waiting(older));
            }
            let arguments = arguments(heartbeat);
            let mut reply =
                self.deployment.call_script(coordinator, Script::Heartbeat, arguments).await?;
            match reply.text()?.as_str() {
                "EVICTED" => Ok(HeartbeatReply::Evicted),
                "SUPERSEDED" => {
                    self.settle_list(coordinator, CoordinatorList::from_reply(&mut reply)?);
                    Ok(HeartbeatReply::Superseded)
                }
                _ => members(&mut reply),
            }
        })
    }

    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>> {
        self.in_shard(shard, self.deployment.holders(shard))
    }

    fn allot(
        &self,
        shard: ShardId,
        member_id: MemberId,
        asks: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>> {
        self.in_shard(shard, async move {
            let count = asks.len();
            let mut arguments = vec![member_id_text(member_id).into_bytes()];
            for ask in asks {
                let lane = format!("{}\0{}", ask.lane.namespace, lane_name(&ask.lane.key));
                let rate = ask.per_second.map(digits).unwrap_or_default();
                arguments.extend([lane.into_bytes(), digits(ask.cap), rate]);
                arguments.extend([digits(ask.keep), digits(ask.wanted)]);
            }
            let mut reply =
                self.deployment.call_script(shard, Script::AllocateLanes, arguments).await?;
            if reply.text()? == "GONE" {
                return Err(Error::Evicted);
            }
            let amount = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            (0..count)
                .map(|_| {
                    let slots = amount(reply.number()?);
                    Ok(Allotment { slots, per_second: reply.maybe_number()?.map(amount) })
                })
                .collect()
        })
    }

    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()> {
        self.in_shard(shard, async move {
            let arguments = vec![namespace.as_str().into()];
            self.deployment.call_script(shard, Script::Announce, arguments).await?;
            Ok(())
        })
    }

    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.deployment.announced.subscribe()
    }

    fn note_progress(&self, shards: Vec<ShardId>) -> StoreFuture<'_, ()> {
        self.deployment.note_progress(shards).map(Ok).boxed()
    }

    fn repair(&self, shard: ShardId) -> StoreFuture<'_, Repaired> {
        self.in_shard(shard, self.deployment.repair(shard))
    }

    fn repair_access(&self, remedy: AccessRemedy) -> StoreFuture<'_, bool> {
        self.deployment.repair_access(remedy).boxed()
    }
}

impl RedisStore {
    /// Brings a shard and this node to one list of coordinator shards, after a heartbeat has found
    /// different ones. Runs beside the heartbeats, one at a time.
    fn settle_list(&self, shard: ShardId, list: CoordinatorList) {
        let Ok(settling) = Arc::clone(&self.deployment.settling_list).try_lock_owned() else {
            return;
        };
        let deployment = Arc::clone(&self.deployment);
        tokio::spawn(async move {
            let _settling = settling;
            let own = deployment.list.lock().clone();
            let settled = if list.own.version > own.own.version {
                deployment.use_list(list).await
            } else {
                deployment.accept(shard, &own).await.map(|_| ())
            };
            if let Err(error) = settled {
                tracing::debug!(
                    %error,
                    "list of coordinator shards not settled yet; the next heartbeat tries again"
                );
            }
        });
    }
}

fn arguments(heartbeat: Heartbeat) -> Vec<Vec<u8>> {
    let mut name = heartbeat.name;
    name.truncate(name.floor_char_boundary(NAME_MAX));
    let mut arguments = vec![
        member_id_text(heartbeat.member_id).into_bytes(),
        heartbeat.presence.as_str().into(),
        digits(heartbeat.protocols.0),
        digits(heartbeat.protocols.1),
        name.into_bytes(),
        heartbeat.waits.to_text().into_bytes(),
        digits(heartbeat.list),
        digits(heartbeat.number),
    ];
    for (member_id, last_seen) in heartbeat.dead {
        arguments.extend([
            member_id_text(member_id).into_bytes(),
            last_seen.map_or_else(Vec::new, digits),
        ]);
    }
    arguments
}

fn members(reply: &mut Reply) -> Result<HeartbeatReply> {
    let mut evicted = reply.items()?.rest(|member_ids| parse_member_id(&member_ids.text()?))?;
    let mut members = reply.rest(|reply| member(&mut reply.items()?))?;
    evicted.sort_unstable();
    members.sort_unstable_by_key(|member: &Member| member.member_id);
    Ok(HeartbeatReply::Members { members, evicted })
}

fn member(reply: &mut Reply) -> Result<Member> {
    let (member_id, beats) = (parse_member_id(&reply.text()?)?, reply.number()?);
    let presence = match reply.text()?.as_str() {
        "0" => MembershipStage::Here,
        "1" => MembershipStage::Leaving,
        "2" => MembershipStage::Joining,
        _ => return Err(damaged("the stage of a member")),
    };
    let mut protocol = || {
        let version = reply.number()?;
        u16::try_from(version).map_err(|_| damaged("the protocol of a member"))
    };
    let protocols = (protocol()?, protocol()?);
    let name = reply.text()?;
    let waits = NamespaceFilter::from_text(&reply.text()?);
    Ok(Member { member_id, name, protocols, presence, heartbeats: beats, waits })
}

pub(crate) fn parse_member_id(name: &str) -> Result<MemberId> {
    let member_id = u64::from_str_radix(name, 16)
        .map_err(|_| damaged("a member id that is not hexadecimal"))?;
    Ok(MemberId(member_id))
}
