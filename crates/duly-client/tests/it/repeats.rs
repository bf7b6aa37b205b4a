//! Repetition of calls whose response got lost: the table of `retry.rs`, row by row.

use duly_client::{
    CancelManyRequest, Client, Error, LeaseRequest, NamespaceSettings, NamespaceStats, Operation,
    PurgeRequest, RedriveRequest, Reschedule, Retries, RetryAdvice, Schedule, SettleOutcome,
    Settlement, State, Totals,
};
use tokio::task::JoinHandle;

use crate::{
    proxy::Proxy,
    server::{HOUR, NAMESPACE, Server, due, later, lease, soon, until, until_state},
};

/// A server, with one client whose responses can be lost on purpose, and one on a direct connection.
struct World {
    _server: Server,
    proxy: Proxy,
    shaky: Client,
    steady: Client,
}

impl World {
    async fn new() -> Self {
        let server = Server::start().await;
        let proxy = Proxy::start(server.addr()).await;
        let (shaky, steady) = (Client::new(proxy.url()).unwrap(), server.client());
        later(&steady, "there").await;
        Self { _server: server, proxy, shaky, steady }
    }

    /// Makes a call whose response is lost after it was carried out.
    async fn lose<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
        is_done: impl AsyncFn(&Client) -> bool,
    ) -> T {
        // A call over a connection that just ended may fail without being sent.
        assert!(self.shaky.cluster().await.unwrap().ready, "it is connected");
        self.proxy.hold_answers();
        let call: JoinHandle<T> = tokio::spawn(call);
        until(|| is_done(&self.steady)).await;
        assert!(!call.is_finished());
        self.proxy.cut();
        soon(call).await.unwrap()
    }

    async fn totals(&self) -> Totals {
        self.steady.stats(NAMESPACE).await.unwrap().totals.unwrap()
    }

    async fn revision(&self, id: &str) -> Option<u32> {
        self.steady.get(NAMESPACE, id).await.unwrap().revision
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_schedule_with_a_lost_response_is_one_timer() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call =
        async move { client.schedule(NAMESPACE, Schedule::after(HOUR).with_id("new")).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
    let timer = world.lose(call, is_done).await.unwrap();
    assert!(timer.existing, "the first time made it");
    assert_eq!(timer.revision, Some(1));
    assert_eq!(world.totals().await.scheduled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_a_schedule_without_an_id_is_one_timer_too() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.schedule(NAMESPACE, Schedule::after(HOUR)).await };
    let is_done = async |steady: &Client| {
        let scheduled = |stats: NamespaceStats| stats.totals.unwrap().scheduled;
        steady.stats(NAMESPACE).await.map(scheduled) == Ok(2)
    };
    assert!(world.lose(call, is_done).await.unwrap().existing);
    assert_eq!(world.totals().await.scheduled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn debounce_with_a_lost_response_replaces_once() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call =
        async move { client.debounce(NAMESPACE, Schedule::after(HOUR).with_id("there")).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.revision == Some(2))
    };
    assert!(world.lose(call, is_done).await.unwrap().existing);
    assert_eq!(world.revision("there").await, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_cancel_with_a_lost_response_returns_already() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.cancel_if(NAMESPACE, "there", 1).await };
    let is_done = async |steady: &Client| {
        let timer = steady.get(NAMESPACE, "there").await;
        timer.is_ok_and(|timer| timer.state() == State::Cancelled)
    };
    let cancelled = world.lose(call, is_done).await.unwrap();
    assert!(cancelled.already, "by the first time");
}

#[tokio::test(flavor = "multi_thread")]
async fn change_with_a_lost_response_is_made_once_and_is_unknown() {
    for change in [Reschedule::after(2 * HOUR), Reschedule::after(2 * HOUR).with_if_revision(1)] {
        let world = World::new().await;
        let client = world.shaky.clone();
        let call = async move { client.reschedule(NAMESPACE, "there", change).await };
        let is_done = async |steady: &Client| {
            steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.revision == Some(2))
        };
        let error = world.lose(call, is_done).await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { .. }), "{error}");
        assert_eq!(error.retry(), RetryAdvice::AfterRead);
        assert_eq!(world.revision("there").await, Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fire_with_a_lost_response_is_not_repeated() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.fire(NAMESPACE, "there").await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.state() == State::Due)
    };
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { retry: RetryAdvice::AfterRead, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_settlement_with_a_lost_response_counts_once() {
    let world = World::new().await;
    due(&world.steady, "due").await;
    let token = lease(&world.steady, 1).await.remove(0).token;
    let client = world.shaky.clone();
    let call = async move { client.settle(NAMESPACE, vec![Settlement::ack(token)]).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "due").await.is_ok_and(|timer| timer.state() == State::Finished)
    };
    assert_eq!(world.lose(call, is_done).await.unwrap(), [Ok(SettleOutcome::AlreadySettled)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_with_a_lost_response_is_not_repeated() {
    let world = World::new().await;
    due(&world.steady, "due").await;
    let client = world.shaky.clone();
    let call = async move { client.lease(NAMESPACE, LeaseRequest::up_to(1)).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "due").await.is_ok_and(|timer| timer.state() == State::InFlight)
    };
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn put_patch_pause_and_resume_are_repeated() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.pause(NAMESPACE).await };
    let is_done = async |steady: &Client| steady.namespace(NAMESPACE).await.unwrap().paused;
    assert!(world.lose(call, is_done).await.unwrap().paused);
    let client = world.shaky.clone();
    let settings = NamespaceSettings { weight: Some(7), ..NamespaceSettings::default() };
    let call = async move { client.put_namespace("b", settings).await };
    let is_done = async |steady: &Client| steady.namespace("b").await.is_ok();
    assert_eq!(world.lose(call, is_done).await.unwrap().weight, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_repeatable_batch_with_a_lost_response_is_repeated() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let operations = vec![
        Schedule::after(HOUR).with_id("new").into(),
        Schedule::after(HOUR).into(),
        Operation::cancel("there"),
    ];
    let call = async move { client.batch(NAMESPACE, operations).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
    let results = world.lose(call, is_done).await.unwrap();
    for result in &results[..2] {
        let timer = result.as_ref().ok().and_then(|result| result.timer.as_ref());
        assert!(timer.is_some_and(|timer| timer.existing), "{result:?}");
    }
    assert!(results[2].as_ref().unwrap().cancelled.as_ref().unwrap().already);
    assert_eq!(world.totals().await.scheduled, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_p5_unsafe_batch_with_a_lost_response_is_not_repeated() {
    for second in [Operation::fire("there"), Schedule::after(HOUR).with_id("new").into()] {
        let world = World::new().await;
        let client = world.shaky.clone();
        let operations = vec![
            Operation::cancel("new"),
            Schedule::after(2 * HOUR).with_id("new").into(),
            second.clone(),
        ];
        let call = async move { client.batch(NAMESPACE, operations).await };
        let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
        let error = world.lose(call, is_done).await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { retry: RetryAdvice::AfterRead, .. }), "{error}");
        let cancelled = world.totals().await.cancelled;
        assert_eq!(cancelled, 0, "a repetition would have cancelled what the first time made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_with_a_lost_response_spares_a_recreated_namespace() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.delete_namespace_and_timers(NAMESPACE).await };
    let is_done = async |steady: &Client| steady.namespace(NAMESPACE).await.is_err();
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { retry: RetryAdvice::AfterRead, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_call_with_a_lost_response_is_not_repeated() {
    let world = World::new().await;
    for id in ["again", "gone"] {
        due(&world.steady, id).await;
        let token = lease(&world.steady, 1).await.remove(0).token;
        world.steady.settle(NAMESPACE, vec![Settlement::dead(token, "no")]).await.unwrap();
    }
    let is_unknown = |error: &Error| {
        assert!(matches!(error, Error::Unknown { retry: RetryAdvice::AfterRead, .. }), "{error}");
    };
    let client = world.shaky.clone();
    let redrive = RedriveRequest::ids(["again"]).with_delay(HOUR);
    let call = async move { client.redrive(NAMESPACE, redrive).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "again").await.is_ok_and(|timer| timer.state() == State::Retrying)
    };
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    let client = world.shaky.clone();
    let call = async move { client.purge(NAMESPACE, PurgeRequest::ids(["gone"])).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "gone").await.is_err();
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    let (client, cancelled) = (world.shaky.clone(), &world.steady);
    cancelled.schedule(NAMESPACE, Schedule::after(HOUR).with_id("ended")).await.unwrap();
    cancelled.cancel(NAMESPACE, "ended").await.unwrap();
    let call = async move { client.forget(NAMESPACE, "ended").await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "ended").await.is_err();
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    let client = world.shaky.clone();
    let call = async move { client.cancel_many(NAMESPACE, CancelManyRequest::everything()).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.state() == State::Cancelled)
    };
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    due(&world.steady, "late").await;
    until_state(&world.steady, "late", State::Due).await;
    let client = world.shaky.clone();
    let call = async move { client.dead_letter_overdue(NAMESPACE, None).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "late").await.is_ok_and(|timer| timer.state() == State::Dead)
    };
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    // A dry run changes nothing.
    let client = world.shaky.clone();
    let count = CancelManyRequest::everything().with_dry_run();
    let call = async move { client.cancel_many(NAMESPACE, count).await };
    assert_eq!(world.lose(call, async |_| true).await.unwrap().cancelled, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unbatched_the_same_calls_are_repeated() {
    let world = World::new().await;
    let client = world.shaky.unbatched();
    let call =
        async move { client.schedule(NAMESPACE, Schedule::after(HOUR).with_id("new")).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
    assert!(world.lose(call, is_done).await.unwrap().existing);
    let client = world.shaky.unbatched();
    let call = async move { client.fire(NAMESPACE, "there").await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.state() == State::Due)
    };
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_are_repeated() {
    let world = World::new().await;
    // A read leaves no trace on the server, so the response is held back all the time.
    let client = world.shaky.clone();
    let call = async move { client.get(NAMESPACE, "there").await };
    assert_eq!(world.lose(call, async |_| true).await.unwrap().id, "there");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_server_is_retried_until_it_starts() {
    let server = Server::start().await;
    later(&server.client(), "there").await;
    later(&server.client(), "fired").await;
    let stopped = server.stop().await;
    let client = Client::new(stopped.url()).unwrap();
    let hasty = Client::builder(stopped.url()).retries(Retries::none()).build().unwrap();
    let error = hasty.fire(NAMESPACE, "there").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.is_not_done());
    // Neither of these calls would be repeated if it could have been carried out.
    let (one, two) = (client.clone(), client);
    let moved = tokio::spawn(async move {
        one.reschedule(NAMESPACE, "there", Reschedule::after(2 * HOUR)).await
    });
    let fired = tokio::spawn(async move { two.fire(NAMESPACE, "fired").await });
    let server = stopped.start().await;
    assert_eq!(soon(fired).await.unwrap().unwrap().revision, Some(2));
    assert_eq!(soon(moved).await.unwrap().unwrap().revision, Some(2));
    until_state(&server.client(), "fired", State::Due).await;
}
