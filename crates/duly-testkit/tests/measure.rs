//! Tests of every subject of `duly-measure` at a tiny size, with a real server: it ends, has the
//! right counts and prints its figures. The values of the figures do not matter here.

use std::io::Write as _;

use clap::Parser as _;
use duly_testkit::measure::{self, Options};
use serde_json::Value;

/// Runs a subject for one round; returns its figures by name. Returns nothing if no server was
/// built: `cargo xtask test` sets its path.
async fn measured(words: &str) -> Option<Vec<(String, f64)>> {
    let Some(bin) = std::env::var_os("DULY_BIN") else {
        // Past the capture of `eprintln!`: a test that was left out must be seen.
        let mut stderr = std::io::stderr().lock();
        writeln!(stderr, "LEFT OUT: `{words}` needs DULY_BIN; run `cargo xtask test`").ok();
        return None;
    };
    let words = ["duly-measure"].into_iter().chain(words.split(' ')).map(Into::into);
    let rest = ["--rounds".into(), "1".into(), "--bin".into(), bin];
    let options =
        Options::try_parse_from(words.chain(rest)).unwrap_or_else(|error| panic!("{error}"));
    let table = measure::run(&options).await.unwrap_or_else(|error| panic!("{error:#}"));
    let Value::Array(rows) = table.to_json() else { panic!("figures are a list") };
    let figures = rows.iter().map(|row| {
        (
            row["name"].as_str().unwrap_or_default().to_owned(),
            row["median"].as_f64().unwrap_or(f64::NAN),
        )
    });
    Some(figures.collect())
}

/// Checks that each of these was printed, and is a number above 0.
#[track_caller]
fn check(figures: &[(String, f64)], names: &[&str]) {
    for name in names {
        let found = figures.iter().find(|(own, _)| own == name);
        assert!(found.is_some_and(|(_, value)| *value > 0.0), "{name}: {found:?} of {figures:?}");
    }
}

const OUT: [&str; 5] = [
    "all out",
    "all acknowledged",
    "resident, peak from then on",
    "CPU of the server, each",
    "floor: the same bytes over plain sockets",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_second_by_pull_writes_its_series() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("series.csv");
    let words = format!(
        "hot-second --timers 3000 --batch 500 --connections 3 --lead 5 --series {}",
        csv.display()
    );
    if let Some(figures) = measured(&words).await {
        check(&figures, &OUT);
        let text = std::fs::read_to_string(csv).unwrap();
        assert!(text.starts_with("seconds,out,acknowledged,resident_mib\n"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_second_by_webhook() {
    let words = "hot-second --timers 1000 --kind webhook --in-flight 20 --lead 5";
    if let Some(figures) = measured(words).await {
        check(&figures, &OUT);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn isolation_has_every_stretch_and_draws_them() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, svg) = (dir.path().join("series.csv"), dir.path().join("plot.svg"));
    let words = format!(
        "isolation --timers 1000 --rate 50 --seconds 1 --lead 5 --beside refused,silent,webhook,pull \
         --series {} --plot {}",
        csv.display(),
        svg.display()
    );
    if let Some(figures) = measured(&words).await {
        for lane in ["pull", "webhook", "wake-up"] {
            check(&figures, &[&format!("{lane}, idle: p99.9")]);
            for beside in ["refused", "silent", "webhooks", "pull"] {
                let name = format!("{lane}, beside {beside}: p99");
                check(&figures, &[&name, &format!("{name} to idle")]);
            }
        }
        check(&figures, &["beside webhooks: served", "beside pull: served"]);
        check(&figures, &["beside refused: attempts at the dead receiver"]);
        let text = std::fs::read_to_string(csv).unwrap();
        assert!(text.contains("\nidle,pull,") && text.contains("\nbeside silent,webhook,"));
        assert!(std::fs::read_to_string(svg).unwrap().contains("beside silent"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_by_webhook_and_by_pull() {
    for kind in ["webhook", "pull"] {
        let words = format!("namespaces --namespaces 50 --each 4 --lead 5 --kind {kind}");
        if let Some(figures) = measured(&words).await {
            check(
                &figures,
                &["all out, from the beginning of the second", "a namespace's last out: p99"],
            );
            check(&figures, &["when half is out: Jain's index (1 is fair)", OUT[4]]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_woken_and_counted() {
    let words = "waiters --waiting 60 --namespaces 3 --rate 100 --seconds 1";
    if let Some(figures) = measured(words).await {
        check(&figures, &["lateness of a waiter that is woken, p99", "resident, all wait"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn debouncing_replaces_every_time() {
    let words = "debounce --ids 250 --batch 100 --connections 2 --seconds 1";
    if let Some(figures) = measured(words).await {
        check(&figures, &["replaced", "CPU of the server, each", OUT[4]]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_leased_and_acknowledged() {
    if let Some(figures) = measured("pull --timers 2500 --connections 2 --batch 200").await {
        check(&figures, &["leased and acknowledged", OUT[4]]);
    }
}
