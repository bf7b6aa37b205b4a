//! A Cluster whose masters fail and whose slots move.

use std::{collections::BTreeSet, time::Duration};

use duly_core::{
    Millis,
    payload::{Form, Payload},
    shard::ShardId,
};
use duly_store::{
    Operation, Outcome, Owner, SettleOutcome, SettleVerdict, Store, Timers, query::ShardFault,
};

use crate::{
    calls::{
        apply, claim_all, id, name, open, options, request, schedule, schedule_op, settle, shard,
        until,
    },
    cluster::{Cluster, SlotMove},
    harness::Servers,
    server::tell,
};

/// A key of the only shard of a store with one.
const ONLY_SHARD: &str = "duly:{17q}:seq";

/// Schedules until the call succeeds.
async fn acknowledged(store: &duly_store_redis::RedisStore, text: &str) {
    until("a schedule is acknowledged", async || {
        let outcome = schedule(store, text, Millis::ZERO).await;
        matches!(outcome, Outcome::Created(_) | Outcome::Existing(_)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_confirmed_changes_survive_the_loss_of_a_master() {
    let mut cluster = Cluster::start(3, 1);
    let mut wanted = options(&cluster.url(), 64);
    (wanted.min_replicas, wanted.replication_timeout) = (1, Duration::from_secs(2));
    let store = open(&wanted).await;
    // A store that waits for no replica: the promoted replica has none of its own.
    wanted.min_replicas = 0;
    let lenient = open(&wanted).await;
    let mut expected = BTreeSet::new();
    for i in 0..200 {
        let text = format!("t{i}");
        acknowledged(&store, &text).await;
        expected.insert(text);
    }
    cluster.masters[1].kill();
    // While the replica takes over, acknowledged timers are stored; the others are sent again.
    let store = lenient;
    for i in 200..300 {
        let text = format!("t{i}");
        acknowledged(&store, &text).await;
        expected.insert(text);
    }
    let mut found = BTreeSet::new();
    for firing in
        until("every shard can be claimed from", async || claim_all(&store).await.ok()).await
    {
        found.insert(firing.id.to_string());
        assert_eq!(settle(&store, &firing, SettleVerdict::Ack).await, Ok(SettleOutcome::Ok));
    }
    // Firings of a claim that failed because of another shard come again when their lease ends.
    let missing: Vec<_> = expected.difference(&found).collect();
    for text in missing {
        let view = store.get(shard(&store, &id(text)), name(), id(text), u64::MAX).await;
        assert!(view.expect("a read").is_some(), "{text} was acknowledged, and is gone");
    }
    assert!(found.is_subset(&expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_move_to_another_master_are_found_there() {
    let cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), 1)).await;
    schedule(&store, "a", Millis::ZERO).await;
    let moving = SlotMove::of(&cluster, ONLY_SHARD);
    moving.begin();
    // A tool moves the oldest key of a slot last, so an interrupted move leaves it behind.
    let (oldest, others): (Vec<_>, Vec<_>) =
        moving.keys().into_iter().partition(|key| key.ends_with(":seq"));
    others.iter().for_each(|key| moving.take(key));
    let outcome = schedule(&store, "b", Millis::ZERO).await;
    let named = |outcome: &Outcome| {
        let text = format!("{outcome:?}");
        assert!(text.contains("shard 0") && text.contains("redis-cli --cluster fix"), "{text}");
    };
    named(&outcome);
    store.poll().await;
    assert_eq!(store.health().unavailable_shards, [(ShardId(0), ShardFault::OpenSlot)]);
    let refused = store.deployment().expect("it is shared").repair(ShardId(0)).await;
    assert!(format!("{refused:?}").contains("--cluster fix"), "{refused:?}");
    oldest.iter().for_each(|key| moving.take(key));
    // The slot is moving, and only some of its keys may be at the new server. A script there would
    // not see the rest. So the client does not ask that server before the slot has moved
    // completely.
    assert!(tell(moving.from.port(), "GET duly:{17q}:seq").starts_with("-ASK"));
    let outcome = schedule(&store, "b", Millis::ZERO).await;
    named(&outcome);
    store.poll().await;
    let health = store.health();
    assert_eq!(health.unavailable_shards, [(ShardId(0), ShardFault::OpenSlot)], "{health:?}");
    let cause = |reason: &&String| reason.contains("has not ended") && reason.contains("or all");
    let told = health.not_ready.iter().find(cause).expect("the cause, with all keys moved");
    assert!(told.contains("redis-cli --cluster fix"), "{told}");
    moving.end();
    // The slot has moved completely: the old master replies MOVED.
    assert!(tell(moving.from.port(), "GET duly:{17q}:seq").starts_with("-MOVED"));
    until("the next poll finds the end of the move", async || {
        let outcome = schedule(&store, "c", Millis::ZERO).await;
        matches!(outcome, Outcome::Created(_)).then_some(())
    })
    .await;
    let firings = claim_all(&store).await.expect("a claim");
    assert_eq!(firings.len(), 2);
    for firing in &firings {
        assert_eq!(settle(&store, firing, SettleVerdict::Ack).await, Ok(SettleOutcome::Ok));
    }
    let mut wakeups = store.wakeups(shard(&store, &id("d")));
    until("a due timer wakes from its new master", async || {
        wakeups.mark_unchanged();
        schedule(&store, "d", Millis::ZERO).await;
        for firing in claim_all(&store).await.ok()? {
            settle(&store, &firing, SettleVerdict::Ack).await.ok()?;
        }
        let cancelled = duly_store::Operation::Cancel { id: id("d"), if_revision: None };
        crate::calls::apply(&store, cancelled).await.ok()?;
        tokio::time::timeout(Duration::from_millis(300), wakeups.changed()).await.ok()?.ok()
    })
    .await;
}

/// While the key of a payload is at another server than the rest of its shard, a claim is refused (by
/// Redis 7.0 itself), and grants nothing without it: a node's lease has no end.
#[tokio::test(flavor = "multi_thread")]
async fn p3_p11_claims_never_omit_a_payload_that_moved_first() {
    let cluster = Cluster::start(3, 0);
    let store = open(&options(&cluster.url(), 1)).await;
    let large = Payload { form: Form::Text, bytes: "x".repeat(100_000).into() };
    let mut operation = schedule_op("a", Millis::ZERO);
    if let Operation::Schedule { schedule, .. } = &mut operation {
        schedule.spec.payload = Some(large.clone());
    }
    apply(&store, operation).await.expect("it is answered");
    let moving = SlotMove::of(&cluster, ONLY_SHARD);
    // Without this key every call of the shard is redirected before it reads the payload.
    tell(moving.from.port(), "INCR duly:{17q}:seq");
    moving.begin();
    let (first, rest): (Vec<_>, Vec<_>) =
        moving.keys().into_iter().partition(|key| key.contains(":p:"));
    assert_eq!(first.len(), 1, "the payload is stored apart: {rest:?}");
    moving.take(&first[0]);
    let member_id = duly_store::MemberId(4_713);
    let claimed = store.claim(ShardId(0), request(Owner::Node(member_id))).await;
    assert!(matches!(claimed, Err(duly_store::Error::Unavailable { .. })), "{claimed:?}");
    for key in rest {
        moving.take(&key);
    }
    moving.end();
    let firing = until("what the claim had granted is handed back", async || {
        store.claim(ShardId(0), request(Owner::Node(member_id))).await.ok()?.firings.pop()
    })
    .await;
    assert_eq!((firing.id.as_str(), &firing.spec.payload), ("a", &Some(large)));
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_member_is_refused_as_a_single_server() {
    let cluster = Cluster::start(3, 0);
    let url = format!("redis://127.0.0.1:{}", cluster.port());
    let said = crate::calls::refused(&options(&url, 4)).await;
    assert!(said.contains("redis-cluster://"), "{said}");
}
