//! Nodes that share a store: who is a member, who holds leases, what is told to all.

use duly_core::{Millis, destination::LaneKey};
use tokio::time::timeout;

use super::{
    Harness, Ran,
    scene::{SHARD, Scene, name},
};
use crate::{
    Deployment, Error, Lane, NodeRun, Owner, SettleVerdict,
    deployment::{Allotment, Ask, Beat, Heard, Interest, Member, Presence},
};

/// Runs of these cases: no other case uses them, as a run is never used again.
const A: NodeRun = NodeRun(0xA1);
const B: NodeRun = NodeRun(0xB2);

/// A message takes no longer.
const SOON: std::time::Duration = std::time::Duration::from_secs(10);

async fn beat(deployment: &dyn Deployment, run: NodeRun, presence: Presence) -> Heard {
    say(deployment, run, presence, Vec::new()).await
}

async fn say(
    deployment: &dyn Deployment,
    run: NodeRun,
    presence: Presence,
    dead: Vec<(NodeRun, u64)>,
) -> Heard {
    let name = format!("node {}: \u{e4}", run.0);
    let beat = Beat { run, name, protocols: (1, 3), presence, waits: waits(run), dead };
    deployment.beat(beat).await.expect("a beat is heard")
}

fn member(run: NodeRun, beats: u64, is_leaving: bool) -> Member {
    let name = format!("node {}: \u{e4}", run.0);
    Member { run, name, protocols: (1, 3), is_leaving, beats, waits: waits(run) }
}

/// A waits for something.
fn waits(run: NodeRun) -> Interest {
    let mut waits = Interest::default();
    if run == A {
        waits.insert(&name("orders"));
    }
    waits
}

macro_rules! deployment_of {
    ($store:ident) => {
        match $store.deployment() {
            Some(deployment) => deployment,
            None => return Ran::NotShared,
        }
    };
}

pub(super) async fn p3_members_hear_of_each_other(harness: &dyn Harness) -> Ran {
    let store = harness.store();
    let deployment = deployment_of!(store);
    let heard = beat(deployment, A, Presence::Here).await;
    assert_eq!(heard, Heard::Over, "who has not joined is no member");
    let heard = beat(deployment, A, Presence::Joining).await;
    assert_eq!(heard, Heard::Members(vec![member(A, 1, false)]));
    let heard = beat(deployment, B, Presence::Joining).await;
    assert_eq!(heard, Heard::Members(vec![member(A, 1, false), member(B, 1, false)]));
    let heard = beat(deployment, A, Presence::Here).await;
    assert_eq!(heard, Heard::Members(vec![member(A, 2, false), member(B, 1, false)]));
    let heard = beat(deployment, A, Presence::Leaving).await;
    assert_eq!(heard, Heard::Members(vec![member(A, 3, true), member(B, 1, false)]));
    let heard = beat(deployment, A, Presence::Left).await;
    assert_eq!(heard, Heard::Members(vec![member(B, 1, false)]));
    assert_eq!(beat(deployment, A, Presence::Here).await, Heard::Over, "it has left");
    Ran::Whole
}

pub(super) async fn p3_a_member_ends_only_if_its_count_stands_still(harness: &dyn Harness) -> Ran {
    let store = harness.store();
    let deployment = deployment_of!(store);
    beat(deployment, A, Presence::Joining).await;
    beat(deployment, B, Presence::Joining).await;
    beat(deployment, B, Presence::Here).await;
    let heard = say(deployment, A, Presence::Here, vec![(B, 1)]).await;
    assert_eq!(
        heard,
        Heard::Members(vec![member(A, 2, false), member(B, 2, false)]),
        "it has beaten since"
    );
    let heard = say(deployment, A, Presence::Here, vec![(B, 2), (NodeRun(9), 1)]).await;
    assert_eq!(heard, Heard::Members(vec![member(A, 3, false)]));
    assert_eq!(beat(deployment, B, Presence::Here).await, Heard::Over);
    let heard = beat(deployment, A, Presence::Here).await;
    assert_eq!(heard, Heard::Members(vec![member(A, 4, false)]), "a beat too late changes nothing");
    Ran::Whole
}

pub(super) async fn p3_who_holds_leases_is_known(harness: &dyn Harness) -> Ran {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let holders = async || deployment.holders(SHARD).await.expect("holders are named");
    let claim = async |run| {
        let mut request = scene.request(vec![LaneKey::Pull]);
        request.owner = Owner::Node(run);
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
    Ran::Whole
}

pub(super) async fn p8_a_run_that_was_released_claims_nothing(harness: &dyn Harness) -> Ran {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let _shared = deployment_of!(store);
    let lost = NodeRun(0xC3);
    scene.create_in("a", Millis::ZERO).await;
    let mut request = scene.request(vec![LaneKey::Pull]);
    request.owner = Owner::Node(lost);
    store.claim(SHARD, request.clone()).await.expect("it may");
    assert_eq!(store.release_owner(SHARD, lost).await, Ok(1));
    let refused = store.claim(SHARD, request).await.expect_err("it is over");
    assert_eq!(refused, Error::RunOver);
    assert_eq!(refused.code().as_str(), "unavailable");
    Ran::Whole
}

pub(super) async fn p9_an_announcement_reaches_every_listener(harness: &dyn Harness) -> Ran {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let (mut one, mut other) = (deployment.announcements(), deployment.announcements());
    let told = (SHARD, scene.namespace.clone());
    deployment.announce(SHARD, scene.namespace.clone()).await.expect("it is told");
    assert_eq!(timeout(SOON, one.recv()).await, Ok(Ok(told.clone())));
    assert_eq!(timeout(SOON, other.recv()).await, Ok(Ok(told)));
    Ran::Whole
}

fn ask(scene: &Scene<'_>, cap: u32, keep: u32, wanted: u32) -> Ask {
    let lane = Lane {
        namespace: scene.namespace.clone(),
        key: LaneKey::Origin("https://one.example".into()),
    };
    Ask { lane, cap, per_second: Some(10 * cap), keep, wanted }
}

pub(super) async fn p10_a_cap_is_shared_out_and_never_exceeded(harness: &dyn Harness) -> Ran {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let (one, other) = (NodeRun(0xD1), NodeRun(0xD2));
    let allot = async |run, keep, wanted| {
        let asks = vec![ask(&scene, 10, keep, wanted)];
        deployment.allot(SHARD, run, asks).await.expect("it is shared out").remove(0)
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
    Ran::Whole
}

pub(super) async fn p10_what_a_run_was_allotted_ends_with_it(harness: &dyn Harness) -> Ran {
    let scene = Scene::new(harness).await;
    let store = scene.store();
    let deployment = deployment_of!(store);
    let (one, other) = (NodeRun(0xD3), NodeRun(0xD4));
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
    Ran::Whole
}
