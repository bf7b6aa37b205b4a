//! One server that loses its scripts, goes down, has unsafe settings, or has replicas or none.

use std::time::Duration;

use duly_core::{Millis, Settings, State};
use duly_store::{
    Error, MemberId, Operation, Outcome, Owner, SettleOutcome, SettleVerdict, Store, Timers,
    query::ShardFault,
};
use duly_store_redis::{Check, RedisStore};
use futures::FutureExt;

use crate::{
    calls::{
        allowing, apply, claim_all, id, name, open, open_whose_replica_is_lost, options, put,
        refused, request, schedule, schedule_op, settle, shard, until,
    },
    delay_proxy::DelayProxy,
    server::{Server, free_port, tell},
};

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_missing_on_a_server_are_sent_again() {
    let server = Server::start(&[]);
    let store = open(&options(&url(&server), 4)).await;
    let forget = || assert_eq!(tell(server.port(), "SCRIPT FLUSH"), "+OK");
    for round in 0..3 {
        let text = format!("t{round}");
        forget();
        assert!(matches!(schedule(&store, &text, Millis::ZERO).await, Outcome::Created(_)));
        forget();
        let firings = claim_all(&store).await.expect("a claim");
        assert_eq!(firings.len(), 1);
        forget();
        let settled = settle(&store, &firings[0], SettleVerdict::Ack).await;
        assert_eq!(settled, Ok(SettleOutcome::Ok));
        forget();
        put(&store, Settings::default()).await;
        forget();
        let view = store.get(shard(&store, &id(&text)), name(), id(&text), u64::MAX).await;
        assert_eq!(view.expect("a read").map(|view| view.state), Some(State::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_acknowledged_timers_survive_server_restarts() {
    let mut server = Server::start(&[]);
    let store = open(&options(&url(&server), 2)).await;
    assert!(matches!(schedule(&store, "before", Millis::ZERO).await, Outcome::Created(_)));
    server.kill();
    for _ in 0..3 {
        let outcome = schedule(&store, "meanwhile", Millis::ZERO).await;
        let is_refused =
            matches!(outcome, Outcome::Failed(Error::Unavailable { .. } | Error::InDoubt { .. }));
        assert!(is_refused, "nothing is acknowledged that is not stored: {outcome:?}");
    }
    store.poll().await;
    assert!(!store.health().not_ready.is_empty(), "it says that it cannot serve");
    server.start_again();
    until("the store works again", async || {
        matches!(schedule(&store, "after", Millis::ZERO).await, Outcome::Created(_)).then_some(())
    })
    .await;
    let mut found = Vec::new();
    for firing in claim_all(&store).await.expect("a claim") {
        found.push(firing.id.to_string());
    }
    found.sort();
    assert_eq!(found, ["after", "before"]);
    store.poll().await;
    assert_eq!(store.health().not_ready, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn p2_waiting_for_wakeups_survives_a_server_that_comes_back() {
    let mut server = Server::start(&[]);
    let store = open(&options(&url(&server), 1)).await;
    let mut wakeups = store.wakeups(shard(&store, &id("a")));
    server.kill();
    server.start_again();
    // A new connection wakes once, as messages may have been lost.
    wakeups.changed().await.expect("the store is there");
    until("a due timer wakes", async || {
        wakeups.mark_unchanged();
        apply(&store, schedule_op("a", Millis::ZERO)).await.ok()?;
        let cancel = Operation::Cancel { id: id("a"), if_revision: None };
        apply(&store, cancel).await.ok()?;
        let patience = Duration::from_millis(500);
        tokio::time::timeout(patience, wakeups.changed()).await.ok()?.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_changes_without_required_replicas_are_in_doubt() {
    let server = Server::start(&[]);
    let mut wanted = options(&url(&server), 2);
    let store = open(&wanted).await;
    (wanted.min_replicas, wanted.replication_timeout) = (1, Duration::from_millis(100));
    let careful = open_whose_replica_is_lost(&server, &wanted).await;
    let outcome = schedule(&careful, "a", Millis::from_secs(60)).await;
    assert!(matches!(outcome, Outcome::Failed(Error::InDoubt { .. })), "{outcome:?}");
    // The other calls do not wait in vain: nothing is done, and the cause is reported.
    let outcome = schedule(&careful, "b", Millis::from_secs(60)).await;
    let text = format!("{outcome:?}");
    assert!(text.contains("Unavailable") && text.contains("start the replicas"), "{text}");
    until("the health names the shards", async || {
        careful.poll().await;
        let health = careful.health();
        let faults = health.unavailable_shards.iter().map(|(_, fault)| *fault);
        assert!(health.warnings.iter().chain(&health.not_ready).any(|it| it.contains("shard 0,1")));
        faults.eq([ShardFault::NoReplicas; 2]).then_some(())
    })
    .await;
    let view = careful.get(shard(&careful, &id("a")), name(), id("a"), u64::MAX).await;
    assert!(view.expect("a read").is_some(), "it was done, and no replica has confirmed it");

    let replica = Server::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    until("the replica follows", async || {
        let outcome = schedule(&careful, "b", Millis::from_secs(60)).await;
        matches!(outcome, Outcome::Created(_) | Outcome::Existing(_)).then_some(())
    })
    .await;
    until("the same call again is right", async || {
        let outcome = schedule(&careful, "a", Millis::from_secs(60)).await;
        let is_late =
            matches!(outcome, Outcome::Failed(Error::InDoubt { .. } | Error::Unavailable { .. }));
        assert!(is_late || matches!(outcome, Outcome::Existing(_)), "{outcome:?}");
        (!is_late).then_some(())
    })
    .await;
    drop(replica);
    assert!(matches!(schedule(&store, "c", Millis::ZERO).await, Outcome::Created(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_unsafe_settings_are_refused_unless_allowed() {
    let server = Server::start(&["--appendonly", "no"]);
    let wanted = options(&url(&server), 1);
    let refusal = refused(&wanted).await;
    assert!(refusal.contains("appendonly") && refusal.contains("no_append_only"), "{refusal}");
    RedisStore::open(&allowing(wanted.clone(), Check::NoAppendOnly)).await.expect("it is allowed");
    for setting in ["maxmemory 100mb", "maxmemory-policy allkeys-lru", "appendonly yes"] {
        assert_eq!(tell(server.port(), &format!("CONFIG SET {setting}")), "+OK");
    }
    let refusal = refused(&wanted).await;
    assert!(refusal.contains("allkeys-lru") && refusal.contains("eviction"), "{refusal}");
    RedisStore::open(&allowing(wanted, Check::Eviction)).await.expect("it is allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_is_one_clear_message() {
    let refusal = refused(&options("http://localhost", 1)).await;
    assert!(refusal.contains("redis-cluster://"), "{refusal}");
    let mut unused = options(&format!("redis://127.0.0.1:{}", free_port()), 1);
    unused.connect_within = Duration::from_secs(1);
    let refusal = refused(&unused).await;
    assert!(refusal.starts_with("cannot reach Redis at 127.0.0.1:"), "{refusal}");
    let server = Server::start(&["--requirepass", "secret"]);
    let refusal = refused(&options(&format!("redis://127.0.0.1:{}", server.port()), 1)).await;
    assert!(refusal.to_lowercase().contains("auth"), "{refusal}");
    let url = format!("redis://:secret@127.0.0.1:{}", server.port());
    open(&options(&url, 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_abandoned_claim_is_handed_back_uncounted() {
    let server = Server::start(&[]);
    let store = open(&options(&url(&server), 1)).await;
    let place = shard(&store, &id("a"));
    assert!(matches!(schedule(&store, "a", Millis::ZERO).await, Outcome::Created(_)));
    let mut taken_back = 0;
    for _ in 0..200 {
        // The claim is sent, and dropped before the reply arrives.
        let claim = store.claim(place, request(Owner::Consumer { lease: None }));
        if let Some(claimed) = claim.now_or_never() {
            // The reply came before the poll: then there is nothing to hand back.
            for firing in claimed.expect("a claim").firings {
                let settled = settle(&store, &firing, SettleVerdict::Release).await;
                assert_eq!(settled, Ok(SettleOutcome::Ok));
            }
        }
        let firing =
            until("it is there again", async || claim_all(&store).await.expect("a claim").pop())
                .await;
        assert_eq!(firing.attempt, 1, "the claim that was dropped does not count");
        let settled = settle(&store, &firing, SettleVerdict::Release).await;
        assert_eq!(settled, Ok(SettleOutcome::Ok));
        let stats = store.stats(place, name()).await.expect("counts").expect("a namespace");
        taken_back = stats.totals.fired;
        assert_eq!(stats.totals.failed, 0);
    }
    assert!(taken_back >= 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_stores_of_one_deployment_share_tokens_and_no_others() {
    let (server, other) = (Server::start(&[]), Server::start(&[]));
    let (one, two) =
        (open(&options(&url(&server), 8)).await, open(&options(&url(&server), 64)).await);
    assert_eq!(two.shards(), 8, "a deployment keeps its number of shards");
    let elsewhere = open(&options(&url(&other), 8)).await;
    schedule(&one, "a", Millis::ZERO).await;
    schedule(&elsewhere, "a", Millis::ZERO).await;
    let firing = claim_all(&two).await.expect("a claim").remove(0);
    let settled = settle(&elsewhere, &firing, SettleVerdict::Ack).await;
    assert_eq!(settled, Ok(SettleOutcome::InvalidToken));
    assert_eq!(settle(&one, &firing, SettleVerdict::Ack).await, Ok(SettleOutcome::Ok));
    assert_eq!(settle(&two, &firing, SettleVerdict::Ack).await, Ok(SettleOutcome::AlreadySettled));
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_full_memory_refuses_new_timers_and_lets_old_ones_end() {
    let server = Server::start(&[]);
    let store = open(&options(&url(&server), 1)).await;
    schedule(&store, "a", Millis::ZERO).await;
    schedule(&store, "b", Millis::from_secs(60)).await;
    assert_eq!(tell(server.port(), "CONFIG SET maxmemory 1mb"), "+OK");
    let outcome = schedule(&store, "c", Millis::ZERO).await;
    assert!(matches!(outcome, Outcome::Failed(Error::Overloaded { .. })), "{outcome:?}");
    let cancel = Operation::Cancel { id: id("b"), if_revision: None };
    let outcome = apply(&store, cancel).await.expect("a reply");
    assert!(matches!(outcome, Outcome::Cancelled { .. }), "{outcome:?}");
    let firing = claim_all(&store).await.expect("a claim").remove(0);
    assert_eq!(settle(&store, &firing, SettleVerdict::Ack).await, Ok(SettleOutcome::Ok));
    assert_eq!(tell(server.port(), "CONFIG SET maxmemory 0"), "+OK");
    assert!(matches!(schedule(&store, "c", Millis::ZERO).await, Outcome::Created(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_broken_connections_leave_no_orphaned_leases() {
    let server = Server::start(&[]);
    let proxy = DelayProxy::to(server.port());
    let store = open(&options(&proxy.url(), 1)).await;
    let place = shard(&store, &id("a"));
    for from in (0..20_000).step_by(10_000) {
        let all = (from..from + 10_000).map(|i| schedule_op(&format!("t{i}"), Millis::ZERO));
        let commands = all.map(crate::calls::command).collect();
        store.apply(place, commands).await.expect("they are scheduled");
    }
    // A node's lease has no end: one that is known to no node would never be released.
    let (mut answered, mut cut, mut lost) = (std::collections::BTreeSet::new(), 0, 0);
    for round in 0..24 {
        let mut request = request(Owner::Node(MemberId(77)));
        request.total_max = 2_000;
        request.lanes[0].first_max = 2_000;
        proxy.break_after(round % 8 * 7_000);
        match store.claim(place, request).await {
            Ok(claimed) => {
                cut += u32::from((1..2_000).contains(&claimed.firings.len()));
                for firing in claimed.firings {
                    assert!(answered.insert(firing.id.to_string()), "{} came twice", firing.id);
                }
            }
            Err(error) => {
                lost += 1;
                assert_ne!(error.retry(), duly_core::error_code::Retry::Never);
            }
        }
    }
    assert!(cut > 0 && lost > 0, "{cut} were cut short, and {lost} had no reply");
    let known = answered.len() as u64;
    until("only what was answered is in flight", async || {
        let stats = store.stats(place, name()).await.ok()??;
        (stats.in_flight == known).then_some(())
    })
    .await;
    let stats = store.stats(place, name()).await.expect("counts").expect("a namespace");
    assert_eq!((stats.pending(), stats.totals.failed), (20_000, 0), "and nothing counts");
    assert_eq!(crate::audit::audit(server.port()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_after_idle_connections_broke_are_not_in_doubt() {
    let server = Server::start(&[]);
    let store = open(&options(&url(&server), 1)).await;
    for round in 0..20 {
        tell(server.port(), "CLIENT KILL TYPE normal SKIPME yes");
        // Long enough for a connection to count as idle.
        tokio::time::sleep(Duration::from_millis(120)).await;
        let outcome = schedule(&store, &format!("t{round}"), Millis::ZERO).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_format_is_refused_and_empty_database_created_once() {
    let server = Server::start(&[]);
    let open = async |shards| RedisStore::open(&options(&url(&server), shards)).await;
    let opened = futures::future::join_all([8, 16, 32].map(open)).await;
    let shards: Vec<u16> =
        opened.iter().map(|store| store.as_ref().expect("it opens").shards()).collect();
    assert!(shards.iter().all(|count| *count == shards[0]), "one of them founded it: {shards:?}");
    drop(opened);
    assert_eq!(tell(server.port(), "HSET duly:{17q}:deployment format 99"), ":0");
    let refusal = refused(&options(&url(&server), 8)).await;
    assert!(refusal.contains("format 99") && refusal.contains("reads 7"), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_changes_wait_for_disks_with_on_disk() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut wanted = options(&url(&server), 2);
    wanted.on_disk = true;
    let speaks = tell(server.port(), "INFO server");
    let speaks = speaks.lines().find_map(|line| line.strip_prefix("redis_version:"));
    if speaks.is_some_and(|version| version.starts_with("7.0.")) {
        let refusal = refused(&wanted).await;
        assert!(refusal.contains("7.2 or newer"), "{refusal}");
        return;
    }
    wanted.replication_timeout = Duration::from_secs(10);
    let store = open(&wanted).await;
    assert!(matches!(schedule(&store, "a", Millis::ZERO).await, Outcome::Created(_)));
    (wanted.min_replicas, wanted.replication_timeout) = (1, Duration::from_millis(100));
    let careful = open_whose_replica_is_lost(&server, &wanted).await;
    let outcome = schedule(&careful, "b", Millis::ZERO).await;
    assert!(matches!(outcome, Outcome::Failed(Error::InDoubt { .. })), "{outcome:?}");
}
