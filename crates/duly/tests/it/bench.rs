//! `duly bench`: tiny runs against real servers, by both transports, whose counts are exact.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Process, Server, run};

/// Options of a run that takes little.
const TINY: [&str; 7] = ["--seconds", "1", "--no-floors", "--in-flight", "2", "--output", "json"];

#[track_caller]
fn tiny(server: &Server, subject: &str, transport: &str, more: &[&str]) -> Value {
    let mut args = vec!["bench", subject, "--transport", transport, "--server", &server.url];
    args.extend(TINY);
    args.extend(more);
    let report = server.run(&args).json();
    assert_eq!(report["complete"], true, "{report}");
    assert_eq!(report["broken"], serde_json::json!([]), "{report}");
    assert_eq!(report["remarks"], serde_json::json!([]), "{report}");
    assert_eq!(report["counts"]["refused"], 0, "{report}");
    report
}

#[track_caller]
fn assert_counts(report: &Value, expected: &[(&str, u64)]) {
    for (name, count) in expected {
        assert_eq!(report["counts"][*name], *count, "{name}: {report}");
    }
}

#[track_caller]
fn assert_nothing_is_left(server: &Server) {
    let namespaces = server.run(&["namespace", "list", "--output", "json"]).ok();
    assert!(!namespaces.contains("bench-"), "{namespaces}");
}

#[test]
fn every_timer_of_every_subject_is_counted_by_both_transports() {
    let server = Server::start();
    for transport in ["http", "grpc"] {
        let report = tiny(&server, "ingest", transport, &["--timers", "500", "--batch", "70"]);
        assert_counts(&report, &[("attempted", 500), ("acknowledged", 500), ("fired", 0)]);

        let report = tiny(&server, "ingest", transport, &["--rate", "300"]);
        assert_counts(&report, &[("attempted", 300), ("acknowledged", 300)]);

        let report = tiny(&server, "cancel", transport, &["--timers", "500", "--batch", "70"]);
        assert_counts(&report, &[("acknowledged", 500), ("cancelled", 500), ("fired", 0)]);

        let out = [("acknowledged", 300), ("fired", 300), ("settled", 300), ("lost", 0)];
        let report = tiny(&server, "lateness", transport, &["--rate", "300"]);
        assert_counts(&report, &out);

        let report = tiny(&server, "hot-second", transport, &["--timers", "300", "--batch", "70"]);
        assert_counts(&report, &out);

        let debounced = ["--timers", "300", "--batch", "10", "--rate", "900"];
        let report = tiny(&server, "debounce", transport, &debounced);
        assert_counts(&report, &out);
        let replaced: u64 =
            report["by_second"].as_array().expect("seconds").iter().filter_map(Value::as_u64).sum();
        assert_eq!(replaced, 900, "{report}");
    }
    assert_nothing_is_left(&server);
}

#[test]
fn a_server_of_its_own_is_measured_from_outside_and_drawn() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (dir, plot) = (directory.path(), directory.path().join("run.svg"));
    let mut args = vec!["bench", "ingest", "--timers", "500"];
    args.extend(TINY);
    args.extend(["--dir", dir.to_str().expect("UTF-8"), "--plot", plot.to_str().expect("UTF-8")]);
    let report = run(&args).json();
    assert_counts(&report, &[("acknowledged", 500)]);
    let figures = report["figures"].to_string();
    for name in ["scheduled", "CPU of the server, each", "resident memory of the server, peak"] {
        assert!(figures.contains(name), "no {name}: {figures}");
    }
    let svg = std::fs::read_to_string(&plot).expect("a picture");
    assert!(svg.contains("ingest, grpc"), "{svg}");
    let left: Vec<_> = std::fs::read_dir(dir).expect("a folder").collect();
    assert_eq!(left.len(), 1, "only the picture is left: {left:?}");
}

#[test]
fn a_server_elsewhere_is_refused_unless_it_is_owned() {
    let there = ["bench", "ingest", "--server", "http://192.0.2.1:3859"];
    let message = run(&there).refused(1);
    for part in ["192.0.2.1:3859", "not this machine", "--i-own-this-server"] {
        assert!(message.contains(part), "no {part}: {message}");
    }
    let message = run(&["bench", "ingest", "--server", "https://127.0.0.1:1"]).refused(1);
    assert!(message.contains("http://"), "{message}");
}

#[test]
fn what_is_not_allowed_is_said_before_anything_is_started() {
    let message = run(&["bench", "lateness", "--rate", "4000000", "--seconds", "60"]).refused(1);
    assert!(message.contains("1 to 50000000 are allowed"), "{message}");
    let message = run(&["bench", "ingest", "--server", "http://127.0.0.1:1", "--dir", "."]);
    assert!(message.refused(2).contains("--dir"));
}

#[test]
fn ctrl_c_leaves_the_figures_so_far_and_nothing_else() {
    let server = Server::start();
    let mut bench = Process::start(&[
        "bench",
        "ingest",
        "--rate",
        "1000",
        "--seconds",
        "600",
        "--no-floors",
        "--output",
        "json",
        "--server",
        &server.url,
    ]);
    let namespaces = server.until(&["namespace", "list"], |seen| seen["namespaces"][0].is_object());
    let name = namespaces["namespaces"][0]["name"].as_str().expect("a name");
    server.until(&["list", name], |seen| seen["timers"][0].is_object());
    bench.signal(Signal::INT);
    let report: Value = serde_json::from_str(&bench.line()).expect("a report");
    assert_eq!(report["complete"], false, "{report}");
    assert_eq!(report["broken"], serde_json::json!([]), "{report}");
    let acknowledged = report["counts"]["acknowledged"].as_u64().expect("a count");
    assert!(acknowledged > 0 && acknowledged < 600_000, "{report}");
    assert!(bench.ended().0.success());
    assert_nothing_is_left(&server);
}
