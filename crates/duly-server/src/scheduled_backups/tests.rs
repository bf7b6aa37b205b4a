use std::sync::atomic::{AtomicU64, Ordering};

use duly_store::{BackupError, BackupReport, conformance::ManualClock};
use metrics_exporter_prometheus::PrometheusBuilder;

use super::*;
use crate::service::BackupLimits;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn at(seconds: &str) -> String {
    format!("{PREFIX}2026-11-26T{seconds}Z")
}

fn backup(dir: &Path, name: &str) {
    fs::create_dir_all(dir.join(name).join("journal")).unwrap();
    fs::write(dir.join(name).join(MANIFEST), "").unwrap();
}

#[test]
fn the_name_of_a_backup_has_its_time() {
    let time = Timestamp::parse("2026-11-26T03:00:01.250Z").unwrap();
    assert_eq!(name_of(time), at("03-00-01"));
    assert_eq!(time_of(&at("03-00-01")), Timestamp::parse("2026-11-26T03:00:01Z").ok());
    for other in ["2026-11-26", "scheduled-", "scheduled-x", "scheduled-2026-11-26T99-00-00Z"] {
        assert_eq!(time_of(other), None, "{other}");
    }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(&format!("2026-11-26T{text}Z")).unwrap()
}

/// Backups of a directory, made as an empty manifest; `fails` are refused first.
fn backups(dir: &Path, made: &Arc<AtomicU64>, fails: &Arc<AtomicU64>) -> Backups {
    let (count, fails) = (Arc::clone(made), Arc::clone(fails));
    let make = move |path: &Path| {
        if fails.load(Ordering::Relaxed) > 0 {
            fails.fetch_sub(1, Ordering::Relaxed);
            return Err(BackupError::Busy("closed".to_owned()));
        }
        count.fetch_add(1, Ordering::Relaxed);
        backup(path.parent().unwrap(), path.file_name().unwrap().to_str().unwrap());
        let path = path.to_owned();
        Ok(BackupReport { path, files: 1, bytes: 0, copied_bytes: 0, lsn: None })
    };
    let limits = BackupLimits { count_max: 5, interval: Duration::from_secs(60) };
    Backups::new(Some(dir.to_owned()), limits, Some(Arc::new(make)))
}

#[test]
fn the_newest_backups_and_those_of_operators_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    for name in [&*at("01-00-00"), &at("02-00-00"), &at("03-00-00"), "before-the-upgrade"] {
        backup(dir.path(), name);
    }
    // Of a clock that was wrong, and of a process that was killed.
    backup(dir.path(), "scheduled-2038-01-01T00-00-00Z");
    fs::create_dir_all(dir.path().join(at("05-00-00")).join("journal")).unwrap();
    fs::write(dir.path().join(at("00-00-00")), "a file").unwrap();
    // One with the copy of its manifest alone is whole.
    fs::rename(
        dir.path().join(at("03-00-00")).join(MANIFEST),
        dir.path().join(at("03-00-00")).join(MANIFEST_COPY),
    )
    .unwrap();
    let (made, fails) = (Arc::default(), Arc::new(AtomicU64::new(1)));
    let backups = backups(dir.path(), &made, &fails);
    let schedule =
        Schedule { dir: dir.path().to_owned(), every: Millis::from_secs(3_600), keep: 2 };
    let step = |now: &str| step(&schedule, &backups, time("05:30:00"), time(now));
    // The incomplete one of 5 o'clock does not count.
    let due = due(&schedule, time("05:30:00"), time("05:30:00"));
    assert_eq!(due.unwrap(), time("04:00:00"));
    step("05:30:00").unwrap_err();
    let kept = ["before-the-upgrade", &at("00-00-00"), &at("02-00-00"), &at("03-00-00")];
    assert_eq!(names(dir.path()), kept, "as many as are to be kept stay after a failure");
    // The published time is in the past until the backup is made.
    let recorder = PrometheusBuilder::new().build_recorder();
    let announced = |now: &str, due: &str| {
        let outcome = metrics::with_local_recorder(&recorder, || step(now));
        let line =
            format!("{} {}", names::BACKUP_DUE_TIMESTAMP_SECONDS, time(due).unix_ms() / 1_000);
        let text = recorder.handle().render();
        assert!(text.lines().any(|it| it == line), "{line} is not in {text}");
        outcome
    };
    fails.store(1, Ordering::Relaxed);
    announced("05:35:00", "04:00:00").unwrap_err();
    assert_eq!(announced("05:40:00", "06:40:00"), Ok(Some(1)));
    assert_eq!(step("06:00:00"), Ok(None));
    assert_eq!(step("06:40:00"), Ok(Some(1)));
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

/// The copy of the manifest alone makes a directory a store.
#[test]
fn a_removal_that_is_interrupted_leaves_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join(MANIFEST_COPY);
    fs::write(&copy, "").unwrap();
    // A directory in place of the manifest interrupts the removal.
    fs::create_dir(dir.path().join(MANIFEST)).unwrap();
    remove(dir.path()).unwrap_err();
    assert!(!copy.exists());
}

#[test]
fn a_directory_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let backups = backups(dir.path(), &Arc::default(), &Arc::default());
    let schedule = Schedule { dir: dir.path().join("file"), every: Millis::from_secs(60), keep: 2 };
    let reason = step(&schedule, &backups, time("01:00:00"), time("02:00:00")).unwrap_err();
    assert!(reason.contains("cannot be read"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn backups_are_made_at_the_interval_and_after_failures() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::default();
    let (made, failures) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let backups = backups(dir.path(), &made, &failures);
    let schedule =
        Schedule { dir: dir.path().to_owned(), every: Millis::from_secs(3_600), keep: 2 };
    let pass = async |time: u64| {
        clock.advance(Millis::from_secs(time));
        // The clock of the runtime moves when all tasks wait; blocking tasks take real time.
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_secs(30)).await;
            std::thread::sleep(Duration::from_millis(1));
        }
        made.load(Ordering::Relaxed)
    };
    let start = || tokio::spawn(run(schedule.clone(), backups.clone(), Arc::new(clock.clone())));
    let task = start();
    assert_eq!(pass(1).await, 1, "the first one is due at once");
    assert_eq!(pass(3_000).await, 1);
    assert_eq!(pass(700).await, 2);
    failures.store(1, Ordering::Relaxed);
    assert_eq!(pass(3_700).await, 3, "it is tried again");
    task.abort();
    // After a restart the next one is due an interval after the newest.
    start();
    assert_eq!(pass(60).await, 3);
    assert_eq!(pass(3_700).await, 4);
    assert_eq!(names(dir.path()).len(), 2);
}
