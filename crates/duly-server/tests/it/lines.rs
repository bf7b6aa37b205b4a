//! Streams of lines: one result a line, invalid lines beside valid ones, and backpressure.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures::{StreamExt, channel::mpsc, stream};
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bench::{Answer, Bench};

const BATCH: &str = "/v1/namespaces/a/batch";

fn request(path: &str, body: Body) -> Request<Body> {
    Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/x-ndjson")
        .body(body)
        .unwrap()
}

async fn send(bench: &Bench, path: &str, text: &str) -> Answer {
    bench.send(request(path, Body::from(text.to_owned()))).await
}

fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    answer.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_bad_line_says_its_number_and_changes_nothing_else() {
    let bench = Bench::new();
    bench.timer_in("old", "scheduled").await;
    let text = concat!(
        r#"{"schedule":{"id":"one","delay":"1h","payload":{"a": 1}}}"#,
        "\n",
        r#"{"schedule":{"id":"bad","delay":"soon"}}"#,
        "\r\n\n",
        "{\"schedule\":{\n",
        "7\n",
        "\u{1}\n",
        r#"{"cancel":{"id":"old","if_revision":9}}"#,
        "\n",
        r#"{"cancel":{"id":"none"}}"#,
        "\n",
        r#"{"reschedule":{"id":"old","delay":"2h"}}"#,
        "\n",
        r#"{"fire":{"id":"one"}}"#,
        "\n",
        r#"{"cancel":{"id":"old"}}"#,
    );
    let answer = send(&bench, BATCH, text).await;
    let results = lines(&answer);
    let numbers: Vec<_> = results.iter().map(|result| result["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 4, 5, 6, 7, 8, 9, 10, 11], "the empty line has no answer");
    assert_eq!(results[0]["timer"]["id"], "one");
    for (i, code, field) in [
        (1, "invalid_argument", "schedule.delay"),
        (2, "invalid_argument", "line"),
        (3, "invalid_argument", "line"),
        (4, "invalid_argument", "line"),
        (5, "revision_mismatch", "cancel.if_revision"),
        (6, "not_found", ""),
    ] {
        let error = &results[i]["error"];
        assert_eq!(error["code"], code, "{error}");
        assert_eq!(error["field"].as_str().unwrap_or_default(), field, "{error}");
    }
    assert_eq!(results[7]["timer"]["revision"], 2);
    assert_eq!(results[8]["timer"]["state"], "due");
    assert_eq!(results[9]["outcome"], "cancelled");
    let timer = bench.get("/v1/namespaces/a/timers/one").await.expect(200);
    assert_eq!(timer["payload"], json!({"a": 1}));
    bench.get("/v1/namespaces/a/timers/bad").await.expect(404);
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!(stats["pending"], 1);
}

#[tokio::test]
async fn errors_alone_and_a_summary_when_asked_for() {
    let bench = Bench::new();
    let mut text = String::new();
    for i in 0..2_500 {
        text.push_str(&format!("{{\"schedule\":{{\"id\":\"{i}\",\"delay\":\"1h\"}}}}\n"));
    }
    text.push_str("{}\n");
    let answer = send(&bench, &format!("{BATCH}?results=errors"), &text).await;
    let results = lines(&answer);
    assert_eq!(results.len(), 2, "{}", answer.text);
    assert_eq!(results[0]["line"], 2_501);
    assert_eq!(results[1], json!({"summary": {"lines": 2_501, "accepted": 2_500, "refused": 1}}));
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    assert_eq!(stats["pending"], 2_500);
    let again = send(&bench, &format!("{BATCH}?results=all"), &text).await;
    let results = lines(&again);
    assert_eq!(results.len(), 2_501);
    assert!(results[..2_500].iter().all(|result| result["timer"]["existing"] == true));
    let empty = send(&bench, &format!("{BATCH}?results=errors"), "").await;
    assert_eq!(lines(&empty), [json!({"summary": {"lines": 0, "accepted": 0, "refused": 0}})]);
}

#[tokio::test]
async fn invalid_stream_parameters_are_refused_at_the_start() {
    let bench = Bench::new();
    let refused = send(&bench, &format!("{BATCH}?results=some"), "{}").await;
    assert_eq!(refused.problem("invalid_argument")["allowed"], "all or errors");
    let refused = send(&bench, "/v1/namespaces/a/timers", "{}").await;
    assert_eq!(refused.problem("unsupported_media_type")["allowed"], "application/json");
    let document = bench.post(&format!("{BATCH}?results=all"), r#"{"operations":[]}"#).await;
    assert_eq!(document.problem("invalid_argument")["field"], "results");
    assert!(!bench.get("/v1/namespaces").await.text.contains("\"a\""));
}

#[tokio::test]
async fn a_line_that_is_too_long_is_refused_alone() {
    let bench = Bench::with(duly_server::http::ImplicitNamespaces::Create, 1024);
    let long = "x".repeat(5_000);
    let text = format!(
        "{{\"schedule\":{{\"id\":\"a\",\"delay\":\"1ms\"}}}}\n{{\"schedule\":{{\"payload\":\"{long}\"}}}}\n{{\"cancel\":{{\"id\":\"a\"}}}}\n"
    );
    let parts: Vec<_> = text.as_bytes().chunks(700).map(Bytes::copy_from_slice).collect();
    let body = Body::from_stream(stream::iter(parts).map(Ok::<_, Infallible>));
    let answer = bench.send(request(BATCH, body)).await;
    let results = lines(&answer);
    assert_eq!(results.len(), 3, "{}", answer.text);
    assert_eq!(results[1]["error"]["code"], "request_too_large");
    assert_eq!(results[1]["error"]["allowed"], "at most 1024 bytes");
    assert_eq!(results[2]["outcome"], "cancelled");
}

#[tokio::test]
async fn a_result_comes_while_the_request_is_still_open() {
    let bench = Bench::new();
    let (sender, parts) = mpsc::unbounded::<Result<Bytes, Infallible>>();
    let line =
        |id| Ok(Bytes::from(format!("{{\"schedule\":{{\"id\":\"{id}\",\"delay\":\"1ms\"}}}}\n")));
    sender.unbounded_send(line("first")).unwrap();
    let answer =
        bench.router.clone().oneshot(request(BATCH, Body::from_stream(parts))).await.unwrap();
    let mut body = answer.into_body();
    for (i, id) in ["first", "second", "third"].into_iter().enumerate() {
        if i > 0 {
            sender.unbounded_send(line(id)).unwrap();
        }
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let result: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((&result["line"], &result["timer"]["id"]), (&json!(i + 1), &json!(id)));
    }
    drop(sender);
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn p10_streams_apply_backpressure() {
    let bench = Bench::new();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let line = format!("{{\"cancel\":{{\"id\":\"{}\"}}}}\n", "x".repeat(200)).repeat(100);
    let parts = stream::repeat_with(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(Bytes::from(line.clone()))
    });
    let answer =
        bench.router.clone().oneshot(request(BATCH, Body::from_stream(parts))).await.unwrap();
    let mut body = answer.into_body();
    let read = asked.load(Ordering::Relaxed);
    // An endless request: about half a MiB is read before a response is read.
    assert!(read < 50, "{read} parts");
    for _ in 0..20 {
        body.frame().await.unwrap().unwrap();
        let step = asked.load(Ordering::Relaxed) - read;
        assert!(step < 20 * 50, "{step} parts");
    }
}

#[tokio::test]
async fn broken_streams_report_their_progress() {
    let bench = Bench::new();
    let parts = [
        Ok(Bytes::from("{\"schedule\":{\"id\":\"a\",\"delay\":\"1ms\"}}\n{\"sched")),
        Err(std::io::Error::other("the line is dead")),
    ];
    let body = Body::from_stream(stream::iter(parts));
    let answer = bench.send(request(BATCH, body)).await;
    let results = lines(&answer);
    let last = &results.last().unwrap()["stopped"];
    // Lines that were complete before the break are handled, or come after the reported number.
    let told = last["after_line"].as_u64().unwrap();
    assert_eq!(last["error"]["code"], "invalid_argument", "{}", answer.text);
    assert_eq!(results.len() as u64, told + 1, "{}", answer.text);
    let timer = bench.get("/v1/namespaces/a/timers/a").await;
    assert_eq!(timer.status.is_success(), told == 1);
}

#[tokio::test]
async fn a_list_as_lines_has_every_timer_once_and_an_end() {
    let bench = Bench::new();
    for i in 0..25 {
        bench
            .schedule(&format!(r#"{{"id":"{i:02}","delay":"1h","payload":{i}}}"#))
            .await
            .expect(201);
    }
    let get = |path: &str, accept: &'static str| {
        let request = Request::get(path).header("host", "localhost").header("accept", accept);
        bench.send(request.body(Body::empty()).unwrap())
    };
    let path = "/v1/namespaces/a/timers?limit=10&id_prefix=";
    let rows = lines(&get(path, "application/x-ndjson").await);
    let ids: Vec<_> = rows[..25].iter().map(|row| row["id"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..25).map(|i| format!("{i:02}")).collect();
    assert_eq!(ids, expected);
    assert_eq!(rows[7]["payload"], 7);
    assert_eq!(rows[25..], [json!({"summary": {"timers": 25}})]);
    let page = get(path, "*/*").await.expect(200);
    let cursor = page["cursor"].as_str().unwrap();
    let rest = get(&format!("{path}&cursor={cursor}"), "text/plain, application/x-ndjson;q=1");
    assert_eq!(lines(&rest.await).len(), 16);
    let none = get("/v1/namespaces/nowhere/timers", "application/x-ndjson").await;
    none.problem("not_found");
}

#[tokio::test]
async fn p11_multi_line_payloads_are_one_line_and_stay_intact() {
    let bench = Bench::new();
    let payload = "{\r\n  \"a\": [1,\n 2],\r\"b\": \"x\\ny\"\n}";
    bench.schedule(&format!(r#"{{"id":"t","delay":0,"payload":{payload}}}"#)).await.expect(201);
    let list = Request::get("/v1/namespaces/a/timers")
        .header("host", "localhost")
        .header("accept", "application/x-ndjson");
    let rows = lines(&bench.send(list.body(Body::empty()).unwrap()).await);
    assert_eq!(rows[0]["payload"], json!({"a": [1, 2], "b": "x\ny"}));
    assert_eq!(rows[1..], [json!({"summary": {"timers": 1}})]);
    let leased = bench.post("/v1/namespaces/a/lease", "{}").await;
    assert!(leased.text.contains(payload), "{}", leased.text);
    // An export keeps the bytes, and is one line as well.
    let text = bench.get("/v1/namespaces/a/export").await;
    assert!(!text.text.trim_end().contains(['\n', '\r']), "{}", text.text);
    assert_eq!(text.expect(200)["timers"][0]["payload_json"], payload);
}

#[tokio::test(start_paused = true)]
async fn p10_slow_lines_have_the_time_limit_of_a_request() {
    let bench = Bench::new();
    let whole = "{\"schedule\":{\"id\":\"a\",\"delay\":\"1ms\"}}\n";
    // Blank lines hold nothing and may come at any time; then a line never ends.
    let parts = [whole, "\n", "\n", "\n", whole, "{"].map(str::to_owned);
    let drips = parts.into_iter().chain(std::iter::repeat_n("x".to_owned(), 20));
    let slow = stream::iter(drips).then(|part| async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok::<_, Infallible>(part)
    });
    let answer = bench.send(request(BATCH, Body::from_stream(slow))).await;
    let results = lines(&answer);
    let last = &results.last().unwrap()["stopped"];
    assert_eq!((results.len(), &last["after_line"]), (3, &json!(5)), "{}", answer.text);
    assert_eq!(last["error"]["code"], "deadline_exceeded", "{}", answer.text);
}

#[tokio::test]
async fn a_stop_ends_a_stream_whose_sender_is_always_ready() {
    let bench = Bench::new();
    let line = "{\"cancel\":{\"id\":\"none\"}}\n".repeat(1_000);
    let parts = stream::repeat(line).take(500).map(Ok::<_, Infallible>);
    let answer =
        bench.router.clone().oneshot(request(BATCH, Body::from_stream(parts))).await.unwrap();
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    bench.app.stop();
    let rest = body.collect().await.unwrap().to_bytes();
    let last = std::str::from_utf8(&rest).unwrap().lines().last().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(last["stopped"]["error"]["code"], "unavailable", "{last}");
    assert!(last["stopped"]["after_line"].as_u64().unwrap() < 100_000, "{last}");
}
