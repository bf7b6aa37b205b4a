//! Several shards: the place of each timer, namespaces that all of them have, limits over all.

use duly_core::{
    Millis, Settings, State,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Error, ListRequest, Namespaces, Operation, Outcome, Refusal, SettleOutcome, SettleVerdict,
    Timers,
    namespaces::{Activity, DeleteMode, Put, Secrets},
    query::ListState,
};
use duly_store_redis::RedisStore;

use crate::{
    calls::{
        apply, claim_all, command, coordinator_keys, id, name, open, options, put, schedule,
        schedule_op, settle, shard,
    },
    cluster::Cluster,
    server::{Server, list, tell},
};

async fn store(shards: u16) -> (Server, RedisStore) {
    let server = Server::start(&[]);
    let url = format!("redis://127.0.0.1:{}", server.port());
    let store = open(&options(&url, shards)).await;
    (server, store)
}

fn shards(store: &RedisStore) -> impl Iterator<Item = ShardId> + use<> {
    (0..store.shards()).map(ShardId)
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_of_all_shards_fire_and_end() {
    let (_server, store) = store(64).await;
    for i in 0..300 {
        let outcome = schedule(&store, &format!("t{i}"), Millis::ZERO).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }
    let mut pending = 0;
    let mut used = 0;
    for shard in shards(&store) {
        let stats = store.stats(shard, name()).await.expect("counts").expect("everywhere");
        pending += stats.pending();
        used += u64::from(stats.pending() > 0);
        let request = ListRequest::new(name(), ListState::Pending);
        let page = store.list(shard, request).await.expect("a page");
        assert_eq!(page.timers.len() as u64, stats.pending());
    }
    assert_eq!(pending, 300);
    assert!(used > 50, "they are spread: {used} of 64 shards have some");
    let firings = claim_all(&store).await.expect("claims");
    assert_eq!(firings.len(), 300);
    for firing in &firings {
        assert_eq!(settle(&store, firing, SettleVerdict::Ack).await, Ok(SettleOutcome::Ok));
    }
    for firing in &firings {
        let view = store.get(firing.token.shard(), name(), firing.id.clone(), u64::MAX).await;
        assert_eq!(view.expect("a read").map(|view| view.state), Some(State::Finished));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_another_shard_is_refused() {
    let (_server, store) = store(4).await;
    let own = shard(&store, &id("a"));
    for place in shards(&store) {
        let command = command(schedule_op("a", Millis::from_secs(60)));
        let outcome = store.apply(place, vec![command]).await.expect("a reply").remove(0);
        if place == own {
            assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        } else {
            assert!(matches!(outcome, Outcome::Refused(Refusal::Invalid(_))), "{outcome:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_a_pause_reaches_every_shard() {
    let (_server, store) = store(16).await;
    for i in 0..50 {
        schedule(&store, &format!("t{i}"), Millis::ZERO).await;
    }
    store.set_activity(name(), Activity::Paused).await.expect("it is paused");
    assert!(claim_all(&store).await.expect("claims").is_empty());
    store.set_activity(name(), Activity::Running).await.expect("it runs");
    assert_eq!(claim_all(&store).await.expect("claims").len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_limit_over_shards_is_never_exceeded() {
    let (_server, store) = store(8).await;
    let mut settings = Settings::default();
    settings.limits.max_pending = Some(20);
    put(&store, settings).await;
    let mut created = 0;
    for i in 0..400 {
        match schedule(&store, &format!("t{i}"), Millis::from_secs(60)).await {
            Outcome::Created(_) => created += 1,
            Outcome::Refused(Refusal::QuotaExceeded { .. }) => {}
            other => panic!("expected a timer or a refusal, got {other:?}"),
        }
    }
    assert_eq!(created, 20, "with enough ids every quota is used up, and no more");
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_t4_a_namespace_ends_in_every_shard() {
    let (_server, store) = store(16).await;
    for i in 0..50 {
        schedule(&store, &format!("t{i}"), Millis::ZERO).await;
    }
    let kept = store.delete_namespace(name(), DeleteMode::IfEmpty).await;
    let expected = Error::NamespaceNotEmpty { name: name().to_string(), pending: 50, dead: 0 };
    assert_eq!(kept, Err(expected));
    assert_eq!(store.delete_namespace(name(), DeleteMode::Force).await, Ok(()));
    for place in shards(&store) {
        assert_eq!(store.stats(place, name()).await, Ok(None));
    }
    let gone = store.delete_namespace(name(), DeleteMode::Force).await;
    assert_eq!(gone, Err(Error::UnknownNamespace(name().to_string())));
    put(&store, Settings::default()).await;
    assert!(claim_all(&store).await.expect("claims").is_empty(), "made again, it is empty");
    for place in shards(&store) {
        let stats = store.stats(place, name()).await.expect("counts");
        assert_eq!(stats.map(|stats| stats.pending()), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_operations_of_one_call_on_one_id_keep_their_order() {
    let (_server, store) = store(1).await;
    let cancel = |text: &str| Operation::Cancel { id: id(text), if_revision: None };
    let fire = |text: &str| Operation::Fire { id: id(text) };
    for round in 0..20 {
        let text = format!("t{round}");
        let other = format!("o{round}");
        let operations = vec![
            schedule_op(&text, Millis::from_secs(60)),
            schedule_op(&other, Millis::from_secs(60)),
            fire(&text),
            cancel(&text),
            cancel(&other),
            cancel(&text),
            schedule_op(&text, Millis::from_secs(90)),
            fire(&other),
        ];
        let commands = operations.into_iter().map(command).collect();
        let outcomes = store.apply(ShardId(0), commands).await.expect("a reply");
        let kinds: Vec<&str> = outcomes
            .iter()
            .map(|outcome| match outcome {
                Outcome::Created(_) => "created",
                Outcome::Changed(_) => "changed",
                Outcome::Cancelled { already: false, .. } => "cancelled",
                Outcome::Cancelled { already: true, .. } => "already",
                Outcome::Refused(refusal) => refusal.code().as_str(),
                _ => "other",
            })
            .collect();
        let expected = [
            "created",
            "created",
            "changed",
            "cancelled",
            "cancelled",
            "already",
            "created",
            "cancelled",
        ];
        assert_eq!(kinds, expected, "round {round}");
        apply(&store, cancel(&text)).await.expect("a reply");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_namespace_change_is_finished() {
    let (server, store) = store(8).await;
    let keys = |pattern: &str| list(server.port(), &format!("KEYS {pattern}"));
    let coordinator = coordinator_keys(server.port());
    let everywhere = || {
        let is_known = |key: &String| tell(server.port(), &format!("HEXISTS {key} shop")) == ":1";
        keys("duly:*:nn").iter().filter(|key| is_known(key)).count()
    };
    let forget = || {
        for key in keys("duly:*:nn").into_iter().filter(|key| !key.starts_with(&coordinator)) {
            let shard = key.strip_suffix("nn").expect("it was asked for");
            assert_eq!(tell(server.port(), &format!("DEL {key} {shard}names {shard}vers")), ":3");
        }
    };
    forget();
    assert_eq!(everywhere(), 1);
    // Repeating the call finishes the change.
    let put = Put::IfAbsent(Box::default());
    let (_, new) = store.put_namespace(name(), put).await.expect("a reply");
    assert!(!new);
    assert_eq!(everywhere(), 8);
    // Without it, a poll finds the unfinished change.
    forget();
    let note = format!("ZADD {coordinator}todo 0 \"put\\x00shop\"");
    assert_eq!(tell(server.port(), &note), ":1");
    store.poll().await;
    assert_eq!(everywhere(), 8);
    assert_eq!(keys("duly:*:todo"), Vec::<String>::new(), "nothing is left to be done");
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_unfinished_end_is_finished_before_a_new_namespace() {
    let (server, store) = store(8).await;
    for i in 0..50 {
        schedule(&store, &format!("t{i}"), Millis::ZERO).await;
    }
    let coordinator = coordinator_keys(server.port());
    // The coordinator shard has recorded the end, and no other shard knows of it.
    let settings = list(server.port(), &format!("KEYS {coordinator}n:*")).remove(0);
    let (_, num) = settings.split_once(":n:").expect("a number");
    assert_eq!(tell(server.port(), &format!("HSET {coordinator}ends {num} \"9\\x00shop\"")), ":1");
    let forgotten = format!("DEL {coordinator}nn {coordinator}names");
    assert_eq!(tell(server.port(), &forgotten), ":2");
    put(&store, Settings::default()).await;
    assert!(claim_all(&store).await.expect("claims").is_empty(), "made again, it is empty");
    let mut left = 0;
    for place in shards(&store) {
        left += store.ready(place, None, 10).await.expect("a reply").lanes.len();
    }
    assert!(left <= 1, "only its coordinator shard may keep the old one, as its end was invented");
    schedule(&store, "new", Millis::ZERO).await;
    assert_eq!(claim_all(&store).await.expect("claims").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_raised_limit_applies_in_reachable_shards() {
    const SHARDS: u16 = 256;
    let mut cluster = Cluster::start(3, 0);
    for master in &cluster.masters {
        tell(master.port(), "CONFIG SET cluster-require-full-coverage no");
    }
    let store = open(&options(&cluster.url(), SHARDS)).await;
    store.delete_namespace(name(), DeleteMode::Force).await.expect("it goes");
    let at_most = |max| {
        let mut settings = Settings::default();
        settings.limits.max_pending = Some(max);
        Put::Replace { settings: Box::new(settings), secrets: Secrets::Set }
    };
    store.put_namespace(name(), at_most(3_000)).await.expect("it is made");
    let coordinator = shard_of(name().as_str(), "", SHARDS).0;
    let master = |shard: u16| usize::from(shard) * 3 / usize::from(SHARDS);
    // The shards that are down come before the last shard.
    let away = usize::from(master(coordinator) == 0);
    let near = SHARDS - 1 - u16::from(coordinator == SHARDS - 1);
    cluster.masters[away].kill();
    let raised = store.put_namespace(name(), at_most(30_000)).await;
    assert!(matches!(raised, Err(Error::InDoubt { .. })), "{raised:?}");
    for server in cluster.masters.iter().enumerate().filter(|(i, _)| *i != away).map(|(_, own)| own)
    {
        for key in list(server.port(), "KEYS duly:*:n:*") {
            let limit = tell(server.port(), &format!("HGET {key} max_pending"));
            assert_eq!(limit, "30000", "{key}");
        }
    }
    // The quota of the higher limit can be used, although no other shard can be asked.
    let ids = (0..).map(|i| format!("x{i}")).filter(|text| shard(&store, &id(text)).0 == near);
    for text in ids.take(100) {
        let outcome = schedule(&store, &text, Millis::from_secs(3_600)).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }
}
