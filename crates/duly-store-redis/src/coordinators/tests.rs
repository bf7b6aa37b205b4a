use super::*;

fn owners(masters: &[&[u16]]) -> HashMap<String, Vec<ShardId>> {
    let shards = |shards: &&[u16]| shards.iter().copied().map(ShardId).collect();
    masters.iter().map(|owned| (format!("{owned:?}"), shards(owned))).collect()
}

fn list(version: u64, shards: &[u16]) -> Coordinators {
    Coordinators { version, shards: shards.iter().copied().map(ShardId).collect() }
}

#[test]
fn the_first_list_has_a_shard_of_each_of_up_to_five_masters() {
    let first = |masters: &[&[u16]]| first(&owners(masters)).own;
    assert_eq!(first(&[&[0, 1, 2, 3]]), list(1, &[0]));
    assert_eq!(first(&[&[0, 1], &[2, 3]]), list(1, &[0]));
    assert_eq!(first(&[&[3], &[0, 1], &[2]]), list(1, &[0, 2, 3]));
    assert_eq!(first(&[&[0], &[1], &[2], &[3]]), list(1, &[0, 1, 2]));
    assert_eq!(first(&[&[0], &[1], &[2], &[3], &[4], &[5]]), list(1, &[0, 1, 2, 3, 4]));
}

#[test]
fn a_list_changes_only_when_masters_or_slots_do() {
    let better = |present: &[u16], masters: &[&[u16]]| {
        let found = better(&list(7, present), &owners(masters))?;
        assert_eq!(found.before, Some(list(7, present)));
        assert_eq!(found.own.version, 8);
        Some(found.own.shards.iter().map(|shard| shard.0).collect::<Vec<_>>())
    };
    assert_eq!(better(&[0, 2, 4], &[&[0, 1], &[2, 3], &[4, 5]]), None);
    assert_eq!(
        better(&[1, 2, 5], &[&[0, 1], &[2, 3], &[4, 5]]),
        None,
        "any shard of a master will do"
    );
    assert_eq!(better(&[0, 1, 4], &[&[0, 1], &[2, 3], &[4, 5]]), Some(vec![0, 2, 4]));
    assert_eq!(better(&[0], &[&[0, 1], &[2, 3], &[4, 5]]), Some(vec![0, 2, 4]));
    assert_eq!(better(&[0], &[&[0, 1], &[2, 3]]), None);
    assert_eq!(better(&[0, 2, 4], &[&[0, 1, 2], &[3, 4, 5]]), Some(vec![0]));
}

use duly_redis_testkit::server::{Server, tell};

use crate::{Options, RedisStore};

async fn open(server: &Server, shards: u16) -> RedisStore {
    let mut options = Options::new(server.url());
    options.shards = shards;
    RedisStore::open(&options).await.expect("it opens")
}

fn follows(present: &Coordinators, shards: &[u16]) -> CoordinatorList {
    CoordinatorList { own: list(present.version + 1, shards), before: Some(present.clone()) }
}

fn own(store: &RedisStore) -> Coordinators {
    store.deployment.list.lock().own.clone()
}

/// Returns the list that a shard has accepted.
async fn accepted(store: &RedisStore, shard: u16) -> Coordinators {
    store
        .deployment
        .router
        .marker(ShardId(shard))
        .await
        .expect("a read")
        .expect("a marker")
        .list
        .own
}

#[tokio::test(flavor = "multi_thread")]
async fn proposals_of_one_version_end_as_one_list() {
    for seed in 0..10 {
        let server = Server::start(&[]);
        let (one, two) = (open(&server, 8).await, open(&server, 8).await);
        let first = own(&one);
        let lists = [follows(&first, &[0, 2, 4]), follows(&first, &[1, 3, 5])];
        let (a, b) = tokio::join!(
            one.deployment.propose(&lists[seed % 2]),
            two.deployment.propose(&lists[1 - seed % 2])
        );
        a.and(b).expect("they are taken");
        assert_eq!(own(&one), own(&two));
        assert_eq!(own(&one).version, 2);
        for shard in 0..8 {
            assert_eq!(accepted(&one, shard).await, own(&one));
        }
        assert_eq!(own(&open(&server, 8).await), own(&one), "and who starts later has it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_needs_a_majority_of_the_list_before_it() {
    let server = Server::start(&[]);
    let store = open(&server, 8).await;
    let first = own(&store);
    store.deployment.propose(&follows(&first, &[0, 2, 4])).await.expect("it is taken");
    let second = own(&store);
    assert_eq!(second, list(2, &[0, 2, 4]));
    // Two of the three are emptied: what the third accepts does not count.
    let keys = crate::keys::seq;
    for shard in [2, 4] {
        let marker = keys(ShardId(shard), 8).replace("seq", "marker");
        assert_eq!(tell(server.port(), &format!("DEL {marker}")), ":1");
    }
    let third = follows(&second, &[1, 3, 5]);
    store.deployment.propose(&third).await.expect("it is offered");
    assert_eq!(own(&store), second, "no majority");
    assert_eq!(accepted(&store, 0).await, third.own);
    // A node that finds the list there does not use it either, until another of the three accepts it.
    store.deployment.use_list(third.clone()).await.expect("it is offered");
    assert_eq!(own(&store), second);
    let other = follows(&second, &[5, 6, 7]);
    store.deployment.propose(&other).await.expect("it is offered");
    assert_eq!(accepted(&store, 0).await, third.own, "the first proposal counts");
    store.deployment.repair(ShardId(2)).await.expect("repaired");
    store.deployment.use_list(third.clone()).await.expect("it is taken");
    assert_eq!(own(&store), third.own);
    for shard in [0, 1, 2, 3, 5, 6, 7] {
        assert_eq!(accepted(&store, shard).await, third.own);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_list_change_is_finished_by_the_next_poll() {
    let server = Server::start(&[]);
    let (one, two) = (open(&server, 8).await, open(&server, 8).await);
    let list = follows(&own(&one), &[0, 3, 6]);
    one.deployment.accept(ShardId(0), &list).await.expect("the only shard of the first list");
    drop(one);
    two.poll().await;
    assert_eq!(own(&two), list.own);
    for shard in 0..8 {
        assert_eq!(accepted(&two, shard).await, list.own);
    }
}
