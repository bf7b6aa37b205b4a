//! What is repeated when an answer gets lost, and what is not: the table of `retry.rs`, row by row.

use duly_client::{
    Change, Client, Error, Outcome, Retries, Retry, Schedule, Settings, Settled, Settlement, State,
};
use tokio::task::JoinHandle;

use crate::{
    proxy::Proxy,
    server::{HOUR, NAMESPACE, Server, due, later, lease, soon, until, until_state},
};

/// A server, with a client whose answers can be made to get lost, and one whose cannot.
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
        assert!(shaky.cluster().await.unwrap().ready, "it is connected");
        Self { _server: server, proxy, shaky, steady }
    }

    /// Makes a call whose answer gets lost after it has been carried out.
    async fn lose<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
        is_done: impl AsyncFn(&Client) -> bool,
    ) -> T {
        self.proxy.hold_answers();
        let call: JoinHandle<T> = tokio::spawn(call);
        until(|| is_done(&self.steady)).await;
        assert!(!call.is_finished());
        self.proxy.cut();
        soon(call).await.unwrap()
    }

    async fn revision(&self, id: &str) -> Option<u32> {
        self.steady.get(NAMESPACE, id).await.unwrap().revision
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_a_schedule_whose_answer_got_lost_is_one_timer() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.schedule(NAMESPACE, Schedule::after(HOUR).id("new")).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
    let scheduled = world.lose(call, is_done).await.unwrap();
    assert_eq!(scheduled.outcome, Outcome::Existing, "the first time made it");
    assert_eq!(scheduled.timer.revision, Some(1));
    assert_eq!(world.steady.stats(NAMESPACE).await.unwrap().totals.scheduled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_a_schedule_without_an_id_is_one_timer_too() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.schedule(NAMESPACE, Schedule::after(HOUR)).await };
    let is_done = async |steady: &Client| {
        steady.stats(NAMESPACE).await.is_ok_and(|stats| stats.totals.scheduled == 2)
    };
    assert_eq!(world.lose(call, is_done).await.unwrap().outcome, Outcome::Existing);
    assert_eq!(world.steady.stats(NAMESPACE).await.unwrap().totals.scheduled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_debounce_whose_answer_got_lost_replaces_once() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.debounce(NAMESPACE, Schedule::after(HOUR).id("there")).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.revision == Some(2))
    };
    assert_eq!(world.lose(call, is_done).await.unwrap().outcome, Outcome::Existing);
    assert_eq!(world.revision("there").await, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_a_cancel_whose_answer_got_lost_says_that_it_is_cancelled() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.cancel_if(NAMESPACE, "there", 1).await };
    let is_done = async |steady: &Client| {
        let timer = steady.get(NAMESPACE, "there").await;
        timer.is_ok_and(|timer| timer.state == State::Cancelled)
    };
    let cancelled = world.lose(call, is_done).await.unwrap();
    assert!(cancelled.already, "by the first time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_got_lost_is_not_made_twice_and_nobody_claims_to_know() {
    for change in [Change::after(2 * HOUR), Change::after(2 * HOUR).if_revision(1)] {
        let world = World::new().await;
        let client = world.shaky.clone();
        let call = async move { client.reschedule(NAMESPACE, "there", change).await };
        let is_done = async |steady: &Client| {
            steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.revision == Some(2))
        };
        let error = world.lose(call, is_done).await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { .. }), "{error}");
        assert_eq!(error.retry(), Retry::AfterALook);
        assert_eq!(world.revision("there").await, Some(2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_whose_answer_got_lost_is_not_repeated() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.fire(NAMESPACE, "there").await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.state == State::Due)
    };
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { retry: Retry::AfterALook, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p8_a_settlement_whose_answer_got_lost_is_taken_once() {
    let world = World::new().await;
    due(&world.steady, "due").await;
    let token = lease(&world.steady, 1).await.remove(0).token;
    let client = world.shaky.clone();
    let call = async move { client.settle(NAMESPACE, vec![Settlement::ack(token)]).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "due").await.is_ok_and(|timer| timer.state == State::Finished)
    };
    assert_eq!(world.lose(call, is_done).await.unwrap(), [Ok(Settled::Already)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_answer_got_lost_takes_no_more() {
    let world = World::new().await;
    due(&world.steady, "due").await;
    let client = world.shaky.clone();
    let call = async move { client.lease(NAMESPACE, duly_client::Lease::up_to(1)).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "due").await.is_ok_and(|timer| timer.state == State::InFlight)
    };
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_how_a_namespace_shall_be_is_repeated() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.pause(NAMESPACE).await };
    let is_done = async |steady: &Client| steady.namespace(NAMESPACE).await.unwrap().paused;
    assert!(world.lose(call, is_done).await.unwrap().paused);
    let client = world.shaky.clone();
    let settings = Settings { weight: Some(7), ..Settings::default() };
    let call = async move { client.put_namespace("b", settings).await };
    let is_done = async |steady: &Client| steady.namespace("b").await.is_ok();
    assert_eq!(world.lose(call, is_done).await.unwrap().settings.weight, Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_is_repeated() {
    let world = World::new().await;
    // Nothing shows whether it was carried out: the answer is held up all the time.
    let client = world.shaky.clone();
    let call = async move { client.get(NAMESPACE, "there").await };
    assert_eq!(world.lose(call, async |_| true).await.unwrap().id, "there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_finds_no_server_is_repeated_until_there_is_one() {
    let server = Server::start().await;
    later(&server.client(), "there").await;
    later(&server.client(), "fired").await;
    let stopped = server.stop().await;
    let client = Client::new(stopped.url()).unwrap();
    let hasty = Client::builder(stopped.url()).retries(Retries::none()).build().unwrap();
    let error = hasty.fire(NAMESPACE, "there").await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.is_not_done());
    // Neither of these two would be repeated if it could have been carried out.
    let (one, two) = (client.clone(), client);
    let moved =
        tokio::spawn(
            async move { one.reschedule(NAMESPACE, "there", Change::after(2 * HOUR)).await },
        );
    let fired = tokio::spawn(async move { two.fire(NAMESPACE, "fired").await });
    let server = stopped.start().await;
    assert_eq!(soon(fired).await.unwrap().unwrap().revision, Some(2));
    assert_eq!(soon(moved).await.unwrap().unwrap().revision, Some(2));
    until_state(&server.client(), "fired", State::Due).await;
}
