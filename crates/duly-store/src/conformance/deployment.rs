//! Nodes that share a store: members, holders of leases, announcements.

use duly_core::{Millis, destination::LaneKey};
use tokio::time::timeout;

use super::{
    CaseResult, Harness,
    scene::{SHARD, Scene, name},
};
use crate::{
    Deployment, Error, Lane, MemberId, Owner, SettleVerdict,
    deployment::{
        Allotment, Ask, Heartbeat, HeartbeatReply, Member, MembershipStage, NamespaceFilter,
    },
};

/// Member ids of these cases. No other case uses them, because a member id is never reused.
const A: MemberId = MemberId(0xA1);
const B: MemberId = MemberId(0xB2);
const C: MemberId = MemberId(0xC4);

/// Time in which every message arrives.
const SOON: std::time::Duration = std::time::Duration::from_secs(10);

/// Sends a heartbeat to the first coordinator shard; its name is the last digits of the member id.
fn heartbeat_of(
    deployment: &dyn Deployment,
    member_id: MemberId,
    number: u64,
    presence: MembershipStage,
) -> Heartbeat {
    let (name, list) = (node_name(member_id), deployment.coordinators().version);
    let (protocols, waits, dead) = ((1, 3), waits(member_id), Vec::new());
    Heartbeat { member_id, number, list, name, protocols, presence, waits, dead }
}

async fn heartbeat(
    deployment: &dyn Deployment,
    member_id: MemberId,
    number: u64,
    presence: MembershipStage,
) -> HeartbeatReply {
    send(deployment, heartbeat_of(deployment, member_id, number, presence)).await
}

async fn send(deployment: &dyn Deployment, heartbeat: Heartbeat) -> HeartbeatReply {
    let coordinator = deployment.coordinators().shards[0];
    deployment.heartbeat(coordinator, heartbeat).await.expect("a heartbeat gets a reply")
}

/// Sends a heartbeat that reports others dead.
async fn report_dead(
    deployment: &dyn Deployment,
    member_id: MemberId,
    number: u64,
    dead: &[(MemberId, Option<u64>)],
) -> HeartbeatReply {
    let heartbeat = heartbeat_of(deployment, member_id, number, MembershipStage::Here);
    send(deployment, Heartbeat { dead: dead.to_vec(), ..heartbeat }).await
}

fn node_name(member_id: MemberId) -> String {
    format!("node {}: \u{e4}", member_id.0)
}

fn member(member_id: MemberId, number: u64, presence: MembershipStage) -> Member {
    Member {
        member_id,
        name: node_name(member_id),
        protocols: (1, 3),
        presence,
        heartbeats: number,
        waits: waits(member_id),
    }
}

fn members<const N: usize>(members: [Member; N], evicted: &[MemberId]) -> HeartbeatReply {
    HeartbeatReply::Members { members: members.to_vec(), evicted: evicted.to_vec() }
}

/// Returns the namespaces for which calls wait: A waits for one.
fn waits(member_id: MemberId) -> NamespaceFilter {
    let mut waits = NamespaceFilter::default();
    if member_id == A {
        waits.insert(&name("orders"));
    }
    waits
}

macro_rules! deployment_of {
    ($store:ident) => {
        match $store.deployment() {
            Some(deployment) => deployment,
            None => return CaseResult::NotShared,
        }
    };
}

pub(super) async fn p3_members_hear_of_each_other(harness: &dyn Harness) -> CaseResult {
    use MembershipStage::{Here, Joining, Leaving, Left};
    let store = harness.store();
    let deployment = deployment_of!(store);
    let reply = heartbeat(deployment, A, 1, Joining).await;
    assert_eq!(reply, members([member(A, 1, Joining)], &[]));
    let reply = heartbeat(deployment, B, 40, Here).await;
    let joined = [member(A, 1, Joining), member(B, 40, Here)];
    assert_eq!(reply, members(joined, &[]), "no shard requires a member to join first");
    let reply = heartbeat(deployment, A, 7, Here).await;
    assert_eq!(reply, members([member(A, 7, Here), member(B, 40, Here)], &[]));
    let reply = heartbeat(deployment, A, 6, Joining).await;
    let late = [member(A, 7, Here), member(B, 40, Here)];
    assert_eq!(reply, members(late, &[]), "a late heartbeat changes nothing");
    let reply = heartbeat(deployment, A, 8, Leaving).await;
    assert_eq!(reply, members([member(A, 8, Leaving), member(B, 40, Here)], &[]));
    let reply = heartbeat(deployment, A, 9, Left).await;
    assert_eq!(reply, members([member(B, 40, Here)], &[A]));
    assert_eq!(heartbeat(deployment, A, 10, Here).await, HeartbeatReply::Evicted, "it has left");
    CaseResult::Whole
}

pub(super) async fn p3_only_members_without_progress_are_evicted(
    harness: &dyn Harness,
) -> CaseResult {
    use MembershipStage::Here;
    let store = harness.store();
    let deployment = deployment_of!(store);
    heartbeat(deployment, A, 1, Here).await;
    heartbeat(deployment, B, 1, Here).await;
    heartbeat(deployment, B, 2, Here).await;
    let both = |number| [member(A, number, Here), member(B, 2, Here)];
    let reply = report_dead(deployment, A, 2, &[(B, Some(1))]).await;
    assert_eq!(reply, members(both(2), &[]), "B has beaten since");
    let reply = report_dead(deployment, A, 3, &[(B, None)]).await;
    assert_eq!(reply, members(both(3), &[]), "B is listed");
    let reply = report_dead(deployment, A, 4, &[(C, Some(1))]).await;
    assert_eq!(reply, members(both(4), &[]), "C is not listed");
    let reply = report_dead(deployment, A, 5, &[(B, Some(2)), (C, None)]).await;
    assert_eq!(reply, members([member(A, 5, Here)], &[B, C]));
    assert_eq!(heartbeat(deployment, B, 3, Here).await, HeartbeatReply::Evicted);
    assert_eq!(
        heartbeat(deployment, C, 1, Here).await,
        HeartbeatReply::Evicted,
        "before its first heartbeat"
    );
    let reply = heartbeat(deployment, A, 6, Here).await;
    assert_eq!(reply, members([member(A, 6, Here)], &[B, C]), "an evicted member changes nothing");
    CaseResult::Whole
}

pub(super) async fn p3_evictions_are_told_for_a_minute_and_kept(
    harness: &dyn Harness,
) -> CaseResult {
    use MembershipStage::Here;
    let store = harness.store();
    let deployment = deployment_of!(store);
    report_dead(deployment, A, 1, &[(B, None), (C, None)]).await;
    harness.advance(Millis::from_secs(50)).await;
    let HeartbeatReply::Members { evicted, .. } = heartbeat(deployment, A, 2, Here).await else {
        panic!("A is a member")
    };
    assert_eq!(evicted, [B, C]);
    // B is named again, so its eviction is recent again.
    report_dead(deployment, A, 3, &[(B, None)]).await;
    harness.advance(Millis::from_secs(55)).await;
    let HeartbeatReply::Members { evicted, .. } = heartbeat(deployment, A, 4, Here).await else {
        panic!("A is a member")
    };
    assert!(evicted.contains(&B), "{evicted:?}");
    harness.advance(Millis::from_secs(3_600)).await;
    for member_id in [B, C] {
        assert_eq!(
            heartbeat(deployment, member_id, 9, Here).await,
            HeartbeatReply::Evicted,
            "{member_id:?}"
        );
    }
    CaseResult::Whole
}

pub(super) async fn p3_another_list_of_coordinators_is_refused(
    harness: &dyn Harness,
) -> CaseResult {
    let store = harness.store();
    let deployment = deployment_of!(store);
    let list = deployment.coordinators();
    assert!(matches!(list.shards.len(), 1 | 3 | 5), "{list:?}");
    heartbeat(deployment, A, 1, MembershipStage::Here).await;
    let other = Heartbeat {
        list: list.version + 1,
        dead: vec![(A, Some(1))],
        ..heartbeat_of(deployment, B, 1, MembershipStage::Here)
    };
    assert_eq!(send(deployment, other).await, HeartbeatReply::Superseded);
    let reply = heartbeat(deployment, A, 2, MembershipStage::Here).await;
    assert_eq!(reply, members([member(A, 2, MembershipStage::Here)], &[]), "it changed nothing");
    CaseResult::Whole
}

pub(super) async fn p3_lease_holders_are_listed(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let holders = async || deployment.holders(SHARD).await.expect("holders are named");
    let claim = async |member_id| {
        let mut request = scene.request(vec![LaneKey::Pull]);
        request.owner = Owner::Node(member_id);
        scene.store().claim(SHARD, request).await
    };
    scene.create_in("a", Millis::ZERO).await;
    assert_eq!(holders().await, []);
    let firing = claim(A).await.expect("it may").firings.remove(0);
    assert_eq!(holders().await, [A]);
    scene.settled(&firing, SettleVerdict::Ack).await;
    assert_eq!(holders().await, []);
    scene.create_in("pulled", Millis::ZERO).await;
    scene.claim_one().await;
    assert_eq!(holders().await, [], "consumers are no nodes");
    for id in ["b", "c"] {
        scene.create_in(id, Millis::ZERO).await;
        claim(if id == "b" { A } else { B }).await.expect("it may");
    }
    let mut both = holders().await;
    both.sort_unstable();
    assert_eq!(both, [A, B]);
    assert_eq!(store.release_owner(SHARD, A).await, Ok(1));
    assert_eq!(holders().await, [B]);
    CaseResult::Whole
}

pub(super) async fn p8_released_member_cannot_claim(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let _shared = deployment_of!(store);
    let lost = MemberId(0xC3);
    scene.create_in("a", Millis::ZERO).await;
    let mut request = scene.request(vec![LaneKey::Pull]);
    request.owner = Owner::Node(lost);
    store.claim(SHARD, request.clone()).await.expect("it may");
    assert_eq!(store.release_owner(SHARD, lost).await, Ok(1));
    let refused = store.claim(SHARD, request).await.expect_err("it is over");
    assert_eq!(refused, Error::Evicted);
    assert_eq!(refused.code().as_str(), "unavailable");
    CaseResult::Whole
}

pub(super) async fn p9_an_announcement_reaches_every_listener(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let (mut one, mut other) = (deployment.announcements(), deployment.announcements());
    let told = (SHARD, scene.namespace.clone());
    deployment.announce(SHARD, scene.namespace.clone()).await.expect("the announcement is sent");
    assert_eq!(timeout(SOON, one.recv()).await, Ok(Ok(told.clone())));
    assert_eq!(timeout(SOON, other.recv()).await, Ok(Ok(told)));
    CaseResult::Whole
}

fn ask(scene: &Scene<'_>, cap: u32, keep: u32, wanted: u32) -> Ask {
    let lane = Lane {
        namespace: scene.namespace.clone(),
        key: LaneKey::Receiver("https://one.example".into()),
    };
    Ask { lane, cap, per_second: Some(10 * cap), keep, wanted }
}

pub(super) async fn p10_a_cap_is_shared_out_and_never_exceeded(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let (one, other) = (MemberId(0xD1), MemberId(0xD2));
    let allot = async |member_id, keep, wanted| {
        let asks = vec![ask(&scene, 10, keep, wanted)];
        deployment.allot(SHARD, member_id, asks).await.expect("it is shared out").remove(0)
    };
    let of = |slots, per_second| Allotment { slots, per_second: Some(per_second) };
    assert_eq!(allot(one, 0, 50).await, of(10, 100), "nobody else wants any");
    assert_eq!(allot(other, 0, 3).await, of(0, 50), "all is taken");
    assert_eq!(allot(one, 10, 50).await, of(7, 50), "three are wanted elsewhere");
    assert_eq!(allot(other, 0, 3).await, of(0, 50), "but it still has them");
    assert_eq!(allot(one, 7, 50).await, of(7, 50));
    assert_eq!(allot(other, 0, 3).await, of(3, 50));
    assert_eq!(allot(other, 0, 0).await, of(0, 0), "it is given up");
    assert_eq!(allot(one, 7, 50).await, of(10, 100));
    CaseResult::Whole
}

pub(super) async fn p10_grants_end_with_the_member(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let (one, other) = (MemberId(0xD3), MemberId(0xD4));
    let asks = |keep| vec![ask(&scene, 1, keep, 5)];
    let first = deployment.allot(SHARD, one, asks(0)).await.expect("it is shared out");
    assert_eq!(first[0].slots, 1);
    assert_eq!(deployment.holders(SHARD).await, Ok(vec![one]), "it holds something here");
    assert_eq!(store.release_owner(SHARD, one).await, Ok(0), "no lease ends by it");
    assert_eq!(deployment.holders(SHARD).await, Ok(vec![]));
    let then = deployment.allot(SHARD, other, asks(0)).await.expect("it is shared out");
    assert_eq!(then[0].slots, 1);
    let refused = deployment.allot(SHARD, one, asks(1)).await.expect_err("it is over");
    assert_eq!(refused.code().as_str(), "unavailable");
    CaseResult::Whole
}
