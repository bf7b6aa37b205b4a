//! Idle implicit namespaces over several shards, also while some are down.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::Millis;
use duly_store::{Error, Namespaces, Outcome, Timers, namespaces::Put};
use duly_store_redis::RedisStore;

use crate::{
    calls::{apply, id, name, options, schedule, schedule_op, shard, until},
    cluster::Cluster,
    server::tell,
};

const SHARDS: u16 = 16;
const LATER: Millis = Millis::from_secs(30 * 86_400);

/// Opens a store whose scripts use the time `hours` hours later.
async fn store_at(cluster: &Cluster, hours: u64) -> RedisStore {
    let mut options = options(&cluster.url(), SHARDS);
    options.clock = Some(format!(
        "local function clock()\n  local t = redis.call('TIME')\n  \
         return t[1] * 1000 + math.floor(t[2] / 1000) + {}\nend",
        hours * 3_600_000
    ));
    RedisStore::open(&options).await.expect("the store opens")
}

/// Makes one whole pass. Returns the removed namespaces.
async fn pass(store: &RedisStore) -> Result<Vec<String>, Error> {
    let (mut from, mut removed) = (None, Vec::new());
    loop {
        let page = store.remove_idle(from, Arc::new(BTreeSet::new())).await?;
        removed.extend(page.removed.iter().map(ToString::to_string));
        from = page.next;
        if from.is_none() {
            return Ok(removed);
        }
    }
}

async fn make(store: &RedisStore) {
    let made = store.put_namespace(name(), Put::IfAbsent(Box::default())).await;
    assert!(made.expect("it is made").1);
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_an_idle_namespace_stays_while_a_shard_is_away() {
    let mut cluster = Cluster::start(3, 0);
    let (today, tomorrow) = (store_at(&cluster, 0).await, store_at(&cluster, 25).await);
    make(&today).await;
    assert_eq!(pass(&today).await, Ok(vec![]), "idle from now on");

    // The shard that is down holds a timer of which no other shard knows.
    let coordinator = duly_core::shard::shard_of(name().as_str(), "", SHARDS);
    let master_of = |shard: u16| usize::from(shard) * 3 / usize::from(SHARDS);
    let away = (0..3).find(|master| *master != master_of(coordinator.0)).expect("three masters");
    let texts = (0..).map(|i| format!("t{i}"));
    let is_away = |text: &String| master_of(shard(&today, &id(text)).0) == away;
    let text = texts.clone().find(is_away).expect("some id is there");
    assert!(matches!(schedule(&tomorrow, &text, LATER).await, Outcome::Created(_)));
    tell(cluster.masters[away].port(), "SAVE");
    cluster.masters[away].kill();
    let refused = pass(&tomorrow).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    let other = texts.clone().find(|text| !is_away(text)).expect("some id is elsewhere");
    until("the others take timers", async || {
        let outcome = apply(&tomorrow, schedule_op(&other, LATER)).await;
        matches!(outcome, Ok(Outcome::Created(_) | Outcome::Existing(_))).then_some(())
    })
    .await;

    cluster.masters[away].start_again();
    cluster.wait_until_whole();
    let removed = until("every shard answers", async || pass(&tomorrow).await.ok()).await;
    assert_eq!(removed, Vec::<String>::new());
    for text in [&text, &other] {
        let at = shard(&tomorrow, &id(text));
        let view = tomorrow.get(at, name(), id(text), u64::MAX).await;
        assert!(view.expect("it answers").is_some(), "{text} was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_idle_removal_over_shards_loses_no_timer() {
    let cluster = Cluster::start(3, 0);
    let (today, tomorrow) = (store_at(&cluster, 0).await, store_at(&cluster, 25).await);
    let (mut removed, mut kept) = (0, 0);
    // How often each happens depends on the machine, and on the load of other tests.
    let mut round = 0;
    while round < 40 || removed == 0 || kept == 0 {
        assert!(round < 400, "both happen: {removed} removed, {kept} kept");
        round += 1;
        make(&today).await;
        let began = std::time::Instant::now();
        assert_eq!(pass(&today).await, Ok(vec![]));
        // A pass and the first timer of a day, started at the same time or up to some passes apart: how long
        // a pass takes depends on the machine.
        let text = format!("t{round}");
        let pause = began.elapsed() * (round % 20) / 4;
        let (gone, outcome) = tokio::join!(pass(&tomorrow), async {
            tokio::time::sleep(pause).await;
            schedule(&today, &text, LATER).await
        });
        let gone = !gone.expect("a pass").is_empty();
        match outcome {
            Outcome::Created(_) => {
                let view = today.get(shard(&today, &id(&text)), name(), id(&text), u64::MAX).await;
                assert!(view.expect("it answers").is_some(), "round {round}: it is lost");
                assert!(!gone, "round {round}: removed with a timer");
                kept += 1;
            }
            _ => removed += usize::from(gone),
        }
        if !gone {
            let mode = duly_store::namespaces::DeleteMode::Force;
            today.delete_namespace(name(), mode).await.expect("it goes");
        }
    }
}
