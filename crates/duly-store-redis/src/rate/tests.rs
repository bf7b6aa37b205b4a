//! Tests of grants, and of the rate itself, on a real server.

use duly_core::Settings;
use duly_redis_testkit::server::{Server, tell};
use duly_store::{
    Namespaces,
    namespaces::{Put, Secrets},
};

use crate::{
    Options, RedisStore,
    tests::direct_scripts::{self, name},
};

async fn store(per_second: u32) -> (Server, RedisStore) {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut options = Options::new(server.url());
    options.shards = 2;
    let store = RedisStore::open(&options).await.expect("it opens");
    let mut settings = Settings::default();
    settings.limits.schedule_per_second = Some(per_second);
    let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
    store.put_namespace(name(), put).await.expect("it is made");
    (server, store)
}

#[tokio::test]
async fn p10_returned_grants_are_reusable_until_the_next_grant() {
    let (_server, store) = store(3).await;
    let store = &store.deployment;
    let grant = async |count| store.grant(&name(), count).await.expect("a reply");
    let first = grant(2).await;
    assert_eq!((first.count, grant(2).await.count), (2, 1), "a second's worth");
    store.give_back(&name(), &first, 2).await;
    assert_eq!(grant(1).await.count, 0, "another grant came after the first one");
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let last = grant(3).await;
    store.give_back(&name(), &last, 2).await;
    assert_eq!((last.count, grant(3).await.count), (3, 2));
}

#[tokio::test]
async fn p10_scheduling_resumes_after_a_clock_step_back() {
    let (server, store) = store(10).await;
    let coordinator = store.deployment.coordinator_of(&name());
    let (_, control) = store.deployment.control_of(coordinator, &name()).await.expect("a read");
    let key = crate::keys::key(
        store.deployment.router.seq(coordinator),
        &format!("c:{}", control.expect("it is there").num),
    );
    // The state after an hour in which the clock was an hour ahead.
    let ahead = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let ahead = ahead.as_micros() + 3_600_000_000;
    assert_eq!(tell(server.port(), &format!("HSET {key} spoken {ahead}")), ":1");
    assert_eq!(store.deployment.grant(&name(), 20).await.expect("a reply").count, 10);
}

#[tokio::test]
async fn p6_grants_are_requested_only_for_free_ids() {
    let (_server, store) = store(1_000).await;
    let ids: Vec<String> = (0..20).map(|i| format!("t{i}")).collect();
    let place = direct_scripts::shard(&store, "t0");
    let alike: Vec<&String> =
        ids.iter().filter(|text| direct_scripts::shard(&store, text) == place).collect();
    let mut schedules = crate::apply::ScheduleArguments::default();
    for text in &alike {
        direct_scripts::add(&mut schedules, text);
    }
    let free = async || {
        store.deployment.count_free_ids(place, &name(), &schedules).await.expect("a count")
    };
    assert_eq!(free().await, alike.len());
    let is_coordinator = store.deployment.coordinator_of(&name()) == place;
    let admission = if is_coordinator { "home" } else { "1" };
    assert_eq!(direct_scripts::schedule_at(&store, "t0", admission).await, "CREATED");
    assert_eq!(free().await, alike.len() - 1);
}
