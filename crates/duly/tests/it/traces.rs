//! Traces: the spans that a collector receives from a server, and a server whose collector is down.

use std::{
    collections::HashMap,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use duly_redis_testkit::server::free_port;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{self, DEADLINE, Process, duly, http, receiver, text};

/// The variable with the path of rotel, an OpenTelemetry collector.
const COLLECTOR: &str = "DULY_TEST_COLLECTOR";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A running collector that prints the spans it receives.
struct Collector {
    process: Process,
    url: String,
    directory: TempDir,
}

/// A span, as the collector has printed it.
#[derive(Debug, Default)]
struct Span {
    /// Its fields and attributes by name.
    fields: HashMap<String, String>,
    /// Trace id and span id of each link.
    links: Vec<(String, String)>,
}

impl Span {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    /// Returns its trace id and span id.
    fn ids(&self) -> (String, String) {
        (self.field("Trace ID").to_owned(), self.field("ID").to_owned())
    }

    fn trace_parent(&self) -> String {
        let (trace, span) = self.ids();
        format!("00-{trace}-{span}-01")
    }
}

impl Collector {
    /// Starts a collector, if there is one on this machine.
    fn start() -> Option<Self> {
        let Ok(program) = std::env::var(COLLECTOR) else {
            eprintln!("NOT RUN: {COLLECTOR} names no collector");
            return None;
        };
        let directory = TempDir::new().expect("a temporary directory");
        let [http, grpc] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let file = |name: &str| directory.path().join(name);
        let mut command = harness::program(program);
        command.args(["start", "--exporter", "blackhole"]);
        command.args(["--debug-log", "traces", "--debug-log-verbosity", "detailed"]);
        command.args(["--otlp-http-endpoint", &http]);
        command.args(["--otlp-grpc-endpoint", &grpc]);
        command.args(["--pid-file", text(&file("pid")), "--log-file", text(&file("log"))]);
        let mut process = Process::of(command);
        assert!(process.line().contains("Starting Rotel"));
        Some(Self { process, url: format!("http://{http}"), directory })
    }

    /// Stops the collector, and returns the spans that it has received.
    fn stop(mut self) -> Vec<Span> {
        self.process.signal(Signal::TERM);
        let mut spans: Vec<Span> = Vec::new();
        loop {
            let line = self.process.line();
            if line.contains("Shutdown signal received") {
                break;
            }
            if line.starts_with("Span #") {
                spans.push(Span::default());
                continue;
            }
            let (Some(span), Some((name, value))) = (spans.last_mut(), line.split_once(':')) else {
                continue;
            };
            let value = value.trim().trim_start_matches("Str(").trim_start_matches("Int(");
            let value = value.trim_end_matches(')').to_owned();
            match name.trim().trim_start_matches("-> ") {
                "Trace ID" if name.contains("->") => span.links.push((value, String::new())),
                "ID" if name.contains("->") => {
                    span.links.last_mut().expect("a link has a trace").1 = value;
                }
                name => drop(span.fields.insert(name.to_owned(), value)),
            }
        }
        self.directory.close().expect("removed");
        spans
    }
}

/// Starts a server that sends its spans to this address.
fn server(data: &Path, collector: &str) -> Process {
    let mut command = duly();
    command.env("DULY_TRACING__OTLP_ENDPOINT", collector);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", text(data)]);
    Process::of(command)
}

#[test]
fn a_collector_receives_linked_spans_of_a_timer() {
    let Some(collector) = Collector::start() else { return };
    let data = TempDir::new().expect("a temporary directory");
    let mut server = server(data.path(), &collector.url);
    let (url, _) = server.address();
    let caller = format!("00-{TRACE}-{CALLER}-01");
    let call = |path: &str, body: Value| -> Value {
        let path = format!("/v1/namespaces/shop{path}");
        let method = if path.ends_with("shop") { "PUT" } else { "POST" };
        let text = http(&url, method, &path, &[("traceparent", &caller)], &body.to_string());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    let (hook, heads) = receiver();
    call("", json!({}));
    let destination = json!({"http": {"url": hook}});
    call("/timers", json!({"id": "push", "delay": "0s", "destination": destination}));
    let head = heads.recv().expect("a delivery");
    call("/timers", json!({"id": "pull", "delay": "0s"}));
    let leased = call("/lease", json!({"wait": "20s"}));
    let firing = &leased["firings"][0];
    call("/settle", json!({"settlements": [{"token": firing["token"], "ack": {}}]}));
    server.signal(Signal::TERM);
    assert_eq!(server.ended().0.code(), Some(0));

    let spans = collector.stop();
    let find = |name: &str, key: &str, value: &str| {
        let mut found = spans.iter().filter(|it| it.field("Name") == name);
        let span = found.find(|it| it.fields.get(key).is_some_and(|it| it == value));
        span.unwrap_or_else(|| panic!("{name} with {key} {value}: {spans:#?}"))
    };
    assert_eq!(spans.len(), 6, "{spans:#?}");
    for (id, kind) in [("push", "SPAN_KIND_CLIENT"), ("pull", "SPAN_KIND_PRODUCER")] {
        let schedule = find("schedule", "duly.timer.id", id);
        assert_eq!((schedule.field("Trace ID"), schedule.field("Parent ID")), (TRACE, CALLER));
        assert_eq!(schedule.field("duly.outcome"), "created");
        let deliver = find("deliver", "duly.timer.id", id);
        assert_eq!((deliver.field("Parent ID"), deliver.field("Kind")), ("", kind));
        assert_eq!(deliver.links, [schedule.ids()]);
        assert_eq!(deliver.field("messaging.destination.name"), "shop");
        assert_eq!(deliver.field("duly.attempt"), "1");
        let settle = find("settle", "Trace ID", deliver.field("Trace ID"));
        assert_eq!(settle.field("Parent ID"), deliver.field("ID"));
        assert_eq!(settle.field("duly.outcome"), "ok");
        if id == "pull" {
            assert_eq!(firing["trace_parent"], deliver.trace_parent());
        } else {
            assert!(head.contains(&format!("\r\ntraceparent: {}\r\n", deliver.trace_parent())));
            assert!(head.contains(&format!("\r\nce-traceparent: {}\r\n", schedule.trace_parent())));
        }
    }
}

#[test]
fn a_collector_that_is_down_delays_nothing() {
    // One that accepts connections and never responds is worse than one that refuses them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("bound"));
    let data = TempDir::new().expect("a temporary directory");
    let mut process = server(data.path(), &url);
    let (url, _) = process.address();
    let caller = format!("00-{TRACE}-{CALLER}-01");
    let (started, mut slowest) = (Instant::now(), Duration::ZERO);
    let mut call = |path: &str, body: &str| {
        let (path, began) = (format!("/v1/namespaces/n/{path}"), Instant::now());
        let text = http(&url, "POST", &path, &[("traceparent", &caller)], body);
        slowest = slowest.max(began.elapsed());
        text
    };
    for _ in 0..100 {
        call("timers", r#"{"delay": "0s"}"#);
        let leased: Value = serde_json::from_str(&call("lease", r#"{"wait": "20s"}"#)).unwrap();
        let token = leased["firings"][0]["token"].as_str().expect("a firing");
        call("settle", &json!({"settlements": [{"token": token, "ack": {}}]}).to_string());
    }
    // A request to the collector times out after 5 s. The first call that waits for one takes all of them.
    assert!(slowest < Duration::from_secs(4), "{slowest:?}");
    assert!(started.elapsed() < DEADLINE, "300 calls took {:?}", started.elapsed());
    let stopped = Instant::now();
    process.signal(Signal::TERM);
    assert_eq!(process.ended().0.code(), Some(0));
    assert!(stopped.elapsed() < Duration::from_secs(5), "{:?}", stopped.elapsed());
}
