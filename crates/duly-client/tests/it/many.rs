//! Calls on many timers at once, on a real server.

use std::time::{Duration, SystemTime};

use duly_client::{
    CancelFilter, CancelManyRequest, Client, Code, DeadReason, Error, Operation, OperationResult,
    PurgeRequest, RedriveRequest, Reschedule, RetryAdvice, Schedule, Settlement, State, Time,
};

use crate::server::{HOUR, NAMESPACE, Server, due, later, lease};

/// Creates dead letters with these ids.
async fn dead_letters(client: &Client, ids: &[&str]) {
    for id in ids {
        due(client, id).await;
        let token = lease(client, 1).await.remove(0).token;
        let settled = client.settle(NAMESPACE, vec![Settlement::dead(token, "no")]).await;
        assert!(settled.unwrap()[0].is_ok());
    }
}

async fn state(client: &Client, id: &str) -> State {
    client.get(NAMESPACE, id).await.unwrap().state()
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_results_are_in_order() {
    let server = Server::start().await;
    let client = server.client();
    later(&client, "there").await;
    let operations = vec![
        Schedule::after(HOUR).with_id("new").with_text("x").into(),
        Operation::reschedule("there", Reschedule::after(2 * HOUR)),
        // Refused: an invalid operation, and one that conflicts with the state of its timer.
        Operation::cancel(".."),
        Schedule::after(HOUR).with_id("wrong").with_tag("").into(),
        Operation::reschedule("new", Reschedule::default()),
        Operation::cancel("none"),
        Operation::fire("new"),
        Operation::cancel("there"),
        Schedule::after(HOUR).into(),
    ];
    let results = client.batch(NAMESPACE, operations).await.unwrap();
    assert_eq!(results.len(), 9);
    let timer = |result: &Result<OperationResult, Error>| {
        let result = result.as_ref().unwrap();
        assert_eq!((&result.cancelled, &result.error), (&None, &None));
        result.timer.clone().unwrap()
    };
    let created = timer(&results[0]);
    assert_eq!((created.existing, created.replaced, created.id.as_str()), (false, false, "new"));
    assert_eq!(timer(&results[1]).revision, Some(2));
    let field = |result: &Result<OperationResult, Error>| match result {
        Err(Error::Refused(refusal)) => refusal.problem.field.clone().unwrap_or_default(),
        other => panic!("{other:?}"),
    };
    assert_eq!(field(&results[2]), "id");
    assert_eq!(field(&results[3]), "tags[0]", "no place in a batch that the caller did not write");
    assert!(matches!(&results[4], Err(Error::Refused(it)) if it.code == Code::InvalidArgument));
    assert_eq!(results[5].as_ref().unwrap_err().code(), Code::NotFound);
    assert_eq!(timer(&results[6]).state(), State::Due);
    let cancelled = results[7].as_ref().unwrap();
    assert!(!cancelled.cancelled.as_ref().unwrap().already && cancelled.timer.is_none());
    assert_eq!(timer(&results[8]).id.len(), 36, "the client makes an id");
    assert_eq!(client.batch(NAMESPACE, Vec::new()).await, Ok(Vec::new()));
    let nowhere = client.batch("no spaces", vec![Operation::fire("x")]).await.unwrap_err();
    assert!(matches!(nowhere, Error::Invalid(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn matching_timers_are_cancelled_and_no_others() {
    let server = Server::start().await;
    let client = server.client();
    for (id, tag) in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "red"), ("e", "blue")] {
        client.schedule(NAMESPACE, Schedule::after(HOUR).with_id(id).with_tag(tag)).await.unwrap();
    }
    let filter = CancelFilter::default;
    let red = || CancelManyRequest::matching(filter().with_tag("red"));
    let cancel = async |request| client.cancel_many(NAMESPACE, request).await;
    let counted = cancel(red().with_dry_run()).await.unwrap();
    assert_eq!((counted.cancelled, counted.dry_run), (3, true));
    assert_eq!(state(&client, "a").await, State::Scheduled);
    let one = cancel(red().with_limit(1)).await.unwrap();
    assert_eq!((one.cancelled, one.maybe_delivered, one.skipped), (1, 0, 0));
    assert_eq!(cancel(red()).await.unwrap().cancelled, 2);
    assert_eq!(state(&client, "b").await, State::Scheduled);
    let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let no_time = Time::Text("soon".to_owned());
    for (wrong, field) in [
        (CancelManyRequest::matching(filter()), "filter"),
        (CancelManyRequest::matching(filter().with_state(State::Dead)), "filter.state"),
        (CancelManyRequest::matching(filter().with_due_from(early)), "filter.due_from"),
        (CancelManyRequest::matching(filter().with_due_from(no_time)), "filter.due_from"),
        (CancelManyRequest::everything().with_limit(0), "limit"),
    ] {
        let error = cancel(wrong).await.unwrap_err();
        assert_eq!(error.refusal().unwrap().problem.field.as_deref(), Some(field));
    }
    assert_eq!(cancel(CancelManyRequest::everything()).await.unwrap().cancelled, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_redriven_and_purged() {
    let server = Server::start().await;
    let client = server.client();
    dead_letters(&client, &["a", "b", "c", "d"]).await;
    let named = RedriveRequest::ids(["none", "a"]).with_delay(HOUR);
    let mut response = client.redrive(NAMESPACE, named).await.unwrap();
    assert_eq!((response.redriven, response.errors.len()), (1, 1));
    let refused = response.errors.remove(0);
    assert_eq!(refused.index, 0);
    assert_eq!(Error::from(refused.error.unwrap()).code(), Code::NotFound);
    assert_eq!(state(&client, "a").await, State::Retrying);
    let delivery_id = client.get(NAMESPACE, "b").await.unwrap().delivery_id.unwrap();
    let named = PurgeRequest::delivery_ids([delivery_id]);
    let response = client.purge(NAMESPACE, named).await.unwrap();
    assert_eq!((response.purged, response.errors), (1, vec![]));
    assert_eq!(client.get(NAMESPACE, "b").await.unwrap_err().code(), Code::NotFound);
    let error = client.forget(NAMESPACE, "a").await.unwrap_err();
    assert!(error.to_string().contains("cancel it first"), "{error}");
    client.cancel(NAMESPACE, "a").await.unwrap();
    let removed = client.forget(NAMESPACE, "a").await.unwrap();
    assert_eq!((removed.tombstones, removed.dead_letters), (1, 0));
    client.schedule(NAMESPACE, Schedule::after(HOUR).with_id("a")).await.unwrap();
    let all = RedriveRequest::everything().with_delay(HOUR).with_per_second(0.5);
    assert_eq!(client.redrive(NAMESPACE, all.clone()).await.unwrap().redriven, 2);
    let next = async |id| client.get(NAMESPACE, id).await.unwrap().next_attempt_at;
    assert_ne!(next("c").await, next("d").await, "one every two seconds");
    dead_letters(&client, &["e"]).await;
    assert_eq!(client.purge(NAMESPACE, PurgeRequest::everything()).await.unwrap().purged, 1);
    let error = client.redrive(NAMESPACE, all.with_per_second(-1.0)).await.unwrap_err();
    assert_eq!((error.code(), error.retry()), (Code::InvalidArgument, RetryAdvice::Never));
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_timers_are_dead_lettered_and_others_stay() {
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
    assert_eq!((dead.state(), dead.dead_reason()), (State::Dead, DeadReason::Overdue));
    assert_eq!(state(&client, "later").await, State::Scheduled);
    let future = Some(SystemTime::now() + HOUR);
    let error = client.dead_letter_overdue(NAMESPACE, future).await.unwrap_err();
    assert_eq!(error.refusal().unwrap().problem.field.as_deref(), Some("due_by"));
}
