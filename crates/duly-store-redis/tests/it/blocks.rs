//! Lanes of many blocks: order, counts, and their end with their namespace.

use std::time::Duration;

use duly_core::{Millis, Schedule, Timestamp, schedule::IfExists, schedule::When};
use duly_store::{
    ForecastRequest, ListRequest, Namespaces, Operation, Outcome, Owner, Timers,
    namespaces::DeleteMode, query::ListState,
};
use duly_store_redis::RedisStore;

use crate::{
    audit::audit,
    calls::{command, id, name, open, options, request, schedule_op, shard, until},
    server::{Server, list as keys, tell},
};

/// Number of timers: many more than fit one block. Their order is neither ascending nor descending.
const COUNT: u64 = 5_000;

fn place(i: u64) -> u64 {
    i * 1_777 % COUNT
}

/// Schedules all of them; `spread` of them share a due time.
async fn fill(store: &RedisStore, first: Timestamp, spread: u64) {
    let all = (0..COUNT).map(place).map(|i| {
        let at = first.saturating_add(Millis::from_ms(i / spread));
        let schedule = Box::new(Schedule::new(id(&format!("t{i:05}")), When::At(at)));
        command(Operation::Schedule { schedule, if_exists: IfExists::Fail })
    });
    let outcomes = store.apply(shard(store, &id("a")), all.collect()).await.expect("a reply");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))));
}

async fn list(store: &RedisStore) -> Vec<String> {
    let mut found = Vec::new();
    let mut asked = ListRequest::new(name(), ListState::Pending);
    asked.limit = 97;
    loop {
        let page = store.list(shard(store, &id("a")), asked.clone()).await.expect("a page");
        found.extend(page.timers.iter().map(|view| view.id().to_string()));
        match page.next {
            Some(next) => asked.after = Some(next),
            None => return found,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lanes_of_many_blocks_keep_their_order_and_counts() {
    // All due times different, a few alike, and all the same.
    for spread in [1, 40, COUNT] {
        let server = Server::start(&[]);
        let store = open(&options(&format!("redis://127.0.0.1:{}", server.port()), 1)).await;
        let own = shard(&store, &id("a"));
        fill(&store, Timestamp::from_unix_ms(1_500_000_000_000).expect("a time"), spread).await;
        let in_order: Vec<String> = (0..COUNT).map(|i| format!("t{i:05}")).collect();
        assert_eq!(list(&store).await, in_order);
        assert_eq!(audit(server.port()), Vec::<String>::new());

        // Most entries of some blocks, and all of others, are removed.
        let cancelled = |i: u64| !i.is_multiple_of(3) || (1_000..2_000).contains(&i);
        let cancels = (0..COUNT)
            .filter(|i| cancelled(*i))
            .map(|i| command(Operation::Cancel { id: id(&format!("t{i:05}")), if_revision: None }));
        store.apply(own, cancels.collect()).await.expect("a reply");
        let left: Vec<String> =
            (0..COUNT).filter(|i| !cancelled(*i)).map(|i| format!("t{i:05}")).collect();
        assert_eq!(list(&store).await, left);
        assert_eq!(audit(server.port()), Vec::<String>::new());
        let stats = store.stats(own, name()).await.expect("counts").expect("a namespace");
        assert_eq!(stats.due, left.len() as u64);
        let asked = ForecastRequest { namespace: name(), bucket: Millis::from_secs(60), count: 3 };
        let forecast = store.forecast(own, asked).await.expect("a reply").expect("a namespace");
        assert_eq!(forecast.overdue, left.len() as u64);

        let mut claimed = Vec::new();
        while claimed.len() < left.len() {
            let mut wanted = request(Owner::Consumer { lease: Some(Millis::from_secs(600)) });
            (wanted.total_max, wanted.lanes[0].first_max) = (301, 301);
            let got = store.claim(own, wanted).await.expect("a claim");
            assert!(!got.firings.is_empty(), "there are more");
            claimed.extend(got.firings.into_iter().map(|firing| firing.id.to_string()));
        }
        assert_eq!(claimed, left);
        assert_eq!(audit(server.port()), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_of_an_ended_namespace_are_swept() {
    let server = Server::start(&[]);
    let store = open(&options(&format!("redis://127.0.0.1:{}", server.port()), 1)).await;
    let own = shard(&store, &id("a"));
    fill(&store, Timestamp::from_unix_ms(1_950_000_000_000).expect("a time"), 1).await;
    assert_eq!(store.delete_namespace(name(), DeleteMode::Force).await, Ok(()));
    until("nothing is left of the lanes", async || {
        store.ready(own, None, 1).await.expect("a reply");
        tokio::time::sleep(Duration::from_millis(10)).await;
        let left = tell(server.port(), "EVAL \"return #redis.call('KEYS', '*:d:*')\" 0");
        (left == ":0").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_hashes_are_never_listpacks() {
    let server = Server::start(&["--enable-debug-command", "local"]);
    let store = open(&options(&server.url(), 1)).await;
    let only = shard(&store, &id("a"));
    let schedule = async |from: usize, to: usize| {
        let all = (from..to).map(|i| command(schedule_op(&format!("t{i:05}"), Millis::ZERO)));
        let outcomes = store.apply(only, all.collect()).await.expect("a reply");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))));
    };
    let claim = async |most| {
        let mut request = request(Owner::Consumer { lease: None });
        request.lanes[0].first_max = most;
        let firings = store.claim(only, request).await.expect("a claim").firings;
        assert_eq!(firings.len(), most);
    };
    let form = |kind: &str| {
        let keys = keys(server.port(), &format!("KEYS duly:*:{kind}:*"));
        tell(server.port(), &format!("OBJECT ENCODING {}", keys[0]))
    };
    schedule(0, 40).await;
    assert_eq!(form("r"), "listpack");
    schedule(40, 80).await;
    assert_eq!(form("r"), "hashtable");
    claim(40).await;
    assert_eq!(form("x"), "listpack");
    claim(40).await;
    assert_eq!(form("x"), "hashtable");
    // Redis packs the hash again when it loads it.
    assert_eq!(tell(server.port(), "DEBUG RELOAD"), "+OK");
    assert_eq!(form("r"), "listpack");
    schedule(80, 81).await;
    assert_eq!(form("r"), "hashtable");
    assert_eq!(audit(server.port()), Vec::<String>::new());
}
