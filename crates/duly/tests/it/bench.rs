//! `duly bench`: small runs against real servers, over both transports, with exact counts.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Process, Ran, Server, duly, run};

/// Options of a small run.
const TINY: [&str; 3] = ["--no-baselines", "--output", "json"];

/// Runs a small benchmark to its end, and checks that its report has no fault and no remark.
#[track_caller]
fn tiny(server: &Server, subject: &str, transport: &str, more: &[&str]) -> Value {
    let mut args = vec!["bench", subject, "--transport", transport, "--server", &server.url];
    args.extend(TINY);
    args.extend(more);
    let report = server.run(&args).json();
    assert_clean(&report);
    report
}

/// Runs a small benchmark that starts its own server or store, and returns its report.
#[track_caller]
fn measured(args: &[&str]) -> Value {
    Ran::from(duly().args(args).output().expect("duly starts")).json()
}

#[track_caller]
fn assert_clean(report: &Value) {
    assert_eq!(report["complete"], true, "{report}");
    assert_eq!(report["broken"], serde_json::json!([]), "{report}");
    assert_eq!(report["remarks"], serde_json::json!([]), "{report}");
}

/// Returns a figure by its name.
#[track_caller]
fn figure(report: &Value, name: &str) -> f64 {
    let figures = report["figures"].as_array().expect("figures");
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.and_then(|figure| figure["value"].as_f64()).unwrap_or_else(|| panic!("{name}: {report}"))
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
        let batches = ["--timers", "500", "--batch", "70", "--in-flight", "2"];
        let report = tiny(&server, "ingest", transport, &batches);
        let all = [("attempted", 500), ("acknowledged", 500), ("fired", 0), ("refused", 0)];
        assert_counts(&report, &all);

        let singles = ["--timers", "60", "--batch", "1", "--in-flight", "7"];
        let report = tiny(&server, "ingest", transport, &singles);
        assert_counts(&report, &[("attempted", 60), ("acknowledged", 60), ("refused", 0)]);

        let report = tiny(&server, "ingest", transport, &["--rate", "300", "--seconds", "1"]);
        assert_counts(&report, &[("attempted", 300), ("acknowledged", 300), ("refused", 0)]);

        for subject in ["repeat", "reschedule"] {
            let report = tiny(&server, subject, transport, &batches);
            assert_counts(&report, &all);
        }

        let beside = [&batches[..], &["--pending", "1200"]].concat();
        let report = tiny(&server, "cancel", transport, &beside);
        assert_counts(&report, &[("acknowledged", 500), ("cancelled", 500), ("fired", 0)]);

        let out =
            [("acknowledged", 300), ("fired", 300), ("settled", 300), ("lost", 0), ("refused", 0)];
        let report = tiny(&server, "lateness", transport, &["--rate", "300", "--seconds", "1"]);
        assert_counts(&report, &out);
        if transport == "grpc" {
            let stream =
                ["--rate", "300", "--seconds", "1", "--delivery", "consume", "--batch", "7"];
            let report = tiny(&server, "lateness", transport, &stream);
            assert_counts(&report, &out);
            assert_eq!(report["delivery"], "consume", "{report}");
        }

        let report = tiny(&server, "hot-second", transport, &["--timers", "300", "--batch", "70"]);
        assert_counts(&report, &out);

        for (subject, more) in [
            ("lateness", &["--rate", "300", "--seconds", "1"][..]),
            ("hot-second", &["--timers", "300"]),
        ] {
            let webhooks = [more, &["--delivery", "webhook"]].concat();
            let report = tiny(&server, subject, transport, &webhooks);
            assert_counts(&report, &[("acknowledged", 300), ("fired", 300), ("lost", 0)]);
        }

        let debounced = ["--timers", "300", "--batch", "10", "--rate", "900", "--seconds", "1"];
        let report = tiny(&server, "debounce", transport, &debounced);
        assert_counts(&report, &out);
        let replaced: u64 =
            report["by_second"].as_array().expect("seconds").iter().filter_map(Value::as_u64).sum();
        assert_eq!(replaced, 900, "{report}");
    }
    assert_nothing_is_left(&server);
}

#[test]
fn mixed_checks_the_whole_history() {
    let server = Server::start();
    for transport in ["http", "grpc"] {
        let report = tiny(&server, "mixed", transport, &["--rate", "300", "--seconds", "2"]);
        let sent = ["schedules and replacements sent", "reschedules sent", "cancellations sent"];
        assert_eq!(sent.map(|name| figure(&report, name)).iter().sum::<f64>(), 600.0, "{report}");
        assert!(sent.iter().all(|name| figure(&report, name) > 0.0), "{report}");
        assert_eq!(report["verdict"]["counts"], serde_json::json!({}), "{report}");
        let fired = report["counts"]["fired"].as_u64().expect("a count");
        assert!(fired > 0, "{report}");
        assert_counts(&report, &[("settled", fired), ("lost", 0)]);
    }
    assert_nothing_is_left(&server);
}

#[test]
fn after_a_kill_nothing_acknowledged_is_missing() {
    let recovery = ["bench", "recovery", "--rate", "300", "--seconds", "4", "--timers", "500"];
    for transport in ["http", "grpc"] {
        let mut args = recovery.to_vec();
        args.extend(TINY);
        args.extend(["--transport", transport]);
        let report = measured(&args);
        assert_clean(&report);
        assert!(figure(&report, "from start to ready") > 0.0, "{report}");
        assert!(figure(&report, "from start to the first call answered") > 0.0, "{report}");
        let recovered = report["verdict"]["recovered"].as_u64().expect("a count");
        assert!(recovered > 0, "{report}");
    }
}

#[test]
fn a_quiet_namespace_is_measured_alone_and_beside_others() {
    let server = Server::start();
    for transport in ["http", "grpc"] {
        let options = ["--rate", "100", "--seconds", "1", "--timers", "500"];
        let report = tiny(&server, "isolation", transport, &options);
        // The quiet namespace in its three stretches, and the served one; the one with the dead receiver
        // never fires.
        let out = [("acknowledged", 800), ("fired", 800), ("settled", 800), ("refused", 0)];
        assert_counts(&report, &out);
        for beside in ["alone", "beside a dead receiver", "beside full speed"] {
            assert!(figure(&report, &format!("lateness {beside}, p50")) > 0.0, "{report}");
        }
    }
    assert_nothing_is_left(&server);
}

#[test]
fn many_namespaces_are_served_and_shares_reported() {
    let server = Server::start();
    for transport in ["http", "grpc"] {
        let options = ["--namespaces", "20", "--each", "5"];
        let report = tiny(&server, "namespaces", transport, &options);
        assert_counts(&report, &[("acknowledged", 100), ("fired", 100), ("refused", 0)]);
        let fair = figure(&report, "when half is out: Jain's index (1 is fair)");
        assert!((0.05..=1.0).contains(&fair), "{report}");
    }
    assert_nothing_is_left(&server);
}

#[test]
fn an_option_that_a_subject_does_not_use_is_refused() {
    for (args, option, allowed) in [
        (&["lateness", "--timers", "5"][..], "--timers is not for lateness", "--rate, --seconds"),
        (&["ingest", "--timers", "5", "--rate", "5"], "--timers is not for ingest", "rate times"),
        (&["hot-second", "--rate", "5"], "--rate is not for hot-second", "--timers, --batch"),
        (&["cancel", "--each", "5"], "--each is not for cancel", "--in-flight"),
    ] {
        let mut all = vec!["bench"];
        all.extend(args);
        let message = run(&all).refused(2);
        assert!(message.contains(option) && message.contains(allowed), "{message}");
    }
    let message = run(&["bench", "recovery", "--server", "http://127.0.0.1:1"]).refused(1);
    assert!(message.contains("leave out --server"), "{message}");
}

#[test]
fn self_started_server_is_measured_and_plotted() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (dir, plot) = (directory.path(), directory.path().join("run.svg"));
    let mut args = vec!["bench", "ingest", "--timers", "500"];
    args.extend(TINY);
    args.extend(["--dir", dir.to_str().expect("UTF-8"), "--plot", plot.to_str().expect("UTF-8")]);
    let report = measured(&args);
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
fn lists_dead_letters_and_waiting_calls_are_measured() {
    let server = Server::start();
    for transport in ["http", "grpc"] {
        let lists = ["--namespaces", "5", "--each", "70", "--seconds", "1"];
        let report = tiny(&server, "lists", transport, &lists);
        assert_counts(&report, &[("acknowledged", 350), ("refused", 0)]);
        for name in ["pages", "scheduled beside the lists"] {
            assert!(figure(&report, name) > 0.0, "{report}");
        }
        let report = tiny(&server, "dead-letters", transport, &["--timers", "300"]);
        assert_counts(&report, &[("fired", 300), ("settled", 300), ("lost", 0)]);
        let report = tiny(&server, "waiting", transport, &["--timers", "40", "--seconds", "1"]);
        assert_counts(&report, &[("fired", 40), ("settled", 40), ("lost", 0)]);
    }
    assert_nothing_is_left(&server);
}

#[test]
fn store_in_this_process_is_measured_without_a_server() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let dir = directory.path().to_str().expect("UTF-8");
    for (subject, count, more) in [
        ("ingest", "acknowledged", &["--timers", "300", "--batch", "70"][..]),
        ("repeat", "acknowledged", &["--timers", "300", "--batch", "70"]),
        ("reschedule", "acknowledged", &["--timers", "300", "--batch", "70", "--cold"]),
        ("cancel", "cancelled", &["--timers", "300", "--batch", "70", "--pending", "1200"]),
        ("lateness", "settled", &["--rate", "300", "--seconds", "1"]),
        ("lists", "acknowledged", &["--namespaces", "6", "--each", "50", "--seconds", "1"]),
        ("dead-letters", "settled", &["--timers", "300"]),
        ("waiting", "settled", &["--timers", "300", "--seconds", "1"]),
        ("hot-second", "settled", &["--timers", "300", "--batch", "70", "--cold"]),
        ("debounce", "settled", &["--timers", "300", "--rate", "900", "--seconds", "1"]),
    ] {
        let mut args = vec!["bench", subject, "--transport", "in-process", "--dir", dir];
        args.extend(TINY);
        args.extend(more);
        let report = measured(&args);
        assert_clean(&report);
        assert_counts(&report, &[(count, 300), ("refused", 0), ("lost", 0)]);
    }
    assert_eq!(std::fs::read_dir(dir).expect("a folder").count(), 0, "no data is left");
}

#[test]
fn size_reports_memory_disk_idle_cpu_and_starts() {
    let mut args = vec!["bench", "size", "--timers", "5000", "--seconds", "1"];
    args.extend(TINY);
    let report = measured(&args);
    assert_clean(&report);
    assert_counts(&report, &[("acknowledged", 5_000), ("cancelled", 4_500), ("refused", 0)]);
    for name in [
        "disk, each",
        "bytes written to the disk, each",
        "resident memory, each",
        "from start to ready, page cache warm",
        "from start to ready, page cache cold",
        "resident memory after a start, each",
        "nine of ten cancelled: disk",
    ] {
        assert!(figure(&report, name) > 0.0, "{name}: {report}");
    }
    assert!(figure(&report, "CPU of the idle server") < 50.0, "{report}");
}

#[test]
fn remote_server_is_refused_without_the_flag() {
    let there = ["bench", "ingest", "--server", "http://192.0.2.1:3859"];
    let message = run(&there).refused(1);
    for part in ["192.0.2.1:3859", "not this machine", "--i-own-this-server"] {
        assert!(message.contains(part), "no {part}: {message}");
    }
    let message = run(&["bench", "ingest", "--server", "https://127.0.0.1:1"]).refused(1);
    assert!(message.contains("http://"), "{message}");
}

#[test]
fn invalid_options_fail_before_the_run() {
    let message = run(&["bench", "lateness", "--rate", "4000000", "--seconds", "60"]).refused(1);
    assert!(message.contains("1 to 200000000 are allowed"), "{message}");
    let message = run(&["bench", "ingest", "--server", "http://127.0.0.1:1", "--dir", "."]);
    assert!(message.refused(2).contains("--dir"));
}

#[test]
fn ctrl_c_prints_figures_and_cleans_up() {
    let server = Server::start();
    let mut bench = Process::start(&[
        "bench",
        "ingest",
        "--rate",
        "1000",
        "--seconds",
        "600",
        "--no-baselines",
        "--output",
        "json",
        "--server",
        &server.url,
    ]);
    let namespaces = server.until(&["namespace", "list"], |seen| seen["namespaces"][0].is_object());
    let name = namespaces["namespaces"][0]["name"].as_str().expect("a name");
    server.until(&["list", name], |seen| seen["timers"][0].is_object());
    bench.signal(Signal::INT);
    let report = stopped(&mut bench);
    assert_eq!(report["broken"], serde_json::json!([]), "{report}");
    let acknowledged = report["counts"]["acknowledged"].as_u64().expect("a count");
    assert!(acknowledged > 0 && acknowledged < 600_000, "{report}");
    assert_nothing_is_left(&server);
}

#[test]
fn ctrl_c_does_not_wait_for_a_stalled_server() {
    let server = Server::start();
    let mixed = ["bench", "mixed", "--rate", "200", "--seconds", "600", "--server", &server.url];
    let mut args = mixed.to_vec();
    args.extend(TINY);
    let mut bench = Process::start(&args);
    let namespaces = server.until(&["namespace", "list"], |seen| seen["namespaces"][1].is_object());
    let name = namespaces["namespaces"][1]["name"].as_str().expect("a name");
    server.until(&["list", name], |seen| seen["timers"][0].is_object());
    server.process.signal(Signal::STOP);
    bench.signal(Signal::INT);
    let report = stopped(&mut bench);
    assert!(report["counts"]["acknowledged"].as_u64() > Some(0), "{report}");
    let remarks = report["remarks"].to_string();
    assert!(remarks.contains("could not all be deleted"), "{report}");
    server.process.signal(Signal::CONT);
}

/// Returns the report of a stopped run.
#[track_caller]
fn stopped(bench: &mut Process) -> Value {
    let report: Value = serde_json::from_str(&bench.line()).expect("a report");
    assert_eq!(report["complete"], false, "{report}");
    assert!(bench.ended().0.success());
    report
}
