//! The client repeats exactly the calls that the table of operations allows, as `x-duly-repeat` of the OpenAPI document
//! publishes it.

use std::{
    collections::BTreeSet, fs, future::Future, path::Path, pin::Pin, sync::Arc, time::Duration,
};

use duly_client::{
    CancelManyRequest, Client, LeaseRequest, ListRequest, NamespaceSettings, Operation,
    PurgeRequest, RedriveRequest, Reschedule, Retries, Schedule, Settlement,
};
use futures::stream;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;
use tonic::{Status, service::Routes, transport::Server};

use crate::server::{HOUR, NAMESPACE};

/// Paths of the calls that a server got.
type Seen = Arc<Mutex<Vec<String>>>;

/// Starts a server that gives no response of Duly to any call.
async fn serve(seen: &Seen) -> Client {
    let seen = Arc::clone(seen);
    let lost = move |uri: http::Uri| {
        seen.lock().push(uri.path().to_owned());
        std::future::ready(Status::unavailable("lost").into_http::<tonic::body::Body>())
    };
    let routes: Routes = Routes::default().into_axum_router().fallback(lost).into();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let incoming = stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let serving = Server::builder().add_routes(routes).serve_with_incoming(incoming);
    tokio::spawn(async move { serving.await.unwrap() });
    let wait = Duration::from_millis(1);
    let retries = Retries { tries_max: 2, first_wait: wait, longest_wait: wait };
    Client::builder(url).retries(retries).build().unwrap()
}

/// A call: the operation, if it meets the condition of its repetition, and the call itself.
type Call<'c> = (&'static str, bool, Pin<Box<dyn Future<Output = bool> + 'c>>);

/// Returns every call of the client.
fn calls<'c>(batched: &'c Client, single: &'c Client) -> Vec<Call<'c>> {
    macro_rules! call {
        ($name:literal, $meets:literal, $call:expr) => {{
            let call: Call<'_> = ($name, $meets, Box::pin(async move { $call.await.is_ok() }));
            call
        }};
    }
    let (ns, id) = (NAMESPACE, "t");
    let schedule = || Schedule::after(HOUR).with_id("t");
    let change = || Reschedule::after(HOUR);
    let settings = NamespaceSettings::default;
    let mut calls = vec![
        call!("get_timer", true, single.get(ns, id)),
        call!("list_timers", true, single.list_page(ns, ListRequest::default())),
        call!("list_timers", true, single.list(ns, ListRequest::default()).all()),
        call!("cluster", true, single.cluster()),
        call!("whoami", true, single.whoami()),
        call!("get_namespace", true, single.namespace(ns)),
        call!("list_namespaces", true, single.namespaces().all()),
        call!("namespace_stats", true, single.stats(ns)),
        call!("namespace_forecast", true, single.forecast(ns, HOUR, 1)),
        call!("put_namespace", true, single.put_namespace(ns, settings())),
        call!("patch_namespace", true, single.patch_namespace(ns, settings(), &[])),
        call!("delete_namespace", true, single.delete_namespace(ns)),
        call!("delete_namespace", true, single.delete_namespace_and_timers(ns)),
        call!("pause_namespace", true, single.pause(ns)),
        call!("resume_namespace", true, single.resume(ns)),
        call!(
            "resume_namespace",
            true,
            single.resume_at(ns, std::time::UNIX_EPOCH + 100 * 365 * 24 * HOUR)
        ),
        call!("lease", true, single.lease(ns, LeaseRequest::up_to(1))),
        call!("settle", true, single.settle(ns, vec![Settlement::ack("AAAA")])),
        call!("redrive", true, single.redrive(ns, RedriveRequest::ids(["t"]))),
        call!("purge", true, single.purge(ns, PurgeRequest::ids(["t"]))),
        call!("forget_timer", true, single.forget(ns, id)),
        call!("dead_letter_overdue", true, single.dead_letter_overdue(ns, None)),
        call!("cancel_by_filter", false, single.cancel_many(ns, CancelManyRequest::everything())),
        call!(
            "cancel_by_filter",
            true,
            single.cancel_many(ns, CancelManyRequest::everything().with_dry_run())
        ),
        call!("batch", true, single.batch(ns, vec![schedule().into(), Operation::cancel("u")])),
        call!("batch", false, single.batch(ns, vec![schedule().into(), Operation::cancel("t")])),
        call!("batch", false, single.batch(ns, vec![Operation::fire("t")])),
    ];
    for client in [batched, single] {
        calls.extend([
            call!("schedule_timer", true, client.schedule(ns, schedule())),
            call!("schedule_timer", true, client.schedule(ns, Schedule::after(HOUR))),
            call!("schedule_timer", true, client.debounce(ns, schedule())),
            call!("cancel_timer", true, client.cancel(ns, id)),
            call!("cancel_timer", true, client.cancel_if(ns, id, 1)),
            call!("cancel_timer", true, client.cancel_or_stop(ns, id)),
            call!("reschedule_timer", false, client.reschedule(ns, id, change())),
            call!(
                "reschedule_timer",
                true,
                client.reschedule(ns, id, change().with_if_revision(1))
            ),
            call!("fire_timer", true, client.fire(ns, id)),
        ]);
    }
    calls
}

/// Returns the paths of gRPC that the sources of the client call.
fn called() -> BTreeSet<String> {
    let pascal = |name: &str| -> String {
        let words = name.split('_').filter_map(|word| word.split_at_checked(1));
        words.map(|(first, rest)| first.to_uppercase() + rest).collect()
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/client");
    let texts =
        fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let text: String = texts.collect();
    let calls = ["call!(", "read!("].into_iter().flat_map(|name| text.split(name).skip(1));
    let methods = calls.filter_map(|call| call.split(',').nth(1)?.trim().split_once('.'));
    methods
        .map(|(service, method)| format!("/duly.v1.{}/{}", pascal(service), pascal(method)))
        .collect()
}

#[tokio::test]
async fn each_call_is_repeated_as_the_table_says() {
    let document: Value =
        serde_json::from_str(include_str!("../../../../docs/reference/openapi.json")).unwrap();
    let operations: Vec<_> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|it| it.as_object().unwrap().values())
        .collect();
    let (seen, mut all) = (Seen::default(), BTreeSet::new());
    let batched = serve(&seen).await;
    let single = batched.unbatched();
    let mut conditions = BTreeSet::new();
    for (name, meets, call) in calls(&batched, &single) {
        let operation = operations.iter().find(|it| it["operationId"] == name).expect(name);
        let repeat = operation["x-duly-repeat"].as_str().unwrap();
        let is_repeatable = match repeat {
            "yes" => true,
            "no" => false,
            _ => meets,
        };
        conditions.insert((repeat, meets));
        assert!(!call.await, "{name} has a response");
        let paths = std::mem::take(&mut *seen.lock());
        assert_eq!(paths.len(), 1 + usize::from(is_repeatable), "{name}: {repeat} ({meets})");
        all.extend(paths);
    }
    assert_eq!(all, called(), "each call of the client is made");
    for condition in ["if_revision", "if_items", "if_dry_run"] {
        assert!([false, true].iter().all(|meets| conditions.contains(&(condition, *meets))));
    }
}
