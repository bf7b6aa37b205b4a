//! Every row of the engine benchmark exists and counts right; no test looks at a time.

use std::path::Path;

use clap::ValueEnum as _;
use duly_bench::engine::{self, Name, Options};

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
        program: Some(env!("CARGO_BIN_EXE_duly-bench").into()),
    }
}

#[test]
fn every_row_is_measured_and_leaves_nothing() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let options = Options { dir: Some(dir.path().to_owned()), ..options(&[]) };
    let report = engine::run(&options).unwrap();
    for name in Name::value_variants() {
        let row = report.find(name.as_str()).unwrap_or_else(|| panic!("no row {name:?}"));
        let expected = if *name == Name::Floor { 50 * 100 } else { 3_210 };
        assert_eq!(row.items, expected, "{name:?}");
        assert!(row.figure("per_second").is_some_and(|figure| figure.median > 0.0), "{name:?}");
    }
    let ingest = report.find("ingest").unwrap();
    for name in ["cpu", "p50", "p99.9", "max", "journal", "disk", "resident", "index"] {
        assert!(ingest.figure(name).is_some(), "{name}");
    }
    // An entry has 24 bytes.
    assert!(ingest.figure("index").unwrap().median >= 24.0);
    assert!(ingest.figure("journal").unwrap().median > 128.0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something was left behind");
}

#[test]
fn only_the_rows_asked_for_are_there_with_all_their_rounds() {
    let options = Options { runs: 2, ..options(&[Name::Cancel, Name::Fire]) };
    let report = engine::run(&options).unwrap();
    let names: Vec<_> = report.rows.iter().map(|row| row.name).collect();
    assert_eq!(names, ["cancel", "fire"]);
    for row in &report.rows {
        assert!(row.figures.iter().all(|figure| figure.rounds.len() == 2), "{row:?}");
    }
    let text = report.to_string();
    assert!(text.contains("cancel") && text.contains("fire"), "{text}");
}
