//! Refusals of a schedule.

use super::{DURATION, Fault, ID, TIME};

/// Returns refused bodies of a schedule, each with its fault.
pub(super) fn schedules() -> Vec<(String, Fault)> {
    let mut rows: Vec<(String, Fault)> = Vec::new();
    let mut row = |body: &str, fault: Fault| rows.push((body.to_owned(), fault));

    // Shape.
    row(
        r#"{"id":"x","delay":"1s","what":1}"#,
        ("what", "\"what\"", "left out; known here: id, due_at, delay, payload"),
    );
    // Names of other systems, and slips.
    for (name, allowed) in [
        ("dealy", "left out; did you mean delay?"),
        ("dueAt", "left out; did you mean due_at?"),
        ("DelaySeconds", "left out; did you mean delay?"),
        ("url", "left out; did you mean destination.http.url?"),
        ("cron", "left out: recurring timers do not exist yet"),
    ] {
        let seen: &'static str = Box::leak(format!("\"{name}\"").into_boxed_str());
        row(&format!(r#"{{"id":"x","delay":"1s","{name}":1}}"#), (name, seen, allowed));
    }
    row(r#"{"id":"x","delay":"1s","delay":"1s"}"#, ("delay", "", "given only once"));
    row(r#"{"id":7,"delay":"1s"}"#, ("id", "7", "a string"));

    // Id.
    row(r#"{"id":"","delay":"1s"}"#, ("id", "\"\"", ID));
    row(r#"{"id":".","delay":"1s"}"#, ("id", "\".\"", ID));
    row(r#"{"id":"..","delay":"1s"}"#, ("id", "\"..\"", ID));
    for id in [" a", "a ", "\u{3000}a"] {
        let seen: &'static str = Box::leak(format!("\"{id}\"").into_boxed_str());
        row(&format!(r#"{{"id":"{id}","delay":"1s"}}"#), ("id", seen, "without white space at"));
    }
    row(r#"{"id":"a\nb","delay":"1s"}"#, ("id", "\"a\\nb\"", ID));
    row(r#"{"id":"a\u007fb","delay":"1s"}"#, ("id", "\"a\\u{7f}b\"", ID));

    // Times.
    row(r#"{"id":"x"}"#, ("due_at", "", "exactly one of the two"));
    row(
        r#"{"id":"x","due_at":1800000000000,"delay":"1ms"}"#,
        ("delay", "", "exactly one of the two"),
    );
    row(r#"{"id":"x","due_at":"tomorrow"}"#, ("due_at", "\"tomorrow\"", TIME));
    row(r#"{"id":"x","due_at":"2030-01-01"}"#, ("due_at", "\"2030-01-01\"", TIME));
    row(
        r#"{"id":"x","due_at":"2030-01-01T00:00:00"}"#,
        ("due_at", "\"2030-01-01T00:00:00\"", "the offset is missing: add Z or +01:00"),
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
    row(r#"{"id":"x","delay":1.0}"#, ("delay", "1.0", r#"a duration with a unit: "1s" or "1ms""#));
    row(r#"{"id":"x","delay":1.5}"#, ("delay", "1.5", r#"a duration with a unit: "1.5s""#));
    row(r#"{"id":"x","delay":false}"#, ("delay", "false", DURATION));
    for number in ["1", "\"1\""] {
        let body = format!(r#"{{"id":"x","delay":{number}}}"#);
        row(&body, ("delay", "\"1\"", r#"a duration with a unit: "1s" or "1ms""#));
    }
    for number in ["0", "5", "1795287316", "99999999999"] {
        let body = format!(r#"{{"id":"x","due_at":{number}}}"#);
        let seen: &'static str = Box::leak(format!("\"{number}\"").into_boxed_str());
        row(&body, ("due_at", seen, "integer Unix milliseconds from 253402300800 on"));
    }
    for (number, seen, hint) in [
        ("1795287316", "\"1795287316\"", "seconds? 1795287316000 is in milliseconds"),
        ("1795287316.5", "1795287316.5", "seconds? 1795287316500 is in milliseconds"),
        (
            "1795287316000000",
            "\"1795287316000000\"",
            "microseconds? 1795287316000 is in milliseconds",
        ),
        (
            "1795287316000000000",
            "\"1795287316000000000\"",
            "nanoseconds? 1795287316000 is in milliseconds",
        ),
    ] {
        row(&format!(r#"{{"id":"x","due_at":{number}}}"#), ("due_at", seen, hint));
    }
    row(
        r#"{"id":"x","delay":0,"expire_after":60}"#,
        ("expire_after", "\"60\"", r#""60s" or "60ms""#),
    );
    row(r#"{"id":"x","delay":""}"#, ("delay", "\"\"", DURATION));
    row(r#"{"id":"x","delay":"1m1h"}"#, ("delay", "\"1m1h\"", "falling"));
    row(r#"{"id":"x","delay":"1.5h1m"}"#, ("delay", "\"1.5h1m\"", DURATION));
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
    row(
        &format!(r#"{{"id":"x","delay":0,"payload":{}1{}}}"#, "[".repeat(65), "]".repeat(65)),
        ("payload", "65 levels", "at most 64 levels deep"),
    );

    // Headers.
    row(r#"{"id":"x","delay":0,"headers":[]}"#, ("headers", "", "a JSON object"));
    row(r#"{"id":"x","delay":0,"headers":{"a":1}}"#, ("headers.a", "", "a string"));
    row(r#"{"id":"x","delay":0,"headers":{"a":["x"]}}"#, ("headers.a", "", "a string"));
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
    row(r#"{"id":"x","delay":0,"headers":{"a":" x"}}"#, ("headers.a", "", "visible ASCII"));
    row(r#"{"id":"x","delay":0,"headers":{"a":"ü"}}"#, ("headers.a", "", "visible ASCII"));
    row(r#"{"id":"x","delay":0,"headers":{"a":"b\r\nc: d"}}"#, ("headers.a", "", "visible ASCII"));
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
    for name in ["Forwarded", "X-Forwarded-For", "x-forwarded-proto", "X-Real-IP"] {
        let body = format!(r#"{{"id":"x","delay":0,"headers":{{"{name}":"1"}}}}"#);
        let field: &'static str = Box::leak(format!("headers.{name}").into_boxed_str());
        let seen = format!("\"{}\"", name.to_ascii_lowercase());
        let seen: &'static str = Box::leak(seen.into_boxed_str());
        row(&body, (field, seen, "receivers would believe them"));
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
    http(r#""url":"http://u:p@a:x/""#, (url, "", "absolute http"));
    http(r#""url":["http://u:p@a/"]"#, (url, "[…]", "a string"));
    http(
        r#""url":"http://a/","headers":{"authorization":"Bearer hunter2\n"}"#,
        ("destination.http.headers.authorization", "", "visible ASCII"),
    );
    http(
        r#""url":"http://a/","headers":{"X-Api-Key":"***"}"#,
        ("destination.http.headers.x-api-key", "\"***\"", "the credential itself"),
    );
    http(r#""url":"http://a:0/""#, (url, "\"http://a:0/\"", "a port from 1 to 65535"));
    http(r#""url":"http://a/#b""#, (url, "\"http://a/#b\"", "without a fragment"));
    for host in ["10.0.0.1", "167772161", "0xa.1", "[::ffff:10.0.0.1]"] {
        let inside = format!(r#""url":"https://{host}/x?token=t""#);
        let seen = if host.starts_with('[') { "[::ffff:a00:1]" } else { "10.0.0.1" };
        let seen: &'static str = Box::leak(format!("\"https://{seen}\"").into_boxed_str());
        http(&inside, (url, seen, "delivery.allow_networks"));
    }
    http(r#""url":"http://169.254.169.254/""#, (url, "\"http://169.254.169.254\"", "metadata"));
    http(
        r#""url":"http://a/","method":"GET""#,
        ("destination.http.method", "\"GET\"", "POST, PUT or PATCH"),
    );
    http(
        r#""url":"http://a/","timeout":"11m""#,
        ("destination.http.timeout", "\"11m\"", "from 100ms to 10m"),
    );
    http(
        r#""url":"http://a/","timeout":"99ms""#,
        ("destination.http.timeout", "\"99ms\"", "from 100ms to 10m"),
    );
    http(
        r#""url":"http://a/","timeout":30"#,
        ("destination.http.timeout", "\"30\"", r#""30s" or "30ms""#),
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
    for seen in ["-1", "1.0", "\"3\"", "4294967296"] {
        let body = format!(r#"{{"max_attempts":{seen}}}"#);
        retry(&body, ("retry.max_attempts", seen, "an integer from 1 to 1000"));
    }
    retry(r#"{"min_backoff":"2h"}"#, ("retry.min_backoff", "\"2h\"", "at most max_backoff"));
    retry(r#"{"max_backoff":"31d"}"#, ("retry.max_backoff", "\"31d\"", "from 0s to 30d"));
    retry(r#"{"multiplier":0.5}"#, ("retry.multiplier", "\"0.5\"", "from 1 to 100"));
    retry(r#"{"multiplier":"2"}"#, ("retry.multiplier", "\"2\"", "a number"));
    retry(r#"{"jitter":1.1}"#, ("retry.jitter", "\"1.1\"", "from 0 to 1"));
    retry(r#"{"delays":[]}"#, ("retry.delays", "[]", "1 to 100 waits"));
    retry(r#"{"delays":["1s","x"]}"#, ("retry.delays[1]", "\"x\"", DURATION));
    retry(r#"{"delays":["1s",60]}"#, ("retry.delays[1]", "\"60\"", r#""60s" or "60ms""#));
    retry(r#"{"min_backoff":5}"#, ("retry.min_backoff", "\"5\"", r#""5s" or "5ms""#));
    retry(r#"{"delays":["31d"]}"#, ("retry.delays[0]", "\"31d\"", "from 0s to 30d"));
    retry(r#"{"delays":["1s"],"jitter":0}"#, ("retry.delays", "", "left out where"));

    // The rest.
    row(r#"{"id":"x","delay":0,"expire_after":-5}"#, ("expire_after", "\"-5\"", DURATION));
    row(r#"{"id":"x","delay":0,"expire_after":"x"}"#, ("expire_after", "\"x\"", DURATION));
    for short in ["0", "\"0\"", "\"0s\"", "\"0ms\"", "\"1ms\"", "\"999ms\""] {
        let body = format!(r#"{{"id":"x","delay":0,"expire_after":{short}}}"#);
        let seen = if short.starts_with('"') { short } else { "\"0\"" };
        row(&body, ("expire_after", seen, "from 1s on, since no firing is exact"));
    }
    row(
        r#"{"id":"x","delay":0,"repeat":{"every":"1h"}}"#,
        ("repeat", "\"repeat\"", "do not exist yet"),
    );
    row(
        r#"{"id":"x","delay":0,"if_exists":"overwrite"}"#,
        ("if_exists", "\"overwrite\"", "fail, keep, replace"),
    );
    row(
        r#"{"id":"x","delay":0,"if_exists":"Replace"}"#,
        ("if_exists", "\"Replace\"", "(did you mean replace?)"),
    );
    row(r#"{"id":"x","delay":0,"if_exists":1}"#, ("if_exists", "1", ""));
    rows
}
