//! Calls on many timers at once, on a real server.

use std::time::{Duration, SystemTime};

use duly_client::{
    CancelMany, Change, Client, Code, Done, Error, Filter, Letters, Operation, Outcome, Redrive,
    Retry, Schedule, Settlement, State, Verdict,
};

use crate::server::{HOUR, NAMESPACE, Server, due, later, lease};

/// Makes dead letters of timers with these ids.
async fn dead_letters(client: &Client, ids: &[&str]) {
    for id in ids {
        due(client, id).await;
        let token = lease(client, 1).await.remove(0).token;
        let verdict = Verdict::Dead { reason: "no".to_owned() };
        let settled = client.settle(NAMESPACE, vec![Settlement::new(token, verdict)]).await;
        assert!(settled.unwrap()[0].is_ok());
    }
}

async fn state(client: &Client, id: &str) -> State {
    client.get(NAMESPACE, id).await.unwrap().state
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_answers_each_operation_in_its_place() {
    let server = Server::start().await;
    let client = server.client();
    later(&client, "there").await;
    let operations = vec![
        Schedule::after(HOUR).id("new").text("x").into(),
        Operation::reschedule("there", Change::after(2 * HOUR)),
        // Refused here, by the server, and by the state of things.
        Operation::cancel(".."),
        Schedule::after(HOUR).id("wrong").tag("").into(),
        Operation::reschedule("new", Change::new()),
        Operation::cancel("none"),
        Operation::fire("new"),
        Operation::cancel("there"),
        Schedule::after(HOUR).into(),
    ];
    let results = client.batch(NAMESPACE, operations).await.unwrap();
    assert_eq!(results.len(), 9);
    let scheduled = |result: &Result<Done, Error>| match result {
        Ok(Done::Scheduled(scheduled)) => (scheduled.outcome, scheduled.timer.id.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(scheduled(&results[0]), (Outcome::Created, "new".to_owned()));
    assert!(matches!(&results[1], Ok(Done::Changed(timer)) if timer.revision == Some(2)));
    let field = |result: &Result<Done, Error>| match result {
        Err(Error::Invalid(invalid)) => invalid.field.clone(),
        Err(Error::Refused(refusal)) => refusal.field.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert_eq!(field(&results[2]), "id");
    assert_eq!(field(&results[3]), "tags[0]", "no place in a batch that the caller did not write");
    assert!(matches!(&results[4], Err(Error::Refused(it)) if it.code == Code::InvalidArgument));
    assert_eq!(results[5].as_ref().unwrap_err().code(), Code::NotFound);
    assert!(matches!(&results[6], Ok(Done::Changed(timer)) if timer.state == State::Due));
    assert!(matches!(&results[7], Ok(Done::Cancelled(cancelled)) if !cancelled.already));
    assert_eq!(scheduled(&results[8]).1.len(), 36, "the client makes an id");
    assert_eq!(client.batch(NAMESPACE, Vec::new()).await, Ok(Vec::new()));
    let nowhere = client.batch("no spaces", vec![Operation::fire("x")]).await.unwrap_err();
    assert!(matches!(nowhere, Error::Invalid(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fits_is_cancelled_and_nothing_by_mistake() {
    let server = Server::start().await;
    let client = server.client();
    for (id, tag) in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "red"), ("e", "blue")] {
        client.schedule(NAMESPACE, Schedule::after(HOUR).id(id).tag(tag)).await.unwrap();
    }
    let red = || CancelMany::fitting(Filter::new().tag("red"));
    let cancel = async |which| client.cancel_many(NAMESPACE, which).await;
    assert_eq!(cancel(red().dry_run()).await.unwrap().cancelled, 3);
    assert_eq!(state(&client, "a").await, State::Scheduled);
    let one = cancel(red().limit(1)).await.unwrap();
    assert_eq!((one.cancelled, one.maybe_delivered, one.skipped), (1, 0, 0));
    assert_eq!(cancel(red()).await.unwrap().cancelled, 2);
    assert_eq!(state(&client, "b").await, State::Scheduled);
    for (wrong, field) in [
        (CancelMany::fitting(Filter::new()), "filter"),
        (CancelMany::fitting(Filter::new().state(State::Dead)), "filter.state"),
        (CancelMany::all().limit(0), "limit"),
    ] {
        let error = cancel(wrong).await.unwrap_err();
        assert_eq!(error.refusal().unwrap().field.as_deref(), Some(field));
    }
    let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let error = cancel(CancelMany::fitting(Filter::new().due_from(early))).await.unwrap_err();
    assert!(matches!(&error, Error::Invalid(it) if it.field == "filter.due_from"), "{error}");
    assert_eq!(cancel(CancelMany::all()).await.unwrap().cancelled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_redriven_and_purged() {
    let server = Server::start().await;
    let client = server.client();
    dead_letters(&client, &["a", "b", "c", "d"]).await;
    let named = Redrive::new(Letters::ids(["none", "a"])).after(HOUR);
    let dealt = client.redrive(NAMESPACE, named).await.unwrap();
    assert_eq!((dealt.done, dealt.refused.len()), (1, 1));
    assert_eq!((dealt.refused[0].0, dealt.refused[0].1.code()), (0, Code::NotFound));
    assert_eq!(state(&client, "a").await, State::Retrying);
    let delivery_id = client.get(NAMESPACE, "b").await.unwrap().delivery_id.unwrap();
    let dealt = client.purge(NAMESPACE, Letters::delivery_ids([delivery_id])).await.unwrap();
    assert_eq!((dealt.done, dealt.refused), (1, vec![]));
    assert_eq!(client.get(NAMESPACE, "b").await.unwrap_err().code(), Code::NotFound);
    let all = Redrive::new(Letters::All).after(HOUR).per_second(0.5);
    assert_eq!(client.redrive(NAMESPACE, all.clone()).await.unwrap().done, 2);
    let next = async |id| client.get(NAMESPACE, id).await.unwrap().next_attempt_at;
    assert_ne!(next("c").await, next("d").await, "one every two seconds");
    dead_letters(&client, &["e"]).await;
    assert_eq!(client.purge(NAMESPACE, Letters::All).await.unwrap().done, 1);
    let error = client.redrive(NAMESPACE, all.per_second(-1.0)).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::InvalidArgument, Retry::Never));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_overdue_is_given_up_and_the_rest_stays() {
    let server = Server::start().await;
    let client = server.client();
    later(&client, "later").await;
    client.pause(NAMESPACE).await.unwrap();
    for id in ["a", "b"] {
        due(&client, id).await;
    }
    let dead_lettered = client.dead_letter_overdue(NAMESPACE, None).await.unwrap();
    assert_eq!(dead_lettered.dead_lettered, 2);
    assert!(dead_lettered.due_by.is_some());
    let dead = client.get(NAMESPACE, "a").await.unwrap();
    assert_eq!((dead.state, dead.dead_reason.as_deref()), (State::Dead, Some("overdue")));
    assert_eq!(state(&client, "later").await, State::Scheduled);
    let future = Some(SystemTime::now() + HOUR);
    let error = client.dead_letter_overdue(NAMESPACE, future).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().field.as_deref(), Some("due_by"));
}
