//! What is repeated when an answer gets lost, and what is not: the table of `retry.rs`, row by row.

use duly_client::{
    CancelMany, Change, Client, Done, Error, Letters, Operation, Outcome, Redrive, Retries, Retry,
    Schedule, Settings, Settled, Settlement, State, Verdict,
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
        assert_eq!(error.retry(), Retry::AfterRead);
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
    assert!(matches!(&error, Error::Unknown { retry: Retry::AfterRead, .. }), "{error}");
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
async fn p6_a_batch_whose_answer_got_lost_is_repeated_where_all_of_it_may_be() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let operations = vec![
        Schedule::after(HOUR).id("new").into(),
        Schedule::after(HOUR).into(),
        Operation::cancel("there"),
    ];
    let call = async move { client.batch(NAMESPACE, operations).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
    let results = world.lose(call, is_done).await.unwrap();
    for result in &results[..2] {
        assert!(
            matches!(result, Ok(Done::Scheduled(it)) if it.outcome == Outcome::Existing),
            "{result:?}"
        );
    }
    assert!(matches!(&results[2], Ok(Done::Cancelled(cancelled)) if cancelled.already));
    assert_eq!(world.steady.stats(NAMESPACE).await.unwrap().totals.scheduled, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_p5_a_batch_whose_answer_got_lost_is_not_repeated_where_a_part_of_it_may_not_be() {
    for second in [Operation::fire("there"), Schedule::after(HOUR).id("new").into()] {
        let world = World::new().await;
        let client = world.shaky.clone();
        let operations = vec![
            Operation::cancel("new"),
            Schedule::after(2 * HOUR).id("new").into(),
            second.clone(),
        ];
        let call = async move { client.batch(NAMESPACE, operations).await };
        let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
        let error = world.lose(call, is_done).await.unwrap_err();
        assert!(matches!(&error, Error::Unknown { retry: Retry::AfterRead, .. }), "{error}");
        let totals = world.steady.stats(NAMESPACE).await.unwrap().totals;
        assert_eq!(
            totals.cancelled, 0,
            "a repetition would have cancelled what the first time made"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_whose_answer_got_lost_does_not_delete_what_came_after_it() {
    let world = World::new().await;
    let client = world.shaky.clone();
    let call = async move { client.delete_namespace_and_timers(NAMESPACE).await };
    let is_done = async |steady: &Client| steady.namespace(NAMESPACE).await.is_err();
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { retry: Retry::AfterRead, .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_deals_with_many_timers_is_not_repeated_when_its_answer_got_lost() {
    let world = World::new().await;
    let dead = Verdict::Dead { reason: "no".to_owned() };
    for id in ["again", "gone"] {
        due(&world.steady, id).await;
        let token = lease(&world.steady, 1).await.remove(0).token;
        let settlement = vec![Settlement::new(token, dead.clone())];
        world.steady.settle(NAMESPACE, settlement).await.unwrap();
    }
    let is_unknown = |error: &Error| {
        assert!(matches!(error, Error::Unknown { retry: Retry::AfterRead, .. }), "{error}");
    };
    let client = world.shaky.clone();
    let redrive = Redrive::new(Letters::ids(["again"])).after(HOUR);
    let call = async move { client.redrive(NAMESPACE, redrive).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "again").await.is_ok_and(|timer| timer.state == State::Retrying)
    };
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    let client = world.shaky.clone();
    let call = async move { client.purge(NAMESPACE, Letters::ids(["gone"])).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "gone").await.is_err();
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    let client = world.shaky.clone();
    let call = async move { client.cancel_many(NAMESPACE, CancelMany::all()).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.state == State::Cancelled)
    };
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    due(&world.steady, "late").await;
    until_state(&world.steady, "late", State::Due).await;
    let client = world.shaky.clone();
    let call = async move { client.dead_letter_overdue(NAMESPACE, None).await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "late").await.is_ok_and(|timer| timer.state == State::Dead)
    };
    is_unknown(&world.lose(call, is_done).await.unwrap_err());
    // Counting changes nothing.
    let client = world.shaky.clone();
    let call = async move { client.cancel_many(NAMESPACE, CancelMany::all().dry_run()).await };
    assert_eq!(world.lose(call, async |_| true).await.unwrap().cancelled, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unbatched_the_same_calls_are_repeated() {
    let world = World::new().await;
    let client = world.shaky.unbatched();
    let call = async move { client.schedule(NAMESPACE, Schedule::after(HOUR).id("new")).await };
    let is_done = async |steady: &Client| steady.get(NAMESPACE, "new").await.is_ok();
    assert_eq!(world.lose(call, is_done).await.unwrap().outcome, Outcome::Existing);
    let client = world.shaky.unbatched();
    let call = async move { client.fire(NAMESPACE, "there").await };
    let is_done = async |steady: &Client| {
        steady.get(NAMESPACE, "there").await.is_ok_and(|timer| timer.state == State::Due)
    };
    let error = world.lose(call, is_done).await.unwrap_err();
    assert!(matches!(&error, Error::Unknown { .. }), "{error}");
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
