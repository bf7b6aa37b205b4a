//! The end of a namespace on condition that it is empty, over several shards: no acknowledged timer is
//! lost with it.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use duly_core::{Millis, Settings, shard::ShardId};
use duly_store::{
    Error, Namespaces, Operation, Outcome, Refusal, Timers,
    namespaces::{DeleteMode, Put},
};
use duly_store_redis::RedisStore;
use futures::future::join_all;

use crate::{
    audit::audit,
    calls::{apply, coordinator_keys, id, name, open, options, put, schedule, shard},
    server::{Server, list, tell},
};

const LATER: Millis = Millis::from_secs(3_600);

async fn store(shards: u16) -> (Server, RedisStore) {
    let server = Server::start(&[]);
    let store = open(&options(&server.url(), shards)).await;
    (server, store)
}

async fn delete(store: &RedisStore) -> duly_store::Result<()> {
    store.delete_namespace(name(), DeleteMode::IfEmpty).await
}

/// Takes the deletion lock of some shards by hand for `seconds`, like a caller that stops then: the
/// coordinator shard first. Returns the number of locked shards.
fn shut(server: &Server, seconds: i64, most: usize) -> usize {
    let coordinator = coordinator_keys(server.port());
    let mut keys = list(server.port(), "KEYS duly:*:n:*");
    keys.sort_by_key(|key| !key.starts_with(&coordinator));
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let till = time.expect("after 1970").as_millis() as i64 + 1_000 * seconds;
    for key in keys.iter().take(most) {
        let gate = format!("HSET {key} gate \"{till} 00aa00aa00aa00aa\"");
        assert_eq!(tell(server.port(), &gate), ":1");
    }
    keys.len().min(most)
}

fn gates(server: &Server) -> usize {
    let keys = list(server.port(), "KEYS duly:*:n:*");
    let is_shut = |key: &&String| tell(server.port(), &format!("HGET {key} gate")) != "$-1";
    keys.iter().filter(is_shut).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn p3_deleting_an_empty_namespace_loses_no_timer() {
    let (server, store) = store(16).await;
    let mut ended = 0;
    let mut kept = 0;
    // How often each happens depends on the machine, and on the load of other tests.
    let mut round = 0;
    while round < 60 || ended <= 5 || kept <= 5 {
        assert!(round < 600, "both happen: {ended} ended, {kept} refused");
        round += 1;
        put(&store, Settings::default()).await;
        let over = AtomicBool::new(false);
        // Each caller has one timer at a time, so now and then the namespace is empty.
        let callers = (0..3).map(|caller| {
            let (store, over) = (&store, &over);
            async move {
                let mut i = 0;
                while !over.load(Ordering::Relaxed) {
                    i += 1;
                    let text = format!("r{round}-{caller}-{i}");
                    match schedule(store, &text, LATER).await {
                        Outcome::Created(_) => {}
                        Outcome::Refused(Refusal::UnknownNamespace(_)) => return 0,
                        Outcome::Failed(Error::Unavailable { .. }) => continue,
                        other => panic!("{other:?}"),
                    }
                    tokio::task::yield_now().await;
                    let cancel = Operation::Cancel { id: id(&text), if_revision: None };
                    match apply(store, cancel).await.expect("a reply") {
                        Outcome::Cancelled { already: false, .. } => {}
                        other => panic!("{text} was acknowledged, and then {other:?}"),
                    }
                }
                i
            }
        });
        let deletes = async {
            let until = Instant::now() + Duration::from_millis(200);
            let mut gone = false;
            while !gone && Instant::now() < until {
                match delete(&store).await {
                    Ok(()) => gone = true,
                    Err(Error::NamespaceNotEmpty { .. } | Error::Unavailable { .. }) => kept += 1,
                    Err(other) => panic!("{other:?}"),
                }
            }
            over.store(true, Ordering::Relaxed);
            gone
        };
        let (_, gone) = tokio::join!(join_all(callers), deletes);
        ended += usize::from(gone);
    }
    assert_eq!(gates(&server), 0);
    assert_eq!(audit(server.port()), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_locks_of_stopped_callers_are_released() {
    let (server, store) = store(8).await;
    // The lock of an hour was taken before the clock stepped back.
    for (most, over) in [(8, -1), (3, 3_600), (1, -1)] {
        // The lock has not expired: a schedule operation is refused, to be repeated.
        assert_eq!(shut(&server, 5, most), most);
        if most == 8 {
            let outcome = schedule(&store, "early", LATER).await;
            assert!(matches!(outcome, Outcome::Failed(Error::Unavailable { .. })), "{outcome:?}");
            assert!(matches!(delete(&store).await, Err(Error::Unavailable { .. })));
        }
        for key in list(server.port(), "KEYS duly:*:n:*") {
            tell(server.port(), &format!("HDEL {key} gate"));
        }
        // The lock has expired.
        shut(&server, over, most);
        for i in 0..100 {
            let outcome = schedule(&store, &format!("{most}-{i}"), LATER).await;
            assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        }
        assert_eq!(gates(&server), 0, "all that were met are open");
        let kept = delete(&store).await;
        assert!(matches!(kept, Err(Error::NamespaceNotEmpty { pending, .. }) if pending >= 100));
    }
    // A namespace whose deletion was left unfinished can be deleted.
    store.delete_namespace(name(), DeleteMode::Force).await.expect("it goes");
    put(&store, Settings::default()).await;
    shut(&server, -1, 5);
    assert_eq!(delete(&store).await, Ok(()));
    assert_eq!(gates(&server), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_recorded_end_reaches_callers_at_a_deletion_lock() {
    let (server, store) = store(8).await;
    shut(&server, -1, 8);
    let coordinator = coordinator_keys(server.port());
    // The coordinator shard has recorded the end, and no other shard knows of it.
    let settings = list(server.port(), &format!("KEYS {coordinator}n:*")).remove(0);
    let (_, num) = settings.split_once(":n:").expect("a number");
    assert_eq!(tell(server.port(), &format!("HSET {coordinator}ends {num} \"9\\x00shop\"")), ":1");
    assert_eq!(
        tell(server.port(), &format!("DEL {coordinator}nn {coordinator}names {settings}")),
        ":3"
    );
    let mut unknown = 0;
    for i in 0..40 {
        match schedule(&store, &format!("t{i}"), LATER).await {
            Outcome::Refused(Refusal::UnknownNamespace(_)) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(unknown, 40);
    let put = Put::IfAbsent(Box::default());
    assert!(store.put_namespace(name(), put).await.expect("a reply").1, "it is made again");
    for i in 0..40 {
        let text = format!("t{i}");
        assert!(matches!(schedule(&store, &text, LATER).await, Outcome::Created(_)));
        let view = store.get(shard(&store, &id(&text)), name(), id(&text), u64::MAX).await;
        assert!(view.expect("a read").is_some());
    }
    assert_eq!(store.shards(), 8);
    assert!(store.stats(ShardId(7), name()).await.expect("counts").is_some());
}
