//! Many timers at once: cancel by filter, redrive and purge.

use duly_api::v1;
use tonic::Code;
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, after, at, lasting, named, settled, settling};

fn cancel(filter: Option<v1::CancelFilter>, all: Option<bool>) -> v1::CancelManyRequest {
    let namespace = NAMESPACE.into();
    v1::CancelManyRequest { namespace, filter, all, ..v1::CancelManyRequest::default() }
}

fn tagged(tag: &str) -> Option<v1::CancelFilter> {
    Some(v1::CancelFilter { tag: Some(tag.into()), ..v1::CancelFilter::default() })
}

fn names(names: &[&str]) -> v1::DeadLetterNames {
    v1::DeadLetterNames { names: names.iter().map(|name| (*name).to_owned()).collect() }
}

/// Makes dead letters of timers with these ids, one after the other.
async fn dead_letters(server: &Server, ids: &[&str]) {
    for id in ids {
        server.schedule(v1::Schedule { id: Some((*id).into()), ..after(0) }).await;
        let token = server.lease(1).await.remove(0).token;
        let dead = Some(v1::DeadVerdict { reason: "no".into() });
        let request = settling(vec![v1::Settlement { token, dead, ..Default::default() }]);
        let results = server.timers().settle(request).await.unwrap().into_inner().results;
        assert_eq!(results, [settled(v1::SettleOutcome::Ok)]);
    }
}

#[tokio::test]
async fn bulk_cancel_is_bounded_and_needs_a_filter() {
    let server = Server::start().await;
    for (id, tag) in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "red")] {
        server.schedule(v1::Schedule { tags: vec![tag.into()], ..named(id) }).await;
    }
    let mut timers = server.timers();
    let red = || cancel(tagged("red"), None);
    let counted = v1::CancelManyRequest { dry_run: Some(true), ..red() };
    let counted = timers.cancel_many(counted).await.unwrap().into_inner();
    assert_eq!((counted.cancelled, counted.cursor, counted.dry_run), (3, None, true));
    let share = v1::CancelManyRequest { limit: Some(2), dry_run: Some(false), ..red() };
    let first = timers.cancel_many(share.clone()).await.unwrap().into_inner();
    assert!(!first.dry_run);
    assert_eq!((first.cancelled, first.skipped, first.maybe_delivered), (2, 0, 0));
    let rest = v1::CancelManyRequest { cursor: first.cursor.clone(), ..share };
    assert!(first.cursor.is_some(), "there is one more");
    let rest = timers.cancel_many(rest).await.unwrap().into_inner();
    assert_eq!((rest.cancelled, rest.cursor), (1, None));
    assert_eq!(server.http("GET", "timers/b", "").await["state"], "scheduled");

    let state =
        |state: v1::State| Some(v1::CancelFilter { state: state.into(), ..Default::default() });
    for (filter, all, field) in [
        (None, None, "filter"),
        (None, Some(false), "filter"),
        (Some(v1::CancelFilter::default()), None, "filter"),
        (tagged(""), None, "filter.tag"),
        (state(v1::State::InFlight), None, "filter.state"),
    ] {
        let refused = timers.cancel_many(cancel(filter, all)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        let details = refused.get_error_details();
        let named = &details.bad_request().unwrap().field_violations[0].field;
        assert_eq!(named, field);
    }
    let all = timers.cancel_many(cancel(None, Some(true))).await.unwrap().into_inner();
    assert_eq!(all.cancelled, 1);
    let elsewhere = v1::CancelManyRequest { namespace: "none".into(), ..red() };
    assert_eq!(timers.cancel_many(elsewhere).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn dead_letters_are_redriven_and_purged() {
    let server = Server::start().await;
    dead_letters(&server, &["a", "b", "c", "d"]).await;
    let mut timers = server.timers();
    let redrive = |ids, all| v1::RedriveRequest {
        namespace: NAMESPACE.into(),
        ids,
        all,
        delay: Some(lasting(3_600_000)),
        per_second: Some(0.5),
        ..v1::RedriveRequest::default()
    };
    let asked = redrive(Some(names(&["none", "a", ".."])), None);
    let done = timers.redrive(asked).await.unwrap().into_inner();
    assert_eq!((done.redriven, done.cursor), (1, None));
    let errors: Vec<_> = done.errors.into_iter().map(|it| (it.index, it.error.unwrap())).collect();
    assert_eq!((errors[0].0, errors[0].1.code.as_str()), (0, "not_found"));
    assert_eq!((errors[1].0, errors[1].1.field.as_deref()), (2, Some("ids[2]")));
    let letter = server.http("GET", "timers/b", "").await;
    let delivery_id = letter["delivery_id"].as_str().unwrap();
    let purge = |delivery_ids, all| v1::PurgeRequest {
        namespace: NAMESPACE.into(),
        delivery_ids,
        all,
        ..v1::PurgeRequest::default()
    };
    let dropped = purge(Some(names(&[delivery_id])), None);
    let done = timers.purge(dropped).await.unwrap().into_inner();
    assert_eq!((done.purged, done.errors.len()), (1, 0));
    let done = timers.redrive(redrive(None, Some(true))).await.unwrap().into_inner();
    assert_eq!((done.redriven, done.cursor), (2, None));
    let due = |letter: &serde_json::Value| letter["next_attempt_at"].as_str().unwrap().to_owned();
    let (c, d) =
        (server.http("GET", "timers/c", "").await, server.http("GET", "timers/d", "").await);
    assert_ne!(due(&c), due(&d), "one every two seconds");
    dead_letters(&server, &["e"]).await;
    let done = timers.purge(purge(None, Some(true))).await.unwrap().into_inner();
    assert_eq!(done.purged, 1);
    for all in [None, Some(false)] {
        let refused = timers.redrive(redrive(None, all)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    }
    let refused = timers.purge(purge(None, None)).await.unwrap_err();
    assert!(refused.message().contains("delivery_ids"), "{refused:?}");
}

#[tokio::test]
async fn what_is_overdue_becomes_dead_letters() {
    let server = Server::start().await;
    let mut namespaces = server.namespaces();
    namespaces
        .put(v1::PutNamespaceRequest { namespace: NAMESPACE.into(), settings: None })
        .await
        .unwrap();
    namespaces.pause(v1::PauseRequest { namespace: NAMESPACE.into() }).await.unwrap();
    server.due(3, b"x").await;
    server.schedule(named("later")).await;
    let mut timers = server.timers();
    let ask =
        |due_by| v1::DeadLetterOverdueRequest { namespace: NAMESPACE.into(), due_by, cursor: None };
    let done = timers.dead_letter_overdue(ask(None)).await.unwrap().into_inner();
    assert_eq!((done.dead_lettered, done.cursor.as_deref()), (3, None));
    assert!(done.due_by.is_some());
    assert_eq!(server.http("GET", "timers/00001", "").await["dead_reason"], "overdue");
    assert_eq!(server.http("GET", "timers/later", "").await["state"], "scheduled");
    let future = at(4_000_000_000, 0);
    let refused = timers.dead_letter_overdue(ask(Some(future))).await.unwrap_err();
    assert!(refused.message().contains("not in the future"), "{refused:?}");
}
