//! Scripts called directly, for tests that take steps in another order than the store does.

use duly_core::{
    Incarnation, Millis, NamespaceName, Schedule, TimerId,
    schedule::When,
    shard::{ShardId, shard_of},
};

use crate::{
    RedisStore, apply::ScheduleArguments, deployment::Deployment, reply::Reply, script::Script,
};

/// Returns the name of the only namespace of such a test.
pub(crate) fn name() -> NamespaceName {
    NamespaceName::new("shop").expect("a name")
}

/// Returns a schedule of a timer that is due long after the test.
pub(crate) fn timer(text: &str) -> Schedule {
    let id = TimerId::new(text).expect("an id");
    Schedule::new(id, When::After(Millis::from_secs(3_600)))
}

pub(crate) fn shard(store: &RedisStore, text: &str) -> ShardId {
    shard_of(name().as_str(), text, store.deployment.shards)
}

/// Adds a timer to the arguments of a schedule script.
pub(crate) fn add(schedules: &mut ScheduleArguments, text: &str) {
    let schedule = timer(text);
    let record = crate::apply::new_record(&schedule, Incarnation(1)).expect("a record");
    schedules.add(&schedule, &record, record.pack([0; 8]));
}

/// Schedules a timer on the fast path. Returns the word of the script.
pub(crate) async fn schedule(store: &RedisStore, text: &str) -> String {
    schedule_at(store, text, "").await
}

/// Schedules a timer on the fast path with this `admission` argument. Returns the word of the script.
pub(crate) async fn schedule_at(store: &RedisStore, text: &str, admission: &str) -> String {
    let mut schedules = ScheduleArguments::default();
    add(&mut schedules, text);
    let arguments = schedules.arguments(&name(), admission.into());
    let mut reply =
        call_script(&store.deployment, shard(store, text), Script::Schedule, arguments).await;
    let _now = reply.time().expect("a time");
    reply.text().expect("a word")
}

/// Cancels a timer on the fast path.
pub(crate) async fn cancel(store: &RedisStore, text: &str) {
    let arguments = vec![name().as_str().into(), text.into()];
    call_script(&store.deployment, shard(store, text), Script::Cancel, arguments).await;
}

async fn call_script(
    deployment: &Deployment,
    shard: ShardId,
    script: Script,
    arguments: Vec<Vec<u8>>,
) -> Reply {
    deployment.call_script(shard, script, arguments).await.expect("a reply")
}
