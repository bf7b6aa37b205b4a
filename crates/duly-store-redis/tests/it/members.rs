//! Heartbeats at the coordinator shards of real servers.

use duly_core::{NamespaceName, Timestamp, shard::ShardId};
use duly_store::{
    Deployment, MemberId, Store,
    deployment::{
        Coordinator, Coordinators, Heartbeat, HeartbeatReply, MembershipStage, NamespaceFilter,
    },
};
use duly_store_redis::RedisStore;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

use crate::{
    calls::{open, options, until},
    cluster::Cluster,
    server::{Server, tell},
};

const MARKER: &str = "duly:{17q}:marker";

fn nodes(store: &RedisStore) -> &dyn Deployment {
    Store::deployment(store).expect("nodes share it")
}

fn heartbeat(member_id: u64, number: u64, list: u64) -> Heartbeat {
    Heartbeat {
        member_id: MemberId(member_id),
        number,
        list,
        name: "n".to_owned(),
        protocols: (2, 2),
        presence: MembershipStage::Here,
        waits: NamespaceFilter::default(),
        dead: Vec::new(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_finds_a_newer_list_and_the_node_uses_it() {
    let server = Server::start(&[]);
    let (store, other) =
        (open(&options(&server.url(), 8)).await, open(&options(&server.url(), 8)).await);
    assert_eq!(nodes(&store).coordinators(), Coordinators { version: 1, shards: vec![ShardId(0)] });
    // The change of another node after slots have moved: the only voter has accepted it.
    assert_eq!(tell(server.port(), &format!("HSET {MARKER} list 2:3 prev 1:0")), ":0");
    for store in [&store, &other] {
        let replied = nodes(store).heartbeat(ShardId(0), heartbeat(1, 1, 1)).await;
        assert_eq!(replied, Ok(HeartbeatReply::Superseded));
        until("the node uses the list", async || {
            (nodes(store).coordinators().version == 2).then_some(())
        })
        .await;
        assert_eq!(nodes(store).coordinators().shards, [ShardId(3)]);
        // That shard has the list too: the first node has sent it there.
        until("shard 3 has the list", async || {
            let replied = nodes(store).heartbeat(ShardId(3), heartbeat(1, 2, 2)).await;
            matches!(replied, Ok(HeartbeatReply::Members { .. })).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_brings_a_missed_list_to_a_shard() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 8)).await;
    assert_eq!(tell(server.port(), &format!("HSET {MARKER} list 2:0 prev 1:0")), ":0");
    nodes(&store).heartbeat(ShardId(0), heartbeat(1, 1, 1)).await.expect("it is acknowledged");
    until("the node uses the list", async || {
        (nodes(&store).coordinators().version == 2).then_some(())
    })
    .await;
    assert_eq!(tell(server.port(), &format!("HSET {MARKER} list 1:0 prev \"\"")), ":0");
    until("shard 0 has the list again", async || {
        let replied = nodes(&store).heartbeat(ShardId(0), heartbeat(1, 2, 2)).await;
        matches!(replied, Ok(HeartbeatReply::Members { .. })).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn three_masters_get_three_coordinator_shards() {
    let mut cluster = Cluster::start(3, 0);
    for master in &cluster.masters {
        tell(master.port(), "CONFIG SET cluster-require-full-coverage no");
    }
    let store = open(&options(&cluster.url(), 16)).await;
    let list = nodes(&store).coordinators();
    assert_eq!(list.shards.len(), 3, "{list:?}");
    for shard in &list.shards {
        let replied = nodes(&store).heartbeat(*shard, heartbeat(7, 1, list.version)).await;
        let Ok(HeartbeatReply::Members { members, .. }) = replied else { panic!("{replied:?}") };
        assert_eq!(members.len(), 1, "no shard knows what another one knows");
    }
    cluster.masters[1].kill();
    let mut replied = 0;
    for shard in &list.shards {
        let beat = nodes(&store).heartbeat(*shard, heartbeat(7, 2, list.version));
        let beat = tokio::time::timeout(std::time::Duration::from_secs(1), beat).await;
        replied += usize::from(matches!(beat, Ok(Ok(HeartbeatReply::Members { .. }))));
    }
    assert_eq!(replied, 2, "the loss of a master costs one of them");
}

/// The rules of the port decide what the script decides, for many members that come, lag, leave and name each other
/// dead.
#[tokio::test(flavor = "multi_thread")]
async fn the_script_of_heartbeats_follows_the_rules_of_the_port() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 1)).await;
    let mut random = StdRng::seed_from_u64(7);
    let mut rules = Coordinator::new(1);
    let mut replies = [0; 3];
    for round in 1..=600_u64 {
        if random.random_range(0..40_u64) == 0 {
            // Members are lost in a failover; evictions are not.
            rules.forget_members();
            tell(server.port(), "DEL duly:{17q}:heartbeats");
        }
        // New members join as the earlier ones are evicted.
        let member = || round / 12 + 1;
        let anyone = |random: &mut StdRng| MemberId(member() + random.random_range(0..5_u64));
        let dead = (0..random.random_range(0..3_u64)).map(|_| {
            let last_seen = (random.random_range(0..4_u64) > 0)
                .then(|| round.saturating_sub(random.random_range(0..12_u64)));
            (anyone(&mut random), last_seen)
        });
        let dead = dead.collect();
        let stage = random.random_range(0..12_usize);
        let presence = MembershipStage::ALL.get(stage).copied().unwrap_or(MembershipStage::Here);
        let number = round.saturating_sub(random.random_range(0..6));
        let list = 1 + u64::from(random.random_range(0..30) == 0);
        let mut waits = NamespaceFilter::default();
        waits.insert(&NamespaceName::new(&format!("ns-{}", number % 5)).expect("a name"));
        let sent = Heartbeat {
            presence,
            dead,
            name: format!("node {number}\u{e9}"),
            protocols: (1, u16::try_from(number % 7).expect("small") + 1),
            waits,
            ..heartbeat(anyone(&mut random).0, number, list)
        };
        let now = Timestamp::saturating_from_unix_ms(1_000_000_000_000 + round);
        let expected = rules.heartbeat(sent.clone(), now);
        let place = match expected {
            HeartbeatReply::Members { .. } => 0,
            HeartbeatReply::Evicted => 1,
            _ => 2,
        };
        replies[place] += 1;
        let replied = nodes(&store).heartbeat(ShardId(0), sent.clone()).await;
        assert_eq!(replied, Ok(expected), "{round}: {sent:?}");
    }
    assert!(replies.iter().all(|count| *count > 5), "{replies:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn evictions_are_kept_for_exactly_a_day() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 1)).await;
    let dead = Heartbeat { dead: vec![(MemberId(2), None)], ..heartbeat(1, 1, 1) };
    nodes(&store).heartbeat(ShardId(0), dead).await.expect("it is acknowledged");
    let key = "duly:{17q}:evicted";
    assert_eq!(tell(server.port(), &format!("ZCARD {key}")), ":1");
    let day_ago = |more_ms: i64| {
        let now = tell(server.port(), &format!("ZSCORE {key} 0000000000000002"));
        let now: i64 = now.parse().expect("a time");
        now - 86_400_000 + more_ms
    };
    let young = day_ago(60_000);
    tell(server.port(), &format!("ZADD {key} {young} 0000000000000002"));
    nodes(&store).heartbeat(ShardId(0), heartbeat(1, 2, 1)).await.expect("it is acknowledged");
    assert_eq!(
        nodes(&store).heartbeat(ShardId(0), heartbeat(2, 1, 1)).await,
        Ok(HeartbeatReply::Evicted)
    );
    tell(server.port(), &format!("ZADD {key} {} 0000000000000002", young - 120_000));
    nodes(&store).heartbeat(ShardId(0), heartbeat(1, 3, 1)).await.expect("it is acknowledged");
    assert_eq!(tell(server.port(), &format!("ZCARD {key}")), ":0");
}
