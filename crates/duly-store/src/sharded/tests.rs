//! Order, merging and partial failures over several shards.

use std::{sync::Arc, time::Duration};

use duly_core::{
    Millis, Schedule, TimerId,
    schedule::{IfExists, When},
};

use super::*;
use crate::{
    Answer, ClaimRequest, Lane, LaneClaim, Namespaces, Operation, Owner, SettleVerdict, Timers,
    Token,
    command::DeadLetterId,
    conformance::{ManualClock, SeveralShards},
    namespaces::{Put, Secrets},
    query::ListState,
};

mod pages;

const SHARDS: u16 = 4;

fn name() -> NamespaceName {
    NamespaceName::new("n").unwrap()
}

fn command(operation: Operation) -> Command {
    Command { namespace: name(), operation, answer: Answer::Whole }
}

fn schedule(id: &str) -> Command {
    let schedule = Schedule::new(TimerId::new(id).unwrap(), When::After(Millis::ZERO));
    let if_exists = IfExists::Fail;
    command(Operation::Schedule { schedule: Box::new(schedule), if_exists })
}

fn ids() -> Vec<String> {
    (0..20).map(|i| format!("t{i:02}")).collect()
}

/// A store with twenty due timers.
async fn filled() -> Arc<SeveralShards> {
    let store = Arc::new(SeveralShards::new(&ManualClock::default(), SHARDS, Duration::ZERO));
    let put = Put::Replace { settings: Box::default(), secrets: Secrets::Set };
    store.put_namespace(name(), put).await.unwrap();
    let commands = ids().iter().map(|id| schedule(id)).collect();
    let outcomes = Sharded::new(&*store).apply(commands).await.unwrap();
    for (id, outcome) in ids().iter().zip(&outcomes) {
        let Outcome::Created(view) = outcome else { panic!("{id}: {outcome:?}") };
        assert_eq!(view.id().as_str(), id, "outcomes stand in the order of their commands");
    }
    store
}

async fn claim(store: &SeveralShards) -> Vec<Token> {
    let mut tokens = Vec::new();
    for shard in Sharded::new(store).shards() {
        let key = duly_core::destination::LaneKey::Pull;
        let lane = Lane { namespace: name(), key };
        let lanes = vec![LaneClaim { lane, first_max: 100, retry_max: 100 }];
        let owner = Owner::Consumer { lease: None };
        let request = ClaimRequest { lanes, total_max: 100, bytes_max: 1 << 20, owner };
        let claimed = store.claim(shard, request).await.unwrap();
        tokens.extend(claimed.firings.into_iter().map(|firing| firing.token));
    }
    tokens
}

fn settlement(token: &Token, verdict: SettleVerdict) -> Settlement {
    Settlement { token: token.clone(), namespace: None, verdict }
}

#[tokio::test]
async fn p10_failed_shard_fails_only_its_own_items() {
    let store = filled().await;
    let sharded = Sharded::new(&*store);
    store.fail(&[ShardId(1), ShardId(2)]);
    let outcomes = sharded.apply(ids().iter().map(|id| schedule(id)).collect()).await.unwrap();
    for (id, outcome) in ids().iter().zip(&outcomes) {
        let fails = [1, 2].contains(&sharded.shard_of(&name(), id).0);
        match outcome {
            Outcome::Failed(Error::Unavailable { .. }) => assert!(fails, "{id}"),
            Outcome::Existing(_) => assert!(!fails, "{id}"),
            other => panic!("{id}: {other:?}"),
        }
    }
    let all: Vec<_> = sharded.shards().collect();
    store.fail(&all);
    let error = sharded.apply(vec![schedule("t00"), schedule("t01")]).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(sharded.apply(Vec::new()).await, Ok(Vec::new()));
}

#[tokio::test]
async fn p8_settlements_of_other_shards_stand() {
    let store = filled().await;
    let sharded = Sharded::new(&*store);
    let tokens = claim(&store).await;
    assert_eq!(tokens.len(), 20);
    store.fail(&[ShardId(3)]);
    let foreign = Token::new(ShardId(SHARDS), &[1; 16]);
    let mut settlements: Vec<_> =
        tokens.iter().rev().map(|token| settlement(token, SettleVerdict::Ack)).collect();
    settlements.insert(1, settlement(&foreign, SettleVerdict::Ack));
    let outcomes = sharded.settle(settlements.clone()).await.unwrap();
    for (settlement, outcome) in settlements.iter().zip(outcomes) {
        match settlement.token.shard() {
            ShardId(3) => assert!(matches!(outcome, Err(Error::Unavailable { .. }))),
            ShardId(SHARDS) => assert_eq!(outcome, Ok(SettleOutcome::InvalidToken)),
            _ => assert_eq!(outcome, Ok(SettleOutcome::Ok)),
        }
    }
}

#[tokio::test]
async fn p3_dead_letter_is_found_in_any_shard() {
    let store = filled().await;
    let sharded = Sharded::new(&*store);
    let dead = |token| settlement(token, SettleVerdict::Dead { reason: String::new() });
    let settlements = claim(&store).await.iter().map(dead).collect();
    sharded.settle(settlements).await.unwrap();
    let request = ListRequest::new(name(), ListState::Only(duly_core::State::Dead));
    let page = sharded.list::<Error>(&request, |_| Ok(())).await.unwrap().whole().unwrap();
    let listed: Vec<_> = page.timers.iter().map(|view| view.id().as_str()).collect();
    assert_eq!(listed, ids(), "a list over all shards has one order");
    let purge = |view: &crate::TimerView| {
        let delivery_id = view.timer().unwrap().delivery_id("n");
        command(Operation::Purge { letter: DeadLetterId::Delivery(delivery_id) })
    };
    let last = purge(&page.timers[19]);
    let owner = sharded.shard_of(&name(), "t19");
    store.fail(&[owner]);
    let outcomes = sharded.apply(vec![last.clone()]).await.unwrap();
    assert!(matches!(outcomes[0], Outcome::Failed(_)), "it may be in the shard that fails");
    store.fail(&[]);
    let outcomes = sharded.apply(page.timers.iter().map(purge).collect()).await.unwrap();
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Purged), "{outcomes:?}");
    let outcomes = sharded.apply(vec![last]).await.unwrap();
    let unknown = Outcome::Refused(Refusal::UnknownDeadLetter {
        namespace: name(),
        letter: DeadLetterId::Delivery(page.timers[19].timer().unwrap().delivery_id("n")),
    });
    assert_eq!(outcomes, [unknown]);
}

#[tokio::test]
async fn reads_go_on_without_unavailable_shards() {
    let store = filled().await;
    let sharded = Sharded::new(&*store);
    let request = ForecastRequest { namespace: name(), bucket: Millis::from_secs(1), count: 1 };
    let list = ListRequest::new(name(), ListState::Pending);
    let all: Vec<_> = sharded.shards().collect();
    let elsewhere = NamespaceName::new("elsewhere").unwrap();
    for failing in [&[][..], &[ShardId(2)], &[ShardId(0), ShardId(3)]] {
        store.fail(failing);
        let expected: Vec<_> = ids()
            .into_iter()
            .filter(|id| !failing.contains(&sharded.shard_of(&name(), id)))
            .collect();
        let numbers: Vec<_> = failing.iter().map(|shard| u32::from(shard.0)).collect();
        let count = expected.len() as u64;
        let stats = sharded.stats(&name()).await.unwrap().expect("it is there");
        assert_eq!(stats.unavailable_shards(), numbers);
        let lanes = &stats.value.lanes;
        assert_eq!((stats.value.due, lanes.len(), lanes[0].due), (count, 1, count));
        let counts = sharded.counts(&[name()]).await.unwrap();
        assert_eq!(counts.value[0].as_ref().map(|stats| stats.due), Some(count));
        assert_eq!(counts.whole().is_ok(), failing.is_empty());
        let forecast = sharded.forecast(&request).await.unwrap().expect("it is there");
        assert_eq!(forecast.unavailable_shards(), numbers);
        assert_eq!((forecast.value.overdue, forecast.value.pending()), (count, count));
        let page = sharded.list::<Error>(&list, |_| Ok(())).await.unwrap();
        let listed: Vec<_> = page.value.timers.iter().map(|view| view.id().to_string()).collect();
        assert_eq!(listed, expected);
        assert_eq!(page.unavailable_shards(), numbers);
        assert_eq!(page.whole().is_ok(), failing.is_empty());
        // A namespace that no shard has may be in a shard that fails.
        let none = sharded.stats(&elsewhere).await;
        assert_eq!(none.is_ok(), failing.is_empty(), "{none:?}");
    }
    store.fail(&all);
    assert!(sharded.stats(&name()).await.is_err());
    assert!(sharded.forecast(&request).await.is_err());
    assert!(sharded.list::<Error>(&list, |_| Ok(())).await.is_err());
}

#[tokio::test]
async fn p10_a_page_asks_for_memory_before_it_takes_more() {
    let store = filled().await;
    let sharded = Sharded::new(&*store);
    let request = ListRequest { bytes_max: 4, ..ListRequest::new(name(), ListState::Pending) };
    let refused = sharded.list(&request, |bytes| Err(Error::TooLarge { bytes })).await;
    let Err(Error::TooLarge { bytes }) = refused else { panic!("{refused:?}") };
    let mut asked = Vec::new();
    let page = sharded.list::<Error>(&request, |bytes| {
        asked.push(bytes);
        Ok(())
    });
    let page = page.await.unwrap().whole().unwrap();
    assert_eq!(asked, vec![bytes; usize::from(SHARDS)]);
    assert_eq!(page.timers.first().map(|view| view.id().as_str()), Some("t00"));
    assert!(page.next.is_some(), "there is more");
}
