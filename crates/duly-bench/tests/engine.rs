//! Tests that every row of the engine benchmark exists and has the right counts. No test checks a
//! time.

use std::path::Path;

use clap::ValueEnum as _;
use duly_bench::{
    engine::{self, Name, Options},
    report::Report,
};

fn options(rows: &[Name]) -> Options {
    Options {
        timers: 3_210,
        batch: 100,
        payload_bytes: 128,
        in_flight: 3,
        runs: 1,
        rows: rows.to_vec(),
        dir: Some(Path::new(env!("CARGO_TARGET_TMPDIR")).to_owned()),
        allow_memory_disk: true,
        allow_low_disk: false,
        seconds: 1,
        rate: 2_000,
        latency_batch: 20,
        mixed: true,
        series: None,
        plot: None,
        hot: None,
        dead: Some(501),
        settle_seconds: 1,
        reclaim_seconds: 1,
        idle_seconds: 1,
        program: Some(env!("CARGO_BIN_EXE_duly-bench").into()),
    }
}

/// Runs a benchmark to its end.
fn run(options: &Options) -> Report {
    let report = engine::run(options).expect("a report");
    assert_eq!(report.failed, None);
    report
}

/// Returns the number of items of a row.
fn items(name: &str) -> Option<u64> {
    Some(match name {
        "floor" => 50 * 100,
        "floor-64" => 51 * 64,
        "latency" | "latency-floor" => 2_000,
        "dead" => 501,
        "redrive" => 250,
        "purge" => 251,
        "reclaim" => 3_210 - 321,
        // The number depends on the time.
        "lists" => return None,
        _ => 3_210,
    })
}

#[test]
fn every_row_is_measured_and_leaves_nothing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options { dir: Some(dir.path().to_owned()), ..options(&[Name::All]) };
    let report = run(&options);
    let names = Name::value_variants().iter().map(|name| name.as_str());
    let more = ["floor-64", "latency-floor", "killed-cold", "redrive", "purge"];
    for name in names.filter(|name| *name != "all").chain(more) {
        let row = report.find(name).unwrap_or_else(|| panic!("no row {name}"));
        assert!(items(name).is_none_or(|items| items == row.items), "{name}: {}", row.items);
        assert!(row.items > 0 && !row.figures.is_empty(), "{name}");
        for figure in &row.figures {
            assert!(figure.median >= 0.0, "{name}: {figure:?}");
        }
    }
    for row in &report.rows {
        assert!(row.figure("per_second").is_none_or(|figure| figure.median > 0.0), "{row:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");

    let median = |row: &str, figure: &str| {
        let figures = report.find(row).unwrap();
        figures.figure(figure).unwrap_or_else(|| panic!("{row} has no {figure}")).median
    };
    for name in ["cpu", "p50", "p99.9", "p99.99", "max", "disk", "resident"] {
        median("ingest", name);
    }
    // An entry of the index has 24 bytes.
    assert!(median("ingest", "index") >= 24.0);
    assert!(median("ingest", "journal") > 128.0);
    // At least the bytes of the timer: 16 of id, 8 of due time, 128 of payload.
    assert!(median("disk", "settled") >= 152.0);
    assert!(median("writes", "ingest") >= 152.0);
    assert!(median("killed", "pending") >= 3_210.0 + 321.0);
    assert!(median("lists", "timers a page") >= 3.0);
    assert!(median("latency", "p50") <= median("latency", "max"));
    assert!(median("latency", "cancels") > 0.0 && median("latency", "firings") > 0.0);
}

#[test]
fn figures_have_baselines_and_targets() {
    let report = run(&options(&[Name::Ingest, Name::Hot, Name::Latency]));
    let with_target =
        [("ingest", "per_second"), ("hot", "1 M in"), ("latency", "p99.9"), ("latency", "p99.99")];
    for (row, figure) in with_target {
        let figure = report.find(row).unwrap().figure(figure).unwrap();
        assert!(figure.target.is_some(), "{row}: {figure:?}");
    }
    let with_floor =
        [("ingest", "per_second"), ("hot", "per_second"), ("latency", "max"), ("latency", "p99.9")];
    for (row, figure) in with_floor {
        let figure = report.find(row).unwrap().figure(figure).unwrap();
        assert!(figure.floor.as_ref().is_some_and(|floor| floor.median > 0.0), "{row}: {figure:?}");
    }
    let text = report.to_string();
    assert!(text.contains("met") || text.contains("missed"), "{text}");
}

#[test]
fn latency_over_time_is_written_and_drawn() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (series, plot) = (dir.path().join("series.csv"), dir.path().join("plot.svg"));
    let options = Options {
        series: Some(series.clone()),
        plot: Some(plot.clone()),
        mixed: false,
        ..options(&[Name::Latency])
    };
    run(&options);
    let text = std::fs::read_to_string(series).unwrap();
    // The header, ten tenths of a second, and more if the last result came later.
    assert!(text.lines().count() > 10, "{text}");
    let answered: f64 =
        text.lines().skip(1).filter_map(|line| line.split(',').nth(1)?.parse::<f64>().ok()).sum();
    assert!((answered * 0.1 - 2_000.0).abs() < 1.0, "{text}");
    let text = std::fs::read_to_string(plot).unwrap();
    assert!(text.starts_with("<svg") && text.contains("throughput"), "{text}");
}

#[test]
fn a_full_disk_is_refused_before_the_first_write() {
    let options = Options { timers: 1_000_000_000, ..options(&[Name::Reschedule]) };
    let refused = engine::run(&options).unwrap_err().to_string();
    assert!(refused.contains("--allow-low-disk") && refused.contains("GiB"), "{refused}");
}

#[test]
fn only_requested_rows_run_with_all_rounds() {
    let options = Options { runs: 2, ..options(&[Name::Cancel, Name::Fire]) };
    let report = run(&options);
    let names: Vec<_> = report.rows.iter().map(|row| row.name).collect();
    assert_eq!(names, ["cancel", "fire"]);
    for row in &report.rows {
        assert!(row.figures.iter().all(|figure| figure.rounds.len() == 2), "{row:?}");
    }
    let text = report.to_string();
    assert!(text.contains("cancel") && text.contains("fire"), "{text}");
}

#[test]
fn a_failed_row_keeps_earlier_rows() {
    let options = Options { program: Some("/bin/true".into()), ..options(&[]) };
    let options = Options { rows: vec![Name::Floor, Name::Ingest, Name::Open], ..options };
    let report = engine::run(&options).unwrap();
    assert!(report.find("ingest").is_some() && report.find("open").is_none());
    assert!(report.failed.is_some_and(|failed| failed.contains("another process")));
}
