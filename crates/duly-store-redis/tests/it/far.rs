//! A distant server, and replicas that confirm late: calls must not block each other.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use duly_core::{Millis, shard::ShardId};
use duly_store::{
    Error, MemberId, Outcome, Store,
    deployment::{Heartbeat, MembershipStage, NamespaceFilter},
};
use duly_store_redis::RedisStore;
use futures::future::join_all;

use crate::{
    calls::{apply, open, open_whose_replica_is_lost, options, schedule, schedule_op, until},
    delay_proxy::DelayProxy,
    server::Server,
};

fn heartbeat(member_id: u64) -> Heartbeat {
    Heartbeat {
        member_id: MemberId(member_id),
        number: 1,
        list: 1,
        name: "n".to_owned(),
        protocols: (1, 1),
        presence: MembershipStage::Joining,
        waits: NamespaceFilter::default(),
        dead: Vec::new(),
    }
}

async fn joins(store: &RedisStore, member_id: u64) -> bool {
    let nodes = store.deployment().expect("nodes share it");
    nodes.heartbeat(ShardId(0), heartbeat(member_id)).await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_share_one_check_of_an_idle_connection() {
    let server = Server::start(&[]);
    let proxy = DelayProxy::to(server.port());
    let mut wanted = options(&proxy.url(), 1);
    wanted.connections = 1;
    let store = open(&wanted).await;
    proxy.set_delay_ms(200);
    // Longer than the idle time after which a connection is checked.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = proxy.state.pings.load(Ordering::SeqCst);
    let names: Vec<String> = (0..20).map(|i| format!("t{i}")).collect();
    join_all(names.iter().map(|text| schedule(&store, text, Millis::ZERO))).await;
    let asked = proxy.state.pings.load(Ordering::SeqCst) - before;
    // At most one PING for the calls, and one for the poll of the server.
    assert!((1..=2).contains(&asked), "20 calls asked {asked} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_share_one_timeout_of_a_dead_connection() {
    let server = Server::start(&[]);
    let proxy = DelayProxy::to(server.port());
    let mut wanted = options(&proxy.url(), 1);
    (wanted.connections, wanted.answer_within) = (1, Duration::from_secs(1));
    let store = open(&wanted).await;
    // Data sent from now on never arrives, and blocks later data on the same connection.
    proxy.set_delay_ms(3_600_000);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = proxy.state.pings.load(Ordering::SeqCst);
    let names: Vec<String> = (0..20).map(|i| format!("t{i}")).collect();
    let began = Instant::now();
    let calls = join_all(names.iter().map(|text| schedule(&store, text, Millis::ZERO)));
    let heals = async {
        let pings = || proxy.state.pings.load(Ordering::SeqCst);
        until("it is asked", async || (pings() > before).then_some(())).await;
        proxy.set_delay_ms(0);
    };
    let (outcomes, ()) = tokio::join!(calls, heals);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))), "{outcomes:?}");
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "20 calls took {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_are_sent_without_a_connection_check() {
    let server = Server::start(&[]);
    let proxy = DelayProxy::to(server.port());
    let mut wanted = options(&proxy.url(), 1);
    wanted.connections = 1;
    let store = open(&wanted).await;
    assert!(joins(&store, 1).await);
    proxy.set_delay_ms(500);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let sent = Instant::now();
    assert!(joins(&store, 2).await);
    let took = sent.elapsed();
    assert!(took < Duration::from_millis(1_500), "one way there and one back, not two: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_do_not_wait_behind_replica_waits() {
    let server = Server::start(&[]);
    let mut wanted = options(&server.url(), 1);
    (wanted.connections, wanted.replication_timeout) = (1, Duration::from_secs(5));
    open(&wanted).await;
    wanted.min_replicas = 1;
    let store = open_whose_replica_is_lost(&server, &wanted).await;
    assert!(joins(&store, 1).await);
    let change = apply(&store, schedule_op("t", Millis::ZERO));
    let mut change = std::pin::pin!(change);
    let mut beats = 0;
    // There is no replica: the change is in doubt after five seconds.
    loop {
        tokio::select! {
            biased;
            joined = joins(&store, 2 + beats) => {
                assert!(joined);
                beats += 1;
            }
            answer = &mut change => {
                let in_doubt = matches!(&answer, Ok(Outcome::Failed(Error::InDoubt { .. })));
                assert!(in_doubt, "{answer:?}");
                break;
            }
            () = tokio::time::sleep(Duration::from_secs(2)) => panic!("no heartbeat came through"),
        }
        if beats == 1_000 {
            break;
        }
    }
    assert!(beats > 10, "{beats} beats in five seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn abandoned_connects_complete() {
    let mut server = Server::start(&[]);
    let proxy = DelayProxy::to(server.port());
    let mut wanted = options(&proxy.url(), 1);
    wanted.connections = 1;
    let store = open(&wanted).await;
    server.kill();
    until("its end is noticed", async || (!joins(&store, 1).await).then_some(())).await;
    server.start_again();
    proxy.set_delay_ms(100);
    // Less than a connect takes: four transfers of 100 ms and more.
    let patience = Duration::from_millis(450);
    let heard = until("a heartbeat is acknowledged", async || {
        let answer = tokio::time::timeout(patience, joins(&store, 2)).await;
        matches!(answer, Ok(true)).then_some(())
    });
    tokio::time::timeout(Duration::from_secs(20), heard)
        .await
        .expect("a heartbeat is acknowledged");
}
