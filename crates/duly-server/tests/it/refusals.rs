//! Every rule that refuses something is a row: what is sent, and status, code, field, value seen
//! and what is allowed. After each row nothing has changed; in a batch only that item is refused.

use duly_server::http::ImplicitNamespaces;
use serde_json::Value;

use crate::bench::{Answer, Bench};

/// Field, value seen (empty: none is shown) and a part of what is allowed.
type Fault = (&'static str, &'static str, &'static str);

const TIME: &str = "an RFC 3339 time";
const DURATION: &str = "a duration such as";
const ID: &str = "1 to 256 bytes of UTF-8 without control characters";

#[track_caller]
fn check_fault(what: &str, problem: &Value, (field, seen, allowed): Fault) {
    assert_eq!(problem["field"], field, "{what}: {problem}");
    let shown = problem["seen"].as_str().unwrap_or_default();
    assert_eq!(shown, seen, "{what}: {problem}");
    let can = problem["allowed"].as_str().unwrap_or_default();
    assert!(can.contains(allowed), "{what}: {problem}");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(!detail.is_empty(), "{what}: {problem}");
}

/// Bodies of a schedule.
fn schedules() -> Vec<(String, Fault)> {
    let mut rows: Vec<(String, Fault)> = Vec::new();
    let mut row = |body: &str, fault: Fault| rows.push((body.to_owned(), fault));

    // Shape.
    row(
        r#"{"id":"x","delay":"1s","what":1}"#,
        ("what", "\"what\"", "left out; known here: id, due_at, delay, payload"),
    );
    row(r#"{"id":"x","delay":"1s","delay":"1s"}"#, ("delay", "", "given only once"));
    row(r#"{"id":7,"delay":"1s"}"#, ("id", "7", "a string"));

    // Id.
    row(r#"{"id":"","delay":"1s"}"#, ("id", "\"\"", ID));
    row(r#"{"id":".","delay":"1s"}"#, ("id", "\".\"", ID));
    row(r#"{"id":"..","delay":"1s"}"#, ("id", "\"..\"", ID));
    row(r#"{"id":"a\nb","delay":"1s"}"#, ("id", "\"a\\nb\"", ID));
    row(r#"{"id":"a\u007fb","delay":"1s"}"#, ("id", "\"a\\u{7f}b\"", ID));

    // Times.
    row(r#"{"id":"x"}"#, ("due_at", "", "exactly one of the two"));
    row(r#"{"id":"x","due_at":1,"delay":1}"#, ("delay", "", "exactly one of the two"));
    row(r#"{"id":"x","due_at":"tomorrow"}"#, ("due_at", "\"tomorrow\"", TIME));
    row(r#"{"id":"x","due_at":"2030-01-01"}"#, ("due_at", "\"2030-01-01\"", TIME));
    row(
        r#"{"id":"x","due_at":"2030-01-01T00:00:00"}"#,
        ("due_at", "\"2030-01-01T00:00:00\"", TIME),
    );
    row(
        r#"{"id":"x","due_at":"2030-02-30T00:00:00Z"}"#,
        ("due_at", "\"2030-02-30T00:00:00Z\"", TIME),
    );
    row(
        r#"{"id":"x","due_at":"2200-01-01T00:00:00.001Z"}"#,
        ("due_at", "\"2200-01-01T00:00:00.001Z\"", "to 2200-01-01"),
    );
    row(r#"{"id":"x","due_at":7258118400001}"#, ("due_at", "\"7258118400001\"", "to 2200-01-01"));
    row(r#"{"id":"x","due_at":-1}"#, ("due_at", "\"-1\"", "from 1970-01-01"));
    row(r#"{"id":"x","due_at":1.5}"#, ("due_at", "1.5", TIME));
    row(r#"{"id":"x","due_at":1e12}"#, ("due_at", "1000000000000.0", TIME));
    row(r#"{"id":"x","due_at":true}"#, ("due_at", "true", TIME));
    row(r#"{"id":"x","due_at":{}}"#, ("due_at", "{}", TIME));
    row(r#"{"id":"x","delay":-1}"#, ("delay", "\"-1\"", DURATION));
    row(r#"{"id":"x","delay":1.0}"#, ("delay", "1.0", DURATION));
    row(r#"{"id":"x","delay":false}"#, ("delay", "false", DURATION));
    row(r#"{"id":"x","delay":"1"}"#, ("delay", "\"1\"", DURATION));
    row(r#"{"id":"x","delay":""}"#, ("delay", "\"\"", DURATION));
    row(r#"{"id":"x","delay":"1m1h"}"#, ("delay", "\"1m1h\"", "falling"));
    row(r#"{"id":"x","delay":"1.5h"}"#, ("delay", "\"1.5h\"", DURATION));
    row(r#"{"id":"x","delay":"1 h"}"#, ("delay", "\"1 h\"", DURATION));
    row(r#"{"id":"x","delay":"99999999999999d"}"#, ("delay", "\"99999999999999d\"", DURATION));
    row(r#"{"id":"x","delay":"73000d"}"#, ("delay", "\"73000d\"", "before 2200-01-01"));

    // Payload.
    row(
        r#"{"id":"x","delay":0,"payload":1,"payload_text":"a"}"#,
        ("payload_text", "", "one payload"),
    );
    row(
        r#"{"id":"x","delay":0,"payload":null,"payload_base64":"YQ=="}"#,
        ("payload_base64", "", "one payload"),
    );
    row(r#"{"id":"x","delay":0,"payload_text":7}"#, ("payload_text", "7", "a string"));
    row(r#"{"id":"x","delay":0,"payload_base64":"YQ"}"#, ("payload_base64", "\"YQ\"", "padding"));
    row(
        r#"{"id":"x","delay":0,"payload_base64":"_w=="}"#,
        ("payload_base64", "\"_w==\"", "standard alphabet"),
    );
    row(
        r#"{"id":"x","delay":0,"payload_base64":"YR=="}"#,
        ("payload_base64", "\"YR==\"", "base64"),
    );

    // Headers.
    row(r#"{"id":"x","delay":0,"headers":[]}"#, ("headers", "[]", "a JSON object"));
    row(r#"{"id":"x","delay":0,"headers":{"a":1}}"#, ("headers.a", "1", "a string"));
    row(r#"{"id":"x","delay":0,"headers":{"a":["x"]}}"#, ("headers.a", "[\"x\"]", "a string"));
    row(
        r#"{"id":"x","delay":0,"headers":{"a":"1","a":"2"}}"#,
        ("headers.a", "", "given only once"),
    );
    row(
        r#"{"id":"x","delay":0,"headers":{"a":"1","A":"2"}}"#,
        ("headers", "\"a\"", "differ in more than case"),
    );
    row(
        r#"{"id":"x","delay":0,"headers":{"a b":"1"}}"#,
        ("headers.a b", "\"a b\"", "an HTTP header name"),
    );
    row(r#"{"id":"x","delay":0,"headers":{"":"1"}}"#, ("headers", "\"\"", "an HTTP header name"));
    row(r#"{"id":"x","delay":0,"headers":{"a":" x"}}"#, ("headers.a", "\" x\"", "visible ASCII"));
    row(r#"{"id":"x","delay":0,"headers":{"a":"ü"}}"#, ("headers.a", "\"ü\"", "visible ASCII"));
    row(
        r#"{"id":"x","delay":0,"headers":{"a":"b\r\nc: d"}}"#,
        ("headers.a", "\"b\\r\\nc: d\"", "visible ASCII"),
    );
    for name in [
        "ce-id",
        "CE-Type",
        "webhook-signature",
        "duly-attempt",
        "host",
        "Host",
        "content-length",
        "te",
        "expect",
        "connection",
        "keep-alive",
        "proxy-authorization",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ] {
        let body = format!(r#"{{"id":"x","delay":0,"headers":{{"{name}":"1"}}}}"#);
        let field: &'static str = Box::leak(format!("headers.{name}").into_boxed_str());
        let seen = format!("\"{}\"", name.to_ascii_lowercase());
        let seen: &'static str = Box::leak(seen.into_boxed_str());
        row(&body, (field, seen, "a header of your own"));
    }
    let many: Vec<String> = (0..65).map(|i| format!("\"h{i}\":\"v\"")).collect();
    row(
        &format!(r#"{{"id":"x","delay":0,"headers":{{{}}}}}"#, many.join(",")),
        ("headers", "", "at most 64 headers"),
    );
    row(
        &format!(r#"{{"id":"x","delay":0,"headers":{{"a":"{}"}}}}"#, "v".repeat(8192)),
        ("headers", "", "at most 8192 bytes"),
    );

    // Tags and slot key.
    row(r#"{"id":"x","delay":0,"tags":"a"}"#, ("tags", "\"a\"", "a JSON array"));
    row(r#"{"id":"x","delay":0,"tags":["a",1]}"#, ("tags[1]", "1", "a string"));
    row(r#"{"id":"x","delay":0,"tags":["a",""]}"#, ("tags[1]", "\"\"", "1 to 64 bytes"));
    let many = vec!["\"t\""; 17].join(",");
    row(
        &format!(r#"{{"id":"x","delay":0,"tags":[{many}]}}"#),
        ("tags", "\"17 tags\"", "at most 16 tags"),
    );
    row(r#"{"id":"x","delay":0,"slot_key":""}"#, ("slot_key", "\"\"", "1 to 256 bytes"));
    row(r#"{"id":"x","delay":0,"slot_key":5}"#, ("slot_key", "5", "a string"));

    // Destination.
    row(
        r#"{"id":"x","delay":0,"destination":"pull"}"#,
        ("destination", "\"pull\"", "a JSON object"),
    );
    row(
        r#"{"id":"x","delay":0,"destination":{}}"#,
        ("destination", "\"none\"", "exactly one of pull, http"),
    );
    row(
        r#"{"id":"x","delay":0,"destination":{"pull":{},"http":{"url":"http://a/"}}}"#,
        ("destination", "\"pull and http\"", "exactly one of pull, http"),
    );
    row(
        r#"{"id":"x","delay":0,"destination":{"pull":{"a":1}}}"#,
        ("destination.pull.a", "\"a\"", "no field is known"),
    );
    row(r#"{"id":"x","delay":0,"destination":{"http":{}}}"#, ("destination.http.url", "", "given"));
    row(
        r#"{"id":"x","delay":0,"destination":{"smtp":{}}}"#,
        ("destination.smtp", "\"smtp\"", "known here"),
    );
    for broker in ["kafka", "nats", "amqp", "redis_stream"] {
        let body =
            format!(r#"{{"id":"x","delay":0,"destination":{{"{broker}":{{"connection":"c"}}}}}}"#);
        let field: &'static str = Box::leak(format!("destination.{broker}").into_boxed_str());
        let seen: &'static str = Box::leak(format!("\"{broker}\"").into_boxed_str());
        row(&body, (field, seen, "this build delivers to pull and http"));
    }
    let mut http = |inside: &str, fault: Fault| {
        row(&format!(r#"{{"id":"x","delay":0,"destination":{{"http":{{{inside}}}}}}}"#), fault);
    };
    let url = "destination.http.url";
    http(r#""url":"a""#, (url, "\"a\"", "absolute http"));
    http(r#""url":"ftp://a/""#, (url, "\"ftp://a/\"", "absolute http"));
    http(r#""url":"http://""#, (url, "\"http://\"", "absolute http"));
    http(r#""url":"http://u:p@a/""#, (url, "", "without user name and password"));
    http(r#""url":"http://a:0/""#, (url, "\"http://a:0/\"", "a port from 1 to 65535"));
    http(r#""url":"http://a/#b""#, (url, "\"http://a/#b\"", "without a fragment"));
    http(
        r#""url":"http://a/","method":"GET""#,
        ("destination.http.method", "\"GET\"", "POST, PUT or PATCH"),
    );
    http(
        r#""url":"http://a/","timeout":"11m""#,
        ("destination.http.timeout", "\"11m\"", "from 100ms to 10m"),
    );
    http(
        r#""url":"http://a/","timeout":99"#,
        ("destination.http.timeout", "\"99ms\"", "from 100ms to 10m"),
    );
    http(
        r#""url":"http://a/","headers":{"host":"b"}"#,
        ("destination.http.headers.host", "\"host\"", "a header of your own"),
    );
    http(
        r#""url":"http://a/","body":1"#,
        ("destination.http.body", "\"body\"", "known here: url, method, headers, timeout"),
    );

    // Retry.
    let mut retry = |inside: &str, fault: Fault| {
        row(&format!(r#"{{"id":"x","delay":0,"retry":{inside}}}"#), fault);
    };
    retry("3", ("retry", "3", "a JSON object"));
    retry(r#"{"attempts":3}"#, ("retry.attempts", "\"attempts\"", "max_attempts"));
    retry(r#"{"max_attempts":0}"#, ("retry.max_attempts", "0", "from 1 to 1000"));
    retry(r#"{"max_attempts":1001}"#, ("retry.max_attempts", "1001", "from 1 to 1000"));
    retry(r#"{"max_attempts":1.0}"#, ("retry.max_attempts", "1.0", "an integer"));
    retry(r#"{"max_attempts":"3"}"#, ("retry.max_attempts", "\"3\"", "an integer"));
    retry(r#"{"min_backoff":"2h"}"#, ("retry.min_backoff", "\"2h\"", "at most max_backoff"));
    retry(r#"{"max_backoff":"31d"}"#, ("retry.max_backoff", "\"31d\"", "from 0s to 30d"));
    retry(r#"{"multiplier":0.5}"#, ("retry.multiplier", "\"0.5\"", "from 1 to 100"));
    retry(r#"{"multiplier":"2"}"#, ("retry.multiplier", "\"2\"", "a number"));
    retry(r#"{"jitter":1.1}"#, ("retry.jitter", "\"1.1\"", "from 0 to 1"));
    retry(r#"{"schedule":[]}"#, ("retry.schedule", "\"0 entries\"", "1 to 100 waits"));
    retry(r#"{"schedule":["1s","x"]}"#, ("retry.schedule[1]", "\"x\"", DURATION));
    retry(r#"{"schedule":["31d"]}"#, ("retry.schedule[0]", "\"31d\"", "from 0s to 30d"));
    retry(r#"{"schedule":["1s"],"jitter":0}"#, ("retry.schedule", "", "left out where"));

    // The rest.
    row(r#"{"id":"x","delay":0,"expire_after":-5}"#, ("expire_after", "\"-5\"", DURATION));
    row(r#"{"id":"x","delay":0,"expire_after":"x"}"#, ("expire_after", "\"x\"", DURATION));
    row(r#"{"id":"x","delay":0,"repeat":{"every":"1h"}}"#, ("repeat", "", "not supported yet"));
    row(
        r#"{"id":"x","delay":0,"if_exists":"overwrite"}"#,
        ("if_exists", "\"overwrite\"", "fail, keep, replace"),
    );
    row(r#"{"id":"x","delay":0,"if_exists":1}"#, ("if_exists", "1", ""));
    rows
}

/// A bench with something in it.
async fn stocked() -> Bench {
    let bench = Bench::new();
    for (id, state) in
        [("dead-1", "dead"), ("done", "finished"), ("gone", "cancelled"), ("t", "scheduled")]
    {
        bench.timer_in(id, state).await;
    }
    bench
}

#[tokio::test]
async fn a_refused_schedule_changes_nothing() {
    let bench = stocked().await;
    let before = bench.picture().await;
    let long = format!(r#"{{"id":"{}","delay":0}}"#, "x".repeat(257));
    let answer = bench.schedule(&long).await;
    assert!(answer.text.contains("1 to 256 bytes"), "{}", answer.text);
    let problem = answer.problem("invalid_argument");
    let seen = problem["seen"].as_str().unwrap();
    assert!(seen.len() < 100 && seen.ends_with("…\""), "shortened: {seen}");
    for (body, fault) in schedules() {
        let answer = bench.schedule(&body).await;
        assert_eq!(answer.status, 400, "{body}");
        check_fault(&body, &answer.problem("invalid_argument"), fault);
        assert_eq!(bench.picture().await, before, "{body}");
    }
}

#[tokio::test]
async fn a_refused_schedule_in_a_batch_refuses_only_itself() {
    let bench = stocked().await;
    let before = bench.get("/v1/namespaces/a/timers").await.text;
    for (i, (body, (field, seen, allowed))) in schedules().into_iter().enumerate() {
        let batch = format!(
            r#"{{"operations":[{{"schedule":{{"id":"ok-{i}","delay":"1h"}}}},{{"schedule":{body}}},{{"cancel":{{"id":"ok-{i}"}}}}]}}"#
        );
        let answer = bench.post("/v1/namespaces/a/batch", &batch).await.expect(200);
        let results = answer["results"].as_array().unwrap();
        assert_eq!(results.len(), 3, "{body}");
        assert_eq!(results[0]["timer"]["state"], "scheduled", "{body}");
        assert_eq!(results[2]["outcome"], "cancelled", "{body}");
        let error = &results[1]["error"];
        assert_eq!(error["code"], "invalid_argument", "{body}: {error}");
        let path = format!("operations[1].schedule.{field}");
        let path: &'static str = Box::leak(path.into_boxed_str());
        check_fault(&body, error, (path, seen, allowed));
        assert_eq!(bench.get("/v1/namespaces/a/timers").await.text, before, "{body}");
    }
}

/// Method, path, body, status, code, and the fault.
type Row = (&'static str, &'static str, &'static str, u16, &'static str, Fault);

const INVALID: &str = "invalid_argument";
const T: &str = "/v1/namespaces/a/timers/t";
const LEASE: &str = "/v1/namespaces/a/lease";
const SETTLE: &str = "/v1/namespaces/a/settle";
const BATCH: &str = "/v1/namespaces/a/batch";
const REDRIVE: &str = "/v1/namespaces/a/dead/redrive";
const PURGE: &str = "/v1/namespaces/a/dead/purge";
const NS: &str = "/v1/namespaces/a";
const NONE: Fault = ("", "", "");

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Paths.
    ("GET", "/v1/namespaces/-a/timers", "", 400, INVALID, ("namespace", "\"-a\"", "starting with a letter or a digit")),
    ("POST", "/v1/namespaces/a%20b/timers", "{\"delay\":0}", 400, INVALID, ("namespace", "\"a b\"", "A-Z a-z 0-9")),
    ("GET", "/v1/namespaces/a/timers/%2E", "", 400, INVALID, ("id", "\".\"", ID)),
    ("DELETE", "/v1/namespaces/a/timers/%2E%2E", "", 400, INVALID, ("id", "\"..\"", ID)),
    ("GET", "/v1/namespaces/a/timers/a%0Ab", "", 400, INVALID, ("id", "\"a\\nb\"", ID)),
    ("GET", "/v1/namespaces/a/timers/a%FFb", "", 400, INVALID, ("path", "\"/v1/namespaces/a/timers/a%FFb\"", "percent-encoded UTF-8")),
    ("GET", "/v1/namespaces/a/timers/a%zzb", "", 400, INVALID, ("path", "\"/v1/namespaces/a/timers/a%zzb\"", "percent-encoded UTF-8")),
    ("GET", "/v1/namespaces/a/timers/a%2", "", 400, INVALID, ("path", "\"/v1/namespaces/a/timers/a%2\"", "percent-encoded UTF-8")),

    // Bodies as such.
    ("POST", "/v1/namespaces/a/timers", "{", 400, INVALID, ("body", "a syntax error: EOF while parsing an object at line 1 column 1", "well-formed JSON")),
    ("POST", "/v1/namespaces/a/timers", "[]", 400, INVALID, ("body", "[]", "a JSON object")),
    ("POST", "/v1/namespaces/a/timers", " ", 400, INVALID, ("body", "\"nothing\"", "a JSON object")),
    ("POST", "/v1/namespaces/a/timers/t/fire", "{\"now\":1}", 400, INVALID, ("body", "\"{\"now\":1}\"", "empty, or {}")),

    // PATCH.
    ("PATCH", T, "{}", 400, INVALID, ("body", "", "a field to change")),
    ("PATCH", T, "{\"if_revision\":1}", 400, INVALID, ("body", "", "a field to change")),
    ("PATCH", T, "{\"id\":\"u\",\"delay\":1}", 400, INVALID, ("id", "\"u\"", "left out")),
    ("PATCH", T, "{\"due_at\":null}", 400, INVALID, ("due_at", "\"null\"", "cannot be reset")),
    ("PATCH", T, "{\"delay\":null}", 400, INVALID, ("delay", "\"null\"", "cannot be reset")),
    ("PATCH", T, "{\"due_at\":1,\"delay\":1}", 400, INVALID, ("delay", "", "exactly one of the two")),
    ("PATCH", T, "{\"due_at\":true}", 400, INVALID, ("due_at", "true", TIME)),
    ("PATCH", T, "{\"payload\":1,\"payload_text\":\"x\"}", 400, INVALID, ("payload_text", "", "one payload")),
    ("PATCH", T, "{\"tags\":[1]}", 400, INVALID, ("tags[0]", "1", "a string")),
    ("PATCH", T, "{\"headers\":{\"host\":\"x\"}}", 400, INVALID, ("headers.host", "\"host\"", "of your own")),
    ("PATCH", T, "{\"destination\":{\"kafka\":{}}}", 400, INVALID, ("destination.kafka", "\"kafka\"", "pull and http")),
    ("PATCH", T, "{\"retry\":{\"max_attempts\":0}}", 400, INVALID, ("retry.max_attempts", "0", "from 1 to 1000")),
    ("PATCH", T, "{\"slot_key\":\"x\"}", 400, INVALID, ("slot_key", "\"slot_key\"", "known here")),
    ("PATCH", T, "{\"delay\":1,\"if_revision\":0}", 400, INVALID, ("if_revision", "0", "an integer from 1")),
    ("PATCH", T, "{\"delay\":1,\"if_revision\":\"1\"}", 400, INVALID, ("if_revision", "\"1\"", "an integer")),
    ("PATCH", T, "{\"delay\":1,\"if_revision\":7}", 409, "revision_mismatch", ("if_revision", "7", "1")),
    ("PATCH", T, "{\"delay\":\"73000d\"}", 400, INVALID, ("delay", "\"73000d\"", "before 2200-01-01")),
    ("PATCH", "/v1/namespaces/a/timers/none", "{\"delay\":1}", 404, "not_found", NONE),
    ("PATCH", "/v1/namespaces/a/timers/done", "{\"delay\":1}", 409, "finished", NONE),
    ("PATCH", "/v1/namespaces/a/timers/gone", "{\"delay\":1}", 409, "cancelled", NONE),
    ("PATCH", "/v1/namespaces/a/timers/dead-1", "{\"delay\":1}", 409, "dead", NONE),

    // GET, DELETE, fire.
    ("GET", "/v1/namespaces/a/timers/none", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/none/timers/t", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/timers/t?full=1", "", 400, INVALID, ("full", "\"full\"", "no parameter is known")),
    ("DELETE", "/v1/namespaces/a/timers/none", "", 404, "not_found", NONE),
    ("DELETE", "/v1/namespaces/none/timers/t", "", 404, "not_found", NONE),
    ("DELETE", "/v1/namespaces/a/timers/done", "", 409, "finished", NONE),
    ("DELETE", "/v1/namespaces/a/timers/dead-1", "", 409, "dead", NONE),
    ("DELETE", "/v1/namespaces/a/timers/t?if_revision=2", "", 409, "revision_mismatch", ("if_revision", "2", "1")),
    ("DELETE", "/v1/namespaces/a/timers/t?if_revision=x", "", 400, INVALID, ("if_revision", "\"x\"", "an integer")),
    ("DELETE", "/v1/namespaces/a/timers/t?if_revision=1&if_revision=1", "", 400, INVALID, ("if_revision", "", "given only once")),
    ("DELETE", "/v1/namespaces/a/timers/t?force=true", "", 400, INVALID, ("force", "\"force\"", "known here: if_revision")),
    ("POST", "/v1/namespaces/a/timers/none/fire", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/a/timers/done/fire", "", 409, "finished", NONE),
    ("POST", "/v1/namespaces/a/timers/gone/fire", "", 409, "cancelled", NONE),
    ("POST", "/v1/namespaces/a/timers/dead-1/fire", "", 409, "dead", NONE),

    // List.
    ("GET", "/v1/namespaces/a/timers?state=sleeping", "", 400, INVALID, ("state", "\"sleeping\"", "pending or one of scheduled, due")),
    ("GET", "/v1/namespaces/a/timers?limit=0", "", 400, INVALID, ("limit", "0", "from 1 to 1000")),
    ("GET", "/v1/namespaces/a/timers?limit=1001", "", 400, INVALID, ("limit", "1001", "from 1 to 1000")),
    ("GET", "/v1/namespaces/a/timers?limit=ten", "", 400, INVALID, ("limit", "\"ten\"", "an integer")),
    ("GET", "/v1/namespaces/a/timers?due_from=soon", "", 400, INVALID, ("due_from", "\"soon\"", TIME)),
    ("GET", "/v1/namespaces/a/timers?due_to=-1", "", 400, INVALID, ("due_to", "\"-1\"", TIME)),
    ("GET", "/v1/namespaces/a/timers?cursor=junk", "", 400, INVALID, ("cursor", "\"junk\"", "the cursor of the page before")),
    ("GET", "/v1/namespaces/a/timers?color=red", "", 400, INVALID, ("color", "\"color\"", "known here: state, due_from")),
    ("GET", "/v1/namespaces/a/timers?tag=%zz", "", 400, INVALID, ("query", "\"tag=%zz\"", "percent-encoded")),
    ("GET", "/v1/namespaces/a/timers?tag=%FF", "", 400, INVALID, ("tag", "\"\u{fffd}\"", "percent-encoded UTF-8")),
    ("GET", "/v1/namespaces/none/timers", "", 404, "not_found", NONE),

    // Batch.
    ("POST", BATCH, "{}", 400, INVALID, ("operations", "", "given")),
    ("POST", BATCH, "{\"operations\":{}}", 400, INVALID, ("operations", "{}", "a JSON array")),
    ("POST", BATCH, "{\"operations\":[],\"atomic\":true}", 400, INVALID, ("atomic", "\"atomic\"", "operations")),

    // Lease.
    ("POST", LEASE, "{\"max\":0}", 400, INVALID, ("max", "0", "from 1 to 10000")),
    ("POST", LEASE, "{\"max\":10001}", 400, INVALID, ("max", "10001", "from 1 to 10000")),
    ("POST", LEASE, "{\"max_bytes\":33554433}", 400, INVALID, ("max_bytes", "33554433", "from 1 to 33554432")),
    ("POST", LEASE, "{\"lease\":\"999ms\"}", 400, INVALID, ("lease", "\"999ms\"", "from 1s to 12h")),
    ("POST", LEASE, "{\"lease\":\"13h\"}", 400, INVALID, ("lease", "\"13h\"", "from 1s to 12h")),
    ("POST", LEASE, "{\"wait\":\"61s\"}", 400, INVALID, ("wait", "\"1m1s\"", "from 0s to 1m")),
    ("POST", LEASE, "{\"wait\":1.5}", 400, INVALID, ("wait", "1.5", DURATION)),
    ("POST", LEASE, "{\"lane\":\"x\"}", 400, INVALID, ("lane", "\"lane\"", "max, max_bytes, lease, wait")),
    ("POST", "/v1/namespaces/none/lease", "{}", 404, "not_found", NONE),

    // Settle.
    ("POST", SETTLE, "{}", 400, INVALID, ("settlements", "", "given")),
    ("POST", SETTLE, "{\"settlements\":1}", 400, INVALID, ("settlements", "1", "a JSON array")),

    // Dead letters.
    ("POST", REDRIVE, "{}", 400, INVALID, ("body", "", "exactly one of ids, delivery_ids, all")),
    ("POST", REDRIVE, "{\"all\":false}", 400, INVALID, ("all", "false", "true or left out")),
    ("POST", REDRIVE, "{\"all\":true,\"ids\":[]}", 400, INVALID, ("body", "", "exactly one of")),
    ("POST", REDRIVE, "{\"ids\":[1]}", 400, INVALID, ("ids[0]", "1", "a string")),
    ("POST", REDRIVE, "{\"ids\":[],\"cursor\":\"x\"}", 400, INVALID, ("cursor", "", "left out except with all")),
    ("POST", REDRIVE, "{\"all\":true,\"cursor\":\"x\"}", 400, INVALID, ("cursor", "\"x\"", "the cursor of the page before")),
    ("POST", REDRIVE, "{\"all\":true,\"per_second\":0}", 400, INVALID, ("per_second", "0", "from 0.001 to 1000000")),
    ("POST", REDRIVE, "{\"all\":true,\"delay\":\"31d\"}", 400, INVALID, ("delay", "\"31d\"", "from 0s to 30d")),
    ("POST", PURGE, "{\"all\":true,\"delay\":1}", 400, INVALID, ("delay", "\"delay\"", "known here")),
    ("POST", PURGE, "{}", 400, INVALID, ("body", "", "exactly one of ids, delivery_ids, all")),
    ("POST", "/v1/namespaces/none/dead/purge", "{\"all\":true}", 404, "not_found", NONE),

    // Namespaces.
    ("GET", "/v1/namespaces/none", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/none/stats", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces?limit=0", "", 400, INVALID, ("limit", "0", "from 1 to 1000")),
    ("GET", "/v1/namespaces?cursor=%20", "", 400, INVALID, ("cursor", "\" \"", "the cursor of the page before")),
    ("DELETE", NS, "", 409, "namespace_not_empty", NONE),
    ("DELETE", "/v1/namespaces/a?force=yes", "", 400, INVALID, ("force", "\"yes\"", "true or false")),
    ("DELETE", "/v1/namespaces/none", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/none/pause", "", 404, "not_found", NONE),
    ("POST", "/v1/namespaces/none/resume", "", 404, "not_found", NONE),
    ("PATCH", "/v1/namespaces/none", "{\"lease\":\"5s\"}", 404, "not_found", NONE),
    ("PATCH", NS, "{}", 400, INVALID, ("body", "\"{}\"", "a field to change")),
    ("PUT", NS, "{\"color\":1}", 400, INVALID, ("color", "\"color\"", "known here: destination, retry")),
    ("PUT", NS, "{\"lease\":\"0s\"}", 400, INVALID, ("lease", "\"0s\"", "from 1s to 12h")),
    ("PUT", NS, "{\"retention\":\"3651d\"}", 400, INVALID, ("retention", "\"3651d\"", "from 0s to 3650d")),
    ("PUT", NS, "{\"weight\":0}", 400, INVALID, ("weight", "0", "from 1 to 1000")),
    ("PUT", NS, "{\"weight\":1001}", 400, INVALID, ("weight", "1001", "from 1 to 1000")),
    ("PUT", NS, "{\"destination\":{\"nats\":{}}}", 400, INVALID, ("destination.nats", "\"nats\"", "pull and http")),
    ("PUT", NS, "{\"retry\":{\"jitter\":2}}", 400, INVALID, ("retry.jitter", "\"2\"", "from 0 to 1")),
    ("PUT", NS, "{\"signing_secrets\":[\"hunter2\"]}", 400, INVALID, ("signing_secrets[0]", "", "whsec_")),
    ("PUT", NS, "{\"signing_secrets\":[\"a\",\"b\",\"c\"]}", 400, INVALID, ("signing_secrets", "\"3 secrets\"", "at most 2")),
    ("PUT", NS, "{\"limits\":{\"max_in_flight\":0}}", 400, INVALID, ("limits.max_in_flight", "0", "from 1 to 100000")),
    ("PUT", NS, "{\"limits\":{\"max_payload_bytes\":16777217}}", 400, INVALID, ("limits.max_payload_bytes", "16777217", "from 0 to 16777216")),
    ("PUT", NS, "{\"limits\":{\"max_dead\":0}}", 400, INVALID, ("limits.max_dead", "0", "an integer from 1")),
    ("PUT", NS, "{\"limits\":{\"schedule_per_second\":0}}", 400, INVALID, ("limits.schedule_per_second", "0", "from 1")),
    ("PUT", NS, "{\"limits\":{\"deliver_per_second\":-1}}", 400, INVALID, ("limits.deliver_per_second", "-1", "from 1")),
    ("PUT", NS, "{\"limits\":{\"max_delay\":\"x\"}}", 400, INVALID, ("limits.max_delay", "\"x\"", DURATION)),
    ("PUT", NS, "{\"limits\":{\"max_pending\":\"many\"}}", 400, INVALID, ("limits.max_pending", "\"many\"", "an integer")),
    ("PUT", NS, "{\"limits\":{\"max_fun\":1}}", 400, INVALID, ("limits.max_fun", "\"max_fun\"", "max_in_flight")),
    ("PUT", "/v1/namespaces/a%2Fb", "{}", 400, INVALID, ("namespace", "\"a/b\"", "A-Z a-z 0-9")),

    // Paths and methods that are not there.
    ("GET", "/", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/timers/", "", 404, "not_found", NONE),
    ("GET", "/v1/namespaces/a/timers/t/u", "", 404, "not_found", NONE),
    ("PUT", T, "{}", 405, "method_not_allowed", ("method", "PUT", "GET, HEAD, PATCH, DELETE")),
    ("GET", BATCH, "", 405, "method_not_allowed", ("method", "GET", "POST")),
];

#[tokio::test]
async fn a_refused_call_changes_nothing() {
    let bench = stocked().await;
    let before = bench.picture().await;
    for (method, path, body, status, code, fault) in ROWS {
        let what = format!("{method} {path} {body}");
        let answer: Answer = bench.call(method, path, body).await;
        assert_eq!(answer.status.as_u16(), *status, "{what}: {}", answer.text);
        let problem = answer.problem(code);
        if *fault == NONE {
            assert_eq!(problem["field"], Value::Null, "{what}: {problem}");
        } else {
            check_fault(&what, &problem, *fault);
        }
        assert_eq!(bench.picture().await, before, "{what}");
    }
}

#[tokio::test]
async fn a_refused_operation_of_any_kind_refuses_only_itself() {
    let bench = stocked().await;
    let before = bench.picture().await;
    let rows: &[(&str, &str, Fault)] = &[
        ("7", INVALID, ("operations[0]", "7", "a JSON object")),
        ("{}", INVALID, ("operations[0]", "", "exactly one of schedule, cancel, reschedule, fire")),
        (
            r#"{"cancel":{"id":"t"},"fire":{"id":"t"}}"#,
            INVALID,
            ("operations[0]", "", "exactly one of"),
        ),
        (r#"{"purge":{}}"#, INVALID, ("operations[0].purge", "\"purge\"", "known here")),
        (r#"{"cancel":{}}"#, INVALID, ("operations[0].cancel.id", "", "given")),
        (r#"{"cancel":{"id":".."}}"#, INVALID, ("operations[0].cancel.id", "\"..\"", ID)),
        (
            r#"{"cancel":{"id":"t","if_revision":0}}"#,
            INVALID,
            ("operations[0].cancel.if_revision", "0", "from 1"),
        ),
        (
            r#"{"cancel":{"id":"t","if_revision":9}}"#,
            "revision_mismatch",
            ("operations[0].cancel.if_revision", "9", "1"),
        ),
        (
            r#"{"reschedule":{"id":"t","delay":1,"if_revision":9}}"#,
            "revision_mismatch",
            ("operations[0].reschedule.if_revision", "9", "1"),
        ),
        (
            r#"{"reschedule":{"id":"t","delay":"73000d"}}"#,
            INVALID,
            ("operations[0].reschedule.delay", "\"73000d\"", "before 2200-01-01"),
        ),
        (r#"{"reschedule":{"delay":1}}"#, INVALID, ("operations[0].reschedule.id", "", "given")),
        (
            r#"{"reschedule":{"id":"t"}}"#,
            INVALID,
            ("operations[0].reschedule", "", "a field to change"),
        ),
        (
            r#"{"reschedule":{"id":"t","delay":null}}"#,
            INVALID,
            ("operations[0].reschedule.delay", "\"null\"", "cannot be reset"),
        ),
        (r#"{"fire":{"id":""}}"#, INVALID, ("operations[0].fire.id", "\"\"", ID)),
        (
            r#"{"fire":{"id":"t","at":1}}"#,
            INVALID,
            ("operations[0].fire.at", "\"at\"", "known here: id"),
        ),
    ];
    for (operation, code, fault) in rows {
        let body = format!(r#"{{"operations":[{operation},{{"fire":{{"id":"none"}}}}]}}"#);
        let answer = bench.post(BATCH, &body).await.expect(200);
        let error = &answer["results"][0]["error"];
        assert_eq!(error["code"], *code, "{operation}: {answer}");
        check_fault(operation, error, *fault);
        assert_eq!(answer["results"][1]["error"]["code"], "not_found");
        assert_eq!(bench.picture().await, before, "{operation}");
    }
}

#[tokio::test]
async fn a_refused_settlement_refuses_only_itself() {
    let bench = stocked().await;
    let rows: &[(&str, Fault)] = &[
        ("7", ("settlements[1]", "7", "a JSON object")),
        (r#"{"ack":{}}"#, ("settlements[1].token", "", "given")),
        (r#"{"token":"x"}"#, ("settlements[1]", "", "exactly one of ack, retry, dead, extend")),
        (
            r#"{"token":"x","ack":{},"dead":{"reason":"y"}}"#,
            ("settlements[1]", "", "exactly one of"),
        ),
        (r#"{"token":"x","ack":{"a":1}}"#, ("settlements[1].ack.a", "\"a\"", "no field is known")),
        (r#"{"token":"x","dead":{}}"#, ("settlements[1].dead.reason", "", "given")),
        (
            r#"{"token":"x","retry":{"after":"31d"}}"#,
            ("settlements[1].retry.after", "\"31d\"", "from 0s to 30d"),
        ),
        (r#"{"token":"x","extend":{}}"#, ("settlements[1].extend.lease", "", "given")),
        (
            r#"{"token":"x","extend":{"lease":"0s"}}"#,
            ("settlements[1].extend.lease", "\"0s\"", "from 1s to 12h"),
        ),
        (r#"{"token":7,"ack":{}}"#, ("settlements[1].token", "7", "a string")),
    ];
    for (i, (settlement, fault)) in rows.iter().enumerate() {
        bench.schedule(&format!(r#"{{"id":"s{i}","delay":0}}"#)).await.expect(201);
        let token = bench.tokens().await.remove(0);
        let body = format!(
            r#"{{"settlements":[{{"token":"!","ack":{{}}}},{settlement},{{"token":"{token}","ack":{{}}}}]}}"#
        );
        let answer = bench.post(SETTLE, &body).await.expect(200);
        assert_eq!(answer["results"][0]["outcome"], "invalid_token", "{answer}");
        assert_eq!(answer["results"][1]["error"]["code"], INVALID, "{answer}");
        check_fault(settlement, &answer["results"][1]["error"], *fault);
        assert_eq!(answer["results"][2]["outcome"], "ok", "{answer}");
    }
}

#[tokio::test]
async fn limits_of_size_are_refused_with_413() {
    let bench = Bench::with(ImplicitNamespaces::Create, 600 * 1024);
    bench.timer_in("t", "scheduled").await;
    let before = bench.picture().await;

    let big = format!(r#"{{"id":"x","delay":0,"payload_text":"{}"}}"#, "x".repeat(256 * 1024 + 1));
    let problem = bench.schedule(&big).await.problem("payload_too_large");
    check_fault("payload", &problem, ("payload", "262145 bytes", "at most 262144 bytes"));
    let patch = r#"{"payload_text":""#.to_owned() + &"x".repeat(256 * 1024 + 1) + "\"}";
    let problem = bench.call("PATCH", T, &patch).await.problem("payload_too_large");
    assert_eq!(problem["status"], 413);
    let batch = format!(r#"{{"operations":[{{"schedule":{big}}}]}}"#);
    let answer = bench.post(BATCH, &batch).await.expect(200);
    let problem = &answer["results"][0]["error"];
    assert_eq!(problem["code"], "payload_too_large");
    let path = "operations[0].schedule.payload";
    check_fault("batch", problem, (path, "262145 bytes", "at most 262144 bytes"));

    let huge = " ".repeat(600 * 1024 + 1);
    for path in ["/v1/namespaces/a/timers", BATCH, SETTLE, LEASE] {
        let problem = bench.post(path, &huge).await.problem("request_too_large");
        check_fault(path, &problem, ("body", "", "at most 614400 bytes"));
    }

    let many = vec!["{}"; 10_001].join(",");
    let problem = bench.post(BATCH, &format!(r#"{{"operations":[{many}]}}"#)).await;
    check_fault(
        "batch",
        &problem.problem("request_too_large"),
        ("operations", "10001 entries", "at most 10000"),
    );
    let problem = bench.post(SETTLE, &format!(r#"{{"settlements":[{many}]}}"#)).await;
    check_fault(
        "settle",
        &problem.problem("request_too_large"),
        ("settlements", "10001 entries", "at most 10000"),
    );
    let many = vec!["\"x\""; 10_001].join(",");
    let problem = bench.post(PURGE, &format!(r#"{{"ids":[{many}]}}"#)).await;
    check_fault("purge", &problem.problem(INVALID), ("ids", "10001 entries", "at most 10000"));
    assert_eq!(bench.picture().await, before);
}

#[tokio::test]
async fn limits_of_a_namespace_are_refused_with_429() {
    let bench = Bench::new();
    let limits = r#"{"limits":{"max_pending":1,"max_delay":"1h"}}"#;
    bench.call("PUT", NS, limits).await.expect(201);
    bench.schedule(r#"{"id":"t","delay":"1h"}"#).await.expect(201);
    let before = bench.picture().await;
    let problem = bench.schedule(r#"{"id":"u","delay":"1h"}"#).await;
    problem.problem("resource_exhausted");
    let problem = bench.schedule(r#"{"id":"t","delay":"2h","if_exists":"replace"}"#).await;
    assert_eq!(problem.status, 400, "{}", problem.text);
    assert_eq!(bench.picture().await, before);
}

#[tokio::test]
async fn without_implicit_namespaces_a_schedule_says_what_to_do() {
    let bench = Bench::with(ImplicitNamespaces::Refuse, 1024 * 1024);
    let problem = bench.schedule(r#"{"id":"t","delay":0}"#).await.problem("not_found");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("PUT /v1/namespaces/a"), "{detail}");
    let body = r#"{"operations":[{"schedule":{"id":"t","delay":0}}]}"#;
    let results = bench.post(BATCH, body).await.expect(200);
    assert_eq!(results["results"][0]["error"]["code"], "not_found");
    assert_eq!(
        bench.get("/v1/namespaces").await.expect(200)["namespaces"],
        Value::Array(Vec::new())
    );
    bench.call("PUT", NS, "{}").await.expect(201);
    bench.schedule(r#"{"id":"t","delay":0}"#).await.expect(201);
}
