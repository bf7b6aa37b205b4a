//! Searches by tag or id prefix: they report their progress, and can be stopped and continued. The
//! outcome of a read without a response is never in doubt.

use std::{sync::Arc, time::Duration};

use duly_core::shard::ShardId;
use duly_server::http::ImplicitNamespaces;
use duly_store::{ListRequest, Page, Store, StoreFuture, conformance::StandIn, query::Position};
use http::Request;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::bench::{Answer, Bench};

const LIST: &str = "/v1/namespaces/a/timers";
const CANCEL: &str = "/v1/namespaces/a/cancel";
/// Timers that one page reads.
const LOOKS: usize = 3;
const TIMERS: usize = 20;

/// A store with a large namespace: a page reads few timers, slowly.
#[derive(Debug)]
struct LargeStore(Arc<dyn Store>, Duration);

impl StandIn for LargeStore {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        Box::pin(async move {
            sleep(self.1).await;
            let ListRequest { tag, id_prefix, .. } = request.clone();
            let looked_at = ListRequest { tag: None, id_prefix: None, limit: LOOKS, ..request };
            let mut page = self.0.list(shard, looked_at).await?;
            page.examined = page.timers.len() as u64;
            let last = page.timers.last().map(Position::of);
            page.timers.retain(|view| {
                let tags = view.timer().map(|timer| timer.spec.tags.as_slice()).unwrap_or_default();
                tag.as_ref().is_none_or(|tag| tags.contains(tag))
                    && id_prefix.as_ref().is_none_or(|it| view.id().as_str().starts_with(it))
            });
            page.next = page.next.and(last);
            Ok(page)
        })
    }
}

/// Returns a server on such a store; every seventh timer is red.
async fn bench(page_takes: Duration) -> Bench {
    let bench = Bench::on(ImplicitNamespaces::Create, 64 * 1024, |store| {
        Arc::new(LargeStore(store, page_takes))
    });
    for i in 0..TIMERS {
        let tags = if i % 7 == 6 { r#"["red"]"# } else { "[]" };
        let body = format!(r#"{{"id":"t{i:02}","delay":"{}h","tags":{tags}}}"#, i + 1);
        bench.schedule(&body).await.expect(201);
    }
    bench
}

fn ids(timers: &[Value]) -> Vec<&str> {
    timers.iter().map(|timer| timer["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_list_with_a_filter_says_how_far_it_is_and_goes_on() {
    let bench = bench(Duration::ZERO).await;
    for filter in ["tag=red", "id_prefix=t1"] {
        let (mut examined, mut up_to, mut cursor) = (0, String::new(), String::new());
        let mut found = Vec::new();
        loop {
            let page = bench.get(&format!("{LIST}?{filter}{cursor}")).await.expect(200);
            examined += page["examined"].as_u64().expect("how many were looked at");
            found.extend(page["timers"].as_array().unwrap().clone());
            let Some(next) = page["cursor"].as_str() else {
                assert_eq!(page.get("up_to"), None, "it is at its end: {page}");
                break;
            };
            cursor = format!("&cursor={next}");
            let reached = page["up_to"].as_str().expect("up to when").to_owned();
            assert!(reached > up_to, "{reached} is behind {up_to}");
            up_to = reached;
        }
        assert_eq!(examined, TIMERS as u64, "{filter}");
        let expected = if filter == "tag=red" { vec!["t06", "t13"] } else { ids(&found) };
        assert_eq!(ids(&found), expected);
        assert_eq!(found.len(), if filter == "tag=red" { 2 } else { 10 });
    }
    let plain = bench.get(LIST).await.expect(200);
    assert_eq!((plain.get("examined"), plain.get("up_to")), (None, None), "it is no search");
}

#[tokio::test]
async fn a_stream_of_a_search_can_be_stopped_at_any_line() {
    let bench = bench(Duration::ZERO).await;
    let lines = async |query: &str| -> Vec<Value> {
        let request = Request::builder().uri(format!("{LIST}?{query}")).header("host", "localhost");
        let request = request.header("accept", "application/x-ndjson");
        let answer: Answer = bench.send(request.body(axum::body::Body::empty()).unwrap()).await;
        answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = lines("tag=red").await;
    let is_timer = |line: &&Value| line.get("id").is_some();
    let places: Vec<usize> = (0..all.len()).filter(|i| all[*i].get("progress").is_some()).collect();
    assert_eq!(places.len(), TIMERS.div_ceil(LOOKS) - 1, "one behind each page but the last");
    for place in places {
        let progress = &all[place]["progress"];
        assert!(progress["up_to"].is_string() && progress["examined"].as_u64() > Some(0));
        let cursor = progress["cursor"].as_str().unwrap();
        let rest = lines(&format!("tag=red&cursor={cursor}")).await;
        let found: Vec<_> =
            all[..place].iter().filter(is_timer).chain(rest.iter().filter(is_timer)).collect();
        assert_eq!(found.iter().map(|it| &it["id"]).collect::<Vec<_>>(), ["t06", "t13"]);
    }
    assert!(lines("").await.iter().all(|line| line.get("progress").is_none()), "it is no search");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_by_filter_ends_in_time_with_the_place_to_go_on_from() {
    for dry_run in [true, false] {
        // A call may take 30 s.
        let bench = bench(Duration::from_secs(6)).await;
        let mut body = json!({"filter": {"tag": "red"}, "dry_run": dry_run});
        let (mut calls, mut cancelled, mut examined) = (0, 0, 0);
        loop {
            let done = bench.post(CANCEL, &body.to_string()).await.expect(200);
            calls += 1;
            cancelled += done["cancelled"].as_u64().unwrap();
            examined += done["examined"].as_u64().unwrap();
            let Some(cursor) = done.get("cursor") else { break };
            assert!(done["up_to"].is_string(), "{done}");
            body["cursor"] = cursor.clone();
        }
        assert!(calls > 1, "one call cannot do it in time");
        assert_eq!((cancelled, examined), (2, TIMERS as u64));
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_gets_no_answer_is_never_in_doubt() {
    let bench = bench(Duration::from_secs(3_600)).await;
    let in_doubt = "it is not known whether the change was made";
    for (method, path, body, is_read) in [
        ("GET", format!("{LIST}?tag=red"), "", true),
        ("POST", CANCEL.to_owned(), r#"{"filter":{"tag":"red"},"dry_run":true}"#, true),
        ("POST", CANCEL.to_owned(), r#"{"filter":{"tag":"red"}}"#, false),
    ] {
        let problem = bench.call(method, &path, body).await.problem("deadline_exceeded");
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(detail.contains(in_doubt), !is_read, "{method} {path} {body}: {detail}");
        assert_eq!(detail.contains("changes nothing"), is_read, "{detail}");
    }
}
