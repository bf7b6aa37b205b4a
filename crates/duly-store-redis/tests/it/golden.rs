//! A database that an older build has written opens with every timer as it was.
//!
//! `tests/golden/f4/` has the append-only file of a Redis server that a node of commit f05b4a8 used: format 4, the
//! last one before the first release. It is never written again.

use std::path::Path;

use duly_core::{NamespaceName, State, Timer, TimerId, shard::ShardId, view::Body};
use duly_store::{Answer, Command, Operation, Outcome, Sharded, TimerView, Timers};
use duly_store_redis::RedisStore;

use crate::{
    calls::options,
    marker::RECORD,
    server::{Server, tell},
};

async fn get(store: &RedisStore, id: &str) -> Option<(State, Box<Timer>)> {
    let (namespace, id) =
        (NamespaceName::new("orders").expect("a name"), TimerId::new(id).expect("an id"));
    for shard in (0..store.shards()).map(ShardId) {
        let view =
            store.get(shard, namespace.clone(), id.clone(), u64::MAX).await.expect("it replies");
        if let Some(TimerView { state, body: Body::Whole(timer), .. }) = view {
            return Some((state, timer));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_f05b4a8_is_upgraded_with_all_its_timers() {
    let mut server = Server::start(&[]);
    server.kill();
    server.restore_data(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/f4"));
    server.start_again();
    assert_eq!(tell(server.port(), &format!("HGET {RECORD} format")), "4");
    let store = RedisStore::open(&options(&server.url(), 7)).await.expect("it opens");
    // It is adopted. Its format changes with the first node, once those of the older build have left.
    assert_eq!(tell(server.port(), &format!("HGET {RECORD} id")).len(), 32);
    assert_eq!(store.shards(), 3, "the database says how many there are");

    for number in 1..=7 {
        let (state, timer) = get(&store, &format!("order:{number}")).await.expect("it is there");
        let due = match number {
            // It was changed once.
            7 => "2031-03-01T00:00:00.000Z".to_owned(),
            _ => format!("2031-01-0{number}T00:00:00.000Z"),
        };
        let spec = &timer.spec;
        assert_eq!((state, timer.due_at.to_string()), (State::Scheduled, due));
        assert_eq!(spec.payload.as_ref().unwrap().bytes, format!(r#"{{"n":{number}}}"#));
        assert_eq!(spec.headers.get("x-n"), Some(&*number.to_string()));
        assert!(spec.trace_parent.as_ref().is_some_and(|trace| trace.starts_with("00-0af7651916")));
    }
    // Delivery ids are the idempotency keys of receivers: an upgrade must not change them.
    for (id, delivery_id) in [
        ("order:1", "ASZQU36JAYIWUE232HKAVYJZZQ"),
        ("order:7", "ZPF62JIUT6ZYTBQ3YU547FYQAE"),
        ("hook", "VYWJVF6OYMTAAPAMIYVWHGVDNU"),
        ("leased", "CSJGYBLEIVLFBGPPTAHQYG3FDQ"),
    ] {
        let (_, timer) = get(&store, id).await.expect("it is there");
        assert_eq!(timer.delivery_id("orders").to_string(), delivery_id, "{id}");
    }
    let (state, _) = get(&store, "dead").await.expect("the dead letter is there");
    assert_eq!(state, State::Dead);

    let id = TimerId::new("order:1").unwrap();
    let operation = Operation::Cancel { id, if_revision: None };
    let namespace = NamespaceName::new("orders").unwrap();
    let cancel = Command { namespace, operation, answer: Answer::Brief };
    let outcome = Sharded::new(&store).apply_one(cancel).await.unwrap();
    assert!(matches!(outcome, Outcome::Cancelled { .. }), "{outcome:?}");
}
