//! The upgrade from nodes of format 4, which keep members in shard 0 and have no markers.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use duly_store::{
    MemberId, Store,
    deployment::{Heartbeat, HeartbeatReply, MembershipStage, NamespaceFilter},
};
use duly_store_redis::{OpenError, RedisStore};

use crate::{
    access::{change, put},
    calls::{open, options, refused, until},
    marker::{RECORD, make_older},
    server::{Server, tell},
};

/// The heartbeat script of a node of format 4.
const HEARTBEAT: &str = include_str!("../golden/format-4-heartbeat.lua");

/// A node of format 4.
struct OldNode {
    connection: redis::aio::MultiplexedConnection,
    member_id: u64,
}

impl OldNode {
    async fn new(server: &Server, member_id: u64) -> Self {
        let client = redis::Client::open(server.url()).expect("a URL");
        let connection = client.get_multiplexed_async_connection().await;
        Self { connection: connection.expect("the server is there"), member_id }
    }

    /// Sends a heartbeat; an error means that the node may not act.
    async fn heartbeat(&mut self, presence: &str) -> Result<(), redis::RedisError> {
        let mut call = redis::cmd("EVAL");
        call.arg(HEARTBEAT).arg(1).arg("duly:{17q}:seq");
        call.arg(format!("{:016x}", self.member_id))
            .arg(presence)
            .arg(1)
            .arg(1)
            .arg("old-node")
            .arg("");
        call.query_async::<redis::Value>(&mut self.connection).await.map(drop)
    }
}

/// Sends a heartbeat of a node of this build.
async fn heartbeat_reply(store: &RedisStore, member_id: u64) -> HeartbeatReply {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let nodes = Store::deployment(store).expect("nodes share it");
    let list = nodes.coordinators();
    let heartbeat = Heartbeat {
        list: list.version,
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        member_id: MemberId(member_id),
        name: "new-node".to_owned(),
        protocols: (2, 2),
        presence: MembershipStage::Here,
        waits: NamespaceFilter::default(),
        dead: Vec::new(),
    };
    nodes.heartbeat(list.shards[0], heartbeat).await.expect("it is answered")
}

#[tokio::test(flavor = "multi_thread")]
async fn old_and_new_nodes_never_act_at_the_same_time() {
    let server = Server::start(&[]);
    drop(open(&options(&server.url(), 4)).await);
    make_older(server.port());
    let mut leaves = OldNode::new(&server, 1).await;
    let mut dies = OldNode::new(&server, 2).await;
    let mut is_cut_off = OldNode::new(&server, 3).await;
    for node in [&mut leaves, &mut dies, &mut is_cut_off] {
        node.heartbeat("joining").await.expect("it joins");
    }
    let store = open(&options(&server.url(), 4)).await;
    // While an old node sends heartbeats, no new one is a member, for any length of time.
    for _ in 0..20 {
        let HeartbeatReply::Waiting(names) = heartbeat_reply(&store, 10).await else {
            panic!("an old node acts")
        };
        assert!(names.iter().any(|name| name == "old-node"), "{names:?}");
        for node in [&mut leaves, &mut dies] {
            node.heartbeat("here").await.expect("it goes on");
        }
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    assert_eq!(tell(server.port(), &format!("HGET {RECORD} format")), "4", "they may start again");
    // The node without heartbeats was evicted, and the others stay.
    let HeartbeatReply::Waiting(names) = heartbeat_reply(&store, 10).await else {
        panic!("an old node acts")
    };
    assert_eq!(names.len(), 2);
    leaves.heartbeat("left").await.expect("it leaves");
    let HeartbeatReply::Waiting(_) = heartbeat_reply(&store, 10).await else {
        panic!("an old node acts")
    };
    until("the one that died is evicted", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        matches!(heartbeat_reply(&store, 10).await, HeartbeatReply::Members { .. }).then_some(())
    })
    .await;
    // From now on every call of an old node fails.
    for node in [&mut leaves, &mut dies, &mut is_cut_off] {
        for presence in ["joining", "here", "leaving"] {
            node.heartbeat(presence).await.expect_err("it never acts again");
        }
    }
    assert_eq!(tell(server.port(), &format!("HGET {RECORD} format")), "5", "none starts again");
    // A node that starts later knows it from any shard.
    let second = RedisStore::open(&options(&server.url(), 4)).await.expect("it opens");
    assert!(
        matches!(heartbeat_reply(&second, 11).await, HeartbeatReply::Members { members, .. } if members.len() == 2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_format_is_refused() {
    let server = Server::start(&[]);
    drop(open(&options(&server.url(), 4)).await);
    for format in ["3", "8"] {
        tell(server.port(), &format!("HSET {RECORD} format {format}"));
        let error = RedisStore::open(&options(&server.url(), 4)).await.expect_err("it is refused");
        assert!(matches!(error, OpenError::Format { .. }), "{error}");
    }
    let refusal = refused(&options(&server.url(), 4)).await;
    assert!(refusal.contains("format 8"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_features_are_refused_by_name_and_kept() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 1)).await;
    let port = server.port();
    let (marker, features) = ("duly:{17q}:marker", "features later,other");
    for key in [RECORD, marker] {
        tell(port, &format!("HSET {key} format 7 {features}"));
    }
    // A node that runs adds a feature of its own: no name is lost.
    change(&store, put(0)).await.expect("it is changed");
    for key in [RECORD, marker] {
        assert_eq!(tell(port, &format!("HGET {key} format")), "7");
        assert_eq!(tell(port, &format!("HGET {key} features")), "later,other,keys");
    }
    drop(store);
    let refusal = refused(&options(&server.url(), 1)).await;
    assert!(refusal.contains("later, other"), "{refusal}");
    // The record is lost: the marker says it too.
    tell(port, &format!("DEL {RECORD}"));
    let refusal = refused(&options(&server.url(), 1)).await;
    assert!(refusal.contains("later, other"), "{refusal}");
}
