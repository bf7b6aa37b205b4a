//! Limits over shards: never exceeded, and refused below the limit only for a moment, with any ids.

use std::time::{Duration, Instant};

use duly_core::{
    Millis, Schedule, Settings,
    limits::Limits,
    schedule::{IfExists, When},
    shard::shard_of,
};
use duly_store::{
    Limit, Namespaces, Operation, Outcome, Owner, Refusal, SettleVerdict, Timers,
    namespaces::{Activity, DeleteMode},
};
use duly_store_redis::RedisStore;
use futures::{StreamExt, stream};

use crate::{
    audit::audit,
    calls::{
        apply, command, id, name, open, options, put, request, schedule, schedule_op, settle,
        shard, until,
    },
    cluster::Cluster,
    server::{Server, tell},
};

const SHARDS: u16 = 64;
const LATER: Millis = Millis::from_secs(3_600);

fn limited(change: impl FnOnce(&mut Limits)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings.limits);
    settings
}

fn at_most(pending: u64) -> Settings {
    limited(|limits| limits.max_pending = Some(pending))
}

async fn store(settings: Settings) -> (Server, RedisStore) {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), SHARDS)).await;
    // A new namespace: a changed one gets a new allocation.
    store.delete_namespace(name(), DeleteMode::Force).await.expect("it goes");
    put(&store, settings).await;
    (server, store)
}

/// Returns `Ok` if a schedule operation made a timer, otherwise the limit that refused it.
async fn made(store: &RedisStore, text: &str) -> Result<(), Limit> {
    match schedule(store, text, LATER).await {
        Outcome::Created(_) => Ok(()),
        Outcome::Refused(Refusal::QuotaExceeded { quota, .. }) => Err(quota),
        other => panic!("expected a timer or a refusal, got {other:?}"),
    }
}

async fn cancel(store: &RedisStore, text: &str) {
    let outcome = apply(store, Operation::Cancel { id: id(text), if_revision: None }).await;
    assert!(matches!(outcome, Ok(Outcome::Cancelled { .. })), "{outcome:?}");
}

async fn pending(store: &RedisStore) -> u64 {
    let mut pending = 0;
    for shard in (0..store.shards()).map(duly_core::shard::ShardId) {
        let stats = store.stats(shard, name()).await.expect("counts");
        pending += stats.map_or(0, |stats| stats.pending());
    }
    pending
}

/// Returns the number of scripts that the server has executed.
fn scripts(server: &Server) -> u64 {
    let stats = tell(server.port(), "INFO commandstats");
    let calls =
        stats.split("cmdstat_evalsha:calls=").nth(1).and_then(|rest| rest.split(',').next());
    calls.and_then(|calls| calls.parse().ok()).expect("a count of calls")
}

/// Returns ids of one shard.
fn ids_of(store: &RedisStore, place: u16) -> impl Iterator<Item = String> + use<> {
    let shards = store.shards();
    (0_u32..)
        .map(|i| format!("x{i}"))
        .filter(move |text| shard_of(name().as_str(), text, shards).0 == place)
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_exactly_as_many_are_pending_as_allowed() {
    let (server, store) = store(at_most(50)).await;
    for i in 0..50 {
        assert_eq!(made(&store, &format!("t{i}")).await, Ok(()), "timer {i}");
    }
    let (mut dear, begin) = (0, Instant::now());
    for i in 50..60 {
        let before = scripts(&server);
        assert_eq!(made(&store, &format!("t{i}")).await, Err(Limit::MaxPending), "timer {i}");
        // All shards are polled once a second, not for each refusal.
        let calls = scripts(&server) - before;
        dear += u64::from(calls > 60);
    }
    assert!(dear <= 1 + begin.elapsed().as_secs(), "{dear} looks at all shards");
    cancel(&store, "t7").await;
    // A rebalance that found nothing is not repeated within a second.
    until("the limit has a rest again", async || made(&store, "t50").await.ok()).await;
    assert_eq!(made(&store, "t51").await, Err(Limit::MaxPending));
    assert_eq!(pending(&store).await, 50);
    assert_eq!(audit(server.port()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_batch_into_one_shard_has_the_whole_limit() {
    let (server, store) = store(at_most(500)).await;
    let place = shard(&store, &id("a"));
    let ids: Vec<String> = ids_of(&store, place.0).take(510).collect();
    let commands = ids.iter().map(|text| command(schedule_op(text, LATER))).collect();
    let before = scripts(&server);
    let outcomes = store.apply(place, commands).await.expect("a reply");
    let count = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Created(_))).count();
    let refused = |outcome: &&Outcome| {
        matches!(outcome, Outcome::Refused(Refusal::QuotaExceeded { quota: Limit::MaxPending, .. }))
    };
    assert_eq!((count, outcomes.iter().filter(refused).count()), (500, 10));
    // One rebalance polls every shard; each obtains more than one timer needs.
    let calls = scripts(&server) - before;

    assert!(calls < 10_000, "{calls} scripts");
    let other = (0..100).map(|i| format!("o{i}")).find(|text| shard(&store, &id(text)) != place);
    let other = other.expect("there are other shards");
    assert_eq!(made(&store, &other).await, Err(Limit::MaxPending));
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_ended_timers_of_other_shards_free_quota() {
    let (_server, store) = store(at_most(20)).await;
    for i in 0..20 {
        let mut timer = Schedule::new(id(&format!("t{i}")), When::After(Millis::ZERO));
        timer.spec.expire_after = Some(Millis::from_secs(3));
        let schedule = Box::new(timer);
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Keep };
        let outcome = apply(&store, operation).await;
        assert!(matches!(outcome, Ok(Outcome::Created(_))), "{outcome:?}");
    }
    assert_eq!(made(&store, "early").await, Err(Limit::MaxPending));
    // No claim has swept them.
    tokio::time::sleep(Duration::from_millis(3_200)).await;
    for i in 0..20 {
        assert_eq!(made(&store, &format!("u{i}")).await, Ok(()), "timer {i}");
    }
    assert_eq!(made(&store, "late").await, Err(Limit::MaxPending));
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_two_nodes_together_stay_below_the_limit() {
    let (server, first) = store(at_most(50)).await;
    let second = RedisStore::open(&options(&server.url(), SHARDS)).await.expect("it opens");
    let mut created = Vec::new();
    for round in 0..3 {
        let work = stream::iter(0..120).map(|i| {
            let store = if i % 2 == 0 { &first } else { &second };
            async move {
                let text = format!("r{round}-{i}");
                match schedule(store, &text, LATER).await {
                    Outcome::Created(_) => Some(text),
                    // Also when other calls have taken the rebalanced quota again and again.
                    Outcome::Refused(Refusal::QuotaExceeded {
                        quota: Limit::MaxPending, ..
                    }) => None,
                    other => panic!("{other:?}"),
                }
            }
        });
        created.extend(
            work.buffer_unordered(16).filter_map(async |made| made).collect::<Vec<_>>().await,
        );
        assert!(created.len() <= 50, "{} in round {round}", created.len());
        let count = created.len();
        for i in count..50 {
            let text = format!("fill{round}-{i}");
            until("all are taken", async || made(&second, &text).await.ok()).await;
            created.push(text);
        }
        assert_eq!(pending(&first).await, 50);
        assert_eq!(made(&first, "one-more").await, Err(Limit::MaxPending));
        for text in created.drain(..20) {
            cancel(&first, &text).await;
        }
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_changed_limit_holds_over_all_shards() {
    let (_server, store) = store(at_most(50)).await;
    // All timers go to one shard, which then has the quotas of the others.
    let place = shard(&store, &id("a")).0;
    let ids: Vec<String> = ids_of(&store, place).take(40).collect();
    for text in &ids {
        assert_eq!(made(&store, text).await, Ok(()));
    }
    // A change that leaves the limit as it is gives no shard its quota twice.
    store.set_activity(name(), Activity::Paused).await.expect("it is paused");
    store.set_activity(name(), Activity::Running).await.expect("it runs");
    let fill = async |prefix: &str| {
        let mut count = 0;
        for i in 0..100 {
            count += u64::from(made(&store, &format!("{prefix}{i}")).await.is_ok());
        }
        count
    };
    assert_eq!(fill("a").await, 10);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    put(&store, at_most(60)).await;
    assert_eq!(fill("b").await, 10, "a higher limit");
    put(&store, at_most(45)).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(fill("c").await, 0, "60 are pending, and 45 allowed");
    for text in &ids[..20] {
        cancel(&store, text).await;
    }
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(fill("d").await, 5, "40 are pending");
    put(&store, at_most(46)).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(fill("e").await, 1, "a little higher after it was lowered");
    put(&store, Settings::default()).await;
    assert_eq!(fill("f").await, 100, "no limit");
    put(&store, at_most(150)).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(fill("g").await, 4, "146 are pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_quotas_end_with_their_namespace() {
    let (server, store) = store(at_most(30)).await;
    for _ in 0..3 {
        let store = &store;
        // Transfers are under way while the namespace ends.
        let work = stream::iter(0..60).map(|i| async move {
            schedule(store, &format!("t{i}"), LATER).await;
        });
        let ending = async {
            tokio::time::sleep(Duration::from_millis(15)).await;
            store.delete_namespace(name(), DeleteMode::Force).await.expect("it ends");
        };
        tokio::join!(work.buffer_unordered(8).collect::<Vec<()>>(), ending);
        put(store, at_most(30)).await;
        let mut count = 0;
        for i in 100..150 {
            count += u64::from(made(store, &format!("t{i}")).await.is_ok());
        }
        assert_eq!(count, 30);
    }
    store.delete_namespace(name(), DeleteMode::Force).await.expect("it ends");
    let left = crate::server::list(server.port(), "KEYS duly:*:q:*");
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_schedule_rate_holds_for_any_ids() {
    let (_server, store) = store(limited(|limits| limits.schedule_per_second = Some(10))).await;
    for ids in ["spread", "alike"] {
        let texts: Vec<String> = match ids {
            "spread" => (0..40).map(|i| format!("s{i}")).collect(),
            _ => ids_of(&store, 3).take(40).collect(),
        };
        let begin = Instant::now();
        let mut count = 0;
        for (i, text) in texts.iter().enumerate() {
            match made(&store, text).await {
                Ok(()) => count += 1,
                Err(limit) => {
                    assert_eq!(limit, Limit::SchedulePerSecond);
                    assert!(i >= 10, "{ids}: timer {i} is refused");
                }
            }
        }
        // A second's worth at once, and what the rate added in the meantime.
        let most = 10 + begin.elapsed().as_millis().div_ceil(100);
        assert!((10..=most).contains(&count), "{ids}: {count} of at most {most}");
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
    // The same call again takes nothing of the rate.
    for _ in 0..30 {
        assert!(matches!(schedule(&store, "s0", LATER).await, Outcome::Existing(_)));
    }
    let place = shard(&store, &id("s0"));
    let batch: Vec<String> = ids_of(&store, place.0).skip(50).take(12).collect();
    let commands = batch.iter().map(|text| command(schedule_op(text, LATER))).collect();
    let outcomes = store.apply(place, commands).await.expect("a reply");
    let made = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Created(_))).count();
    assert!((10..12).contains(&made), "{made} of a batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_repeated_schedule_calls_use_no_rate() {
    let (_server, store) = store(Settings::default()).await;
    let place = shard(&store, &id("a")).0;
    let places: Vec<u16> = (0..4).map(|i| (place + i) % SHARDS).collect();
    let there: Vec<Vec<String>> =
        places.iter().map(|place| ids_of(&store, *place).take(40).collect()).collect();
    for text in there.iter().flatten() {
        assert_eq!(made(&store, text).await, Ok(()));
    }
    put(&store, limited(|limits| limits.schedule_per_second = Some(100))).await;
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let end = Instant::now() + Duration::from_secs(2);
    let repeats = stream::iter(&there).for_each_concurrent(None, async |ids| {
        while Instant::now() < end {
            let commands = ids.iter().map(|text| command(schedule_op(text, LATER))).collect();
            let outcomes = store.apply(shard(&store, &id(&ids[0])), commands).await;
            let outcomes = outcomes.expect("a reply");
            assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Existing(_))));
        }
    });
    let new = async {
        for i in 0.. {
            if Instant::now() >= end {
                break;
            }
            assert_eq!(made(&store, &format!("new{i}")).await, Ok(()), "timer {i}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::join!(repeats, new);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_beyond_lua_integers_do_not_refuse() {
    for shards in [1, 2] {
        let server = Server::start(&[]);
        let store = open(&options(&server.url(), shards)).await;
        put(&store, at_most(5)).await;
        let most = limited(|limits| {
            (limits.max_pending, limits.max_dead) = (Some(u64::MAX), u64::MAX);
            limits.max_retained = u64::MAX;
        });
        put(&store, most).await;
        for i in 0..20 {
            assert_eq!(made(&store, &format!("t{i}")).await, Ok(()), "{shards} shards, timer {i}");
        }
        let namespace = store.get_namespace(name()).await.expect("a reply").expect("it is there");
        assert_eq!(namespace.settings.limits.max_pending, Some(u64::MAX));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_no_claims_until_a_lower_max_dead_is_allocated() {
    let (server, store) = store(limited(|limits| limits.max_dead = 1_000)).await;
    let place = shard(&store, &id("a"));
    assert!(matches!(schedule(&store, "a", Millis::ZERO).await, Outcome::Created(_)));
    // The state after a change whose caller stopped before the allocation.
    let keys = crate::server::list(server.port(), "KEYS duly:*:n:*");
    for key in &keys {
        assert_eq!(tell(server.port(), &format!("HSET {key} m_dead - deal_dead 1")), ":0");
    }
    let claim = async || {
        let claimed = store.claim(place, request(Owner::Consumer { lease: None })).await;
        claimed.expect("a claim").firings.pop()
    };
    assert!(claim().await.is_none(), "the limit of dead letters is not allocated yet");
    let firing = until("it is allocated", async || {
        store.ready(place, None, 100).await.expect("a reply");
        claim().await
    });
    assert_eq!(firing.await.id, id("a"));
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_dead_letters_of_one_shard_have_the_whole_limit() {
    let (_server, store) = store(limited(|limits| limits.max_dead = 30)).await;
    let place = shard(&store, &id("a"));
    for text in ids_of(&store, place.0).take(40) {
        let outcome = schedule(&store, &text, Millis::ZERO).await;
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
    }
    let bury_one = async || {
        // A poll of the ready lanes starts a rebalance.
        store.ready(place, None, 100).await.expect("a reply");
        let mut wanted = request(Owner::Consumer { lease: None });
        wanted.total_max = 1;
        let firings = store.claim(place, wanted).await.expect("a claim").firings;
        for firing in &firings {
            let verdict = SettleVerdict::Dead { reason: "no".to_owned() };
            settle(&store, firing, verdict).await.expect("it is settled");
        }
        firings.len()
    };
    let mut dead = 0;
    until("30 are dead", async || {
        dead += bury_one().await;
        (dead >= 30).then_some(())
    })
    .await;
    for _ in 0..25 {
        dead += bury_one().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(dead, 30, "and there it stops");
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_unreachable_shards_keep_only_their_quota() {
    let mut cluster = Cluster::start(3, 0);
    for master in &cluster.masters {
        // The other masters continue without one of them.
        let said = tell(master.port(), "CONFIG SET cluster-require-full-coverage no");
        assert_eq!(said, "+OK");
    }
    let store = open(&options(&cluster.url(), SHARDS)).await;
    put(&store, at_most(300)).await;
    // A master fails that does not have the coordinator shard of the namespace.
    let coordinator = shard_of(name().as_str(), "", SHARDS).0;
    let is_lost = |place: u16| place * 3 / SHARDS == (coordinator * 3 / SHARDS + 1) % 3;
    let gone = usize::from((coordinator * 3 / SHARDS + 1) % 3);
    let place = (0..SHARDS)
        .find(|place| *place != coordinator && !is_lost(*place))
        .expect("there are some");
    cluster.masters[gone].kill();
    let mut count = 0;
    let begin = Instant::now();
    for text in ids_of(&store, place).take(400) {
        match made(&store, &text).await {
            Ok(()) => count += 1,
            Err(_) => break,
        }
    }
    assert!((180..220).contains(&count), "{count} of 300, as a third is away");
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    cluster.masters[gone].start_again();
    let mut ids = ids_of(&store, place).skip(500);
    while count < 300 {
        let text = ids.next().expect("there are more");
        until("the others are there again", async || made(&store, &text).await.ok()).await;
        count += 1;
    }
    assert_eq!(made(&store, "one-more").await, Err(Limit::MaxPending));
}

#[tokio::test]
async fn p6_t24_a_tombstone_survives_a_clock_step_back() {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), 1)).await;
    schedule(&store, "t", LATER).await;
    let keys = crate::calls::coordinator_keys(server.port());
    let num = tell(server.port(), &format!("HGET {keys}nn {}", name()));
    // As a raised retention leaves it while the clock is ahead.
    let ahead = std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_millis() + 3_600_000;
    let set = format!("HSET {keys}n:{} over {ahead}", num.lines().last().expect("a number"));
    assert_eq!(tell(server.port(), &set), ":1");
    cancel(&store, "t").await;
    let kept = store.get(shard(&store, &id("t")), name(), id("t"), u64::MAX).await.expect("a read");
    assert_eq!(kept.map(|view| view.state), Some(duly_core::State::Cancelled));
}

#[tokio::test]
async fn p10_only_changed_bounds_look_for_tombstones_to_drop() {
    let (server, store) = store(Settings::default()).await;
    let scripts_of = async |settings| {
        let before = scripts(&server);
        put(&store, settings).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        scripts(&server) - before
    };
    let same = scripts_of(Settings::default()).await;
    let shorter = Settings { retention: LATER, ..Settings::default() };
    let shorter = scripts_of(shorter).await;
    assert!(same + u64::from(SHARDS) / 2 < shorter, "{same} scripts, {shorter} with a change");
}
