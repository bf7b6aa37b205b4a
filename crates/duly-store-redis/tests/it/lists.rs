//! Lists of leased and ended timers, whose sets are made on demand.

use std::collections::BTreeSet;

use duly_core::{
    Millis, State,
    timer::{AttemptOutcome, Wait},
};
use duly_store::{
    Firing, ListRequest, Outcome, Owner, SettleVerdict, Settlement, Timers, query::ListState,
};
use duly_store_redis::RedisStore;
use redis::Commands;

use crate::{
    audit::audit,
    calls::{command, id, name, open, options, request, schedule_op, settle, shard},
    server::Server,
};

/// Number of timers, several times what one script puts into a set for lists.
const COUNT: usize = 1_000;

async fn list(store: &RedisStore, state: ListState) -> BTreeSet<String> {
    let mut found = Vec::new();
    let mut asked = ListRequest::new(name(), state);
    asked.limit = 97;
    loop {
        let page = store.list(shard(store, &id("a")), asked.clone()).await.expect("a page");
        found.extend(page.timers.iter().map(|view| (view.due_at(), view.id().to_string())));
        match page.next {
            Some(next) => asked.after = Some(next),
            None => break,
        }
    }
    assert!(found.is_sorted(), "{found:?}");
    let ids: BTreeSet<String> = found.iter().map(|(_, id)| id.clone()).collect();
    assert_eq!(ids.len(), found.len(), "none comes twice");
    ids
}

async fn claim(store: &RedisStore, most: usize) -> Vec<Firing> {
    let mut request = request(Owner::Consumer { lease: None });
    request.total_max = most;
    let claimed = store.claim(shard(store, &id("a")), request).await.expect("a claim");
    assert_eq!(claimed.firings.len(), most);
    claimed.firings
}

async fn acknowledge(store: &RedisStore, firings: &[Firing]) {
    let settlements = firings.iter().map(|firing| Settlement {
        token: firing.token.clone(),
        namespace: None,
        verdict: SettleVerdict::Ack,
    });
    let own = shard(store, &id("a"));
    store.settle(own, settlements.collect()).await.expect("it is settled");
}

/// Removes the state of the sets for lists, as if there had been no list for a minute. Returns the
/// number of sets.
fn lapse(port: u16) -> usize {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("an address");
    let mut connection = client.get_connection().expect("the server is there");
    let keys: Vec<String> = connection.keys("duly:*}:ix:*").expect("keys");
    connection.del(keys).expect("they go")
}

fn ids(firings: &[Firing]) -> BTreeSet<String> {
    firings.iter().map(|firing| firing.id.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_leased_and_ended_timers_are_complete() {
    let server = Server::start(&[]);
    let store = open(&options(&format!("redis://127.0.0.1:{}", server.port()), 1)).await;
    let own = shard(&store, &id("a"));
    let schedules = (0..COUNT).map(|i| command(schedule_op(&format!("t{i:04}"), Millis::ZERO)));
    let outcomes = store.apply(own, schedules.collect()).await.expect("a reply");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))));
    let all: BTreeSet<String> = (0..COUNT).map(|i| format!("t{i:04}")).collect();

    let (in_flight, finished) =
        (ListState::Only(State::InFlight), ListState::Only(State::Finished));
    let mut held = claim(&store, 700).await;
    assert_eq!(list(&store, in_flight).await, ids(&held));
    assert_eq!(list(&store, ListState::Pending).await, all);
    // From now on the sets are kept up to date.
    let mut ended = held.split_off(400);
    acknowledge(&store, &ended).await;
    held.extend(claim(&store, 100).await);
    assert_eq!(list(&store, in_flight).await, ids(&held));
    assert_eq!(list(&store, finished).await, ids(&ended));
    ended.extend(held.split_off(480));
    acknowledge(&store, &ended[300..]).await;
    assert_eq!(list(&store, finished).await, ids(&ended));
    assert_eq!(audit(server.port()), Vec::<String>::new());

    // There was no list for a minute: the calls work on, and the sets are made again.
    assert_eq!(lapse(server.port()), 2);
    ended.extend(held.split_off(250));
    acknowledge(&store, &ended[320..]).await;
    held.extend(claim(&store, 50).await);
    // A retry is in the list for another reason, leased or not.
    let retried = held.pop().expect("one is held");
    let again = SettleVerdict::Retry {
        wait: Wait::Exactly(Millis::ZERO),
        outcome: AttemptOutcome::Failed,
        reason: String::new(),
    };
    settle(&store, &retried, again).await.expect("it is taken");
    assert_eq!(list(&store, in_flight).await, ids(&held));
    assert_eq!(list(&store, finished).await, ids(&ended));
    assert_eq!(
        list(&store, ListState::Only(State::Retrying)).await,
        ids(std::slice::from_ref(&retried))
    );
    assert_eq!(list(&store, ListState::Pending).await, &all - &ids(&ended));
    let mut of_retries = request(Owner::Consumer { lease: None });
    of_retries.lanes[0].first_max = 0;
    held.extend(store.claim(own, of_retries).await.expect("a claim").firings);
    assert!(ids(&held).contains(retried.id.as_str()));
    assert_eq!(list(&store, in_flight).await, ids(&held));
    lapse(server.port());
    assert_eq!(list(&store, in_flight).await, ids(&held));
    assert_eq!(audit(server.port()), Vec::<String>::new());
}
