//! Backups over HTTP: only below the directory that the operator named. A refused backup creates
//! nothing.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use duly_core::Code;
use duly_server::http::{BackupLimits, Backups, MakeBackup};
use duly_store::{Backups as _, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore, Options,
    backup::BackupError,
    check::check,
    disk::{self, Operation, RealDisk},
};
use serde_json::json;

use crate::bench::Bench;

const PATH: &str = "/v1/store/backup";

fn store(path: &Path) -> Arc<EmbeddedStore> {
    let options = Options { min_free_bytes: Some(0), min_free_percent: 0, ..Options::default() };
    let options = Options { segment_bytes: 64 * 1024, ..options };
    let disk = Arc::new(RealDisk::open_or_create(path).unwrap());
    let clock = Arc::new(ManualClock::default());
    Arc::new(EmbeddedStore::open(disk, options, clock, &mut |_| {}).unwrap())
}

/// Returns the backups of a store below a directory, without a bound on their rate.
pub(crate) fn backups_of(dir: PathBuf, store: Arc<EmbeddedStore>) -> Backups {
    limited(dir, store, 30, Duration::ZERO)
}

fn limited(
    dir: PathBuf,
    store: Arc<EmbeddedStore>,
    count_max: usize,
    interval: Duration,
) -> Backups {
    let make: Arc<MakeBackup> = Arc::new(move |path| store.back_up(path));
    Backups::new(Some(dir), BackupLimits { count_max, interval }, Some(make))
}

fn asked(path: &Path) -> String {
    json!({ "path": path }).to_string()
}

#[tokio::test]
async fn backups_go_below_their_directory_and_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir.path().join("data"));
    let bench = Bench::backing_up(backups_of(dir.path().join("backups"), store));
    let target = dir.path().join("backups/today");
    let made = bench.post(PATH, &asked(&target)).await.expect(200);
    assert_eq!(made["path"], json!(target));
    assert!(made["files"].as_u64() >= Some(2) && made["bytes"].as_u64() > Some(1), "{made}");
    assert!(made["lsn"].is_u64(), "{made}");
    let report = check(&target, &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report}");
    let problem = bench.post(PATH, &asked(&target)).await.problem("invalid_argument");
    assert_eq!(problem["field"], "path");
    assert!(problem["detail"].as_str().unwrap().contains("is not empty"), "{problem}");
}

#[tokio::test]
async fn without_a_directory_for_them_no_backup_is_made() {
    let problem = Bench::new().post(PATH, r#"{"path":"/tmp/x"}"#).await;
    let problem = problem.problem(Code::PermissionDenied.as_str());
    assert!(problem["detail"].as_str().unwrap().contains("store.backup_dir"), "{problem}");
}

#[tokio::test]
async fn paths_that_are_not_below_the_directory_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (backups, outside) = (dir.path().join("backups"), dir.path().join("outside"));
    std::fs::create_dir_all(&backups).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    symlink(&outside, backups.join("link")).unwrap();
    let bench = Bench::backing_up(backups_of(backups.clone(), store(&dir.path().join("data"))));
    for path in [
        PathBuf::from("relative"),
        backups.clone(),
        backups.join(""),
        backups.join("../outside/x"),
        backups.join("link/x"),
        dir.path().join("backups-2/x"),
        outside.join("x"),
        PathBuf::from("/"),
        PathBuf::new(),
    ] {
        let problem = bench.post(PATH, &asked(&path)).await.problem("invalid_argument");
        assert_eq!(problem["field"], "path", "{}", path.display());
        let allowed = problem["allowed"].as_str().unwrap();
        assert!(allowed.contains(backups.to_str().unwrap()), "{allowed}");
    }
    bench.post(PATH, r#"{"path":"/x","more":1}"#).await.problem("invalid_argument");
    bench.post(PATH, "{}").await.problem("invalid_argument");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[tokio::test]
async fn paths_that_no_directory_can_have_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (backups, data) = (dir.path().join("backups"), dir.path().join("data"));
    let bench = Bench::backing_up(backups_of(backups.clone(), store(&data)));
    let long = backups.join("x".repeat(300));
    // The directory itself is missing the first time, and exists the second time.
    for path in [&long, &long, &backups.join("a\0b")] {
        let problem = bench.post(PATH, &asked(path)).await.problem("invalid_argument");
        assert_eq!(problem["field"], "path", "{problem}");
    }
    std::fs::create_dir_all(&backups).unwrap();
    std::fs::write(backups.join("file"), "").unwrap();
    for name in ["file", "file/below"] {
        let problem = bench.post(PATH, &asked(&backups.join(name))).await;
        assert_eq!(problem.problem("invalid_argument")["field"], "path", "{name}");
    }
}

#[tokio::test]
async fn a_backup_without_disk_space_gets_a_retry_time() {
    let dir = tempfile::tempdir().unwrap();
    let full: Arc<MakeBackup> = Arc::new(|_| {
        let (operation, name) = (Operation::Write, "a copy".to_owned());
        Err(BackupError::Disk(disk::Error::NoSpace { operation, name }).into())
    });
    let limits = BackupLimits { count_max: 1, interval: Duration::ZERO };
    let backups = Backups::new(Some(dir.path().to_owned()), limits, Some(full));
    let bench = Bench::backing_up(backups);
    let answer = bench.post(PATH, &asked(&dir.path().join("x"))).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["retry-after"]),
        (429, &"60".parse().unwrap())
    );
    assert_eq!(answer.problem("resource_exhausted")["retry_after_ms"], 60_000);
}

/// Regression test: a caller could fill the disk with copies.
#[tokio::test]
async fn backups_are_limited_in_number_and_rate() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(&dir.path().join("data"));
    let two_each = |interval| limited(dir.path().join("backups"), Arc::clone(&store), 2, interval);
    let bench = Bench::backing_up(two_each(Duration::from_secs(3_600)));
    let target = |name: &str| dir.path().join("backups").join(name);
    bench.post(PATH, &asked(&target("one"))).await.expect(200);
    let answer = bench.post(PATH, &asked(&target("two"))).await;
    let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((3_000..=3_600).contains(&wait), "{wait}");
    let problem = answer.problem("resource_exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("store.backup_interval"), "{problem}");
    // A path in use is refused as such at any time.
    let problem = bench.post(PATH, &asked(&target("one"))).await.problem("invalid_argument");
    assert!(problem["detail"].as_str().unwrap().contains("is not empty"), "{problem}");

    let bench = Bench::backing_up(two_each(Duration::ZERO));
    bench.post(PATH, &asked(&target("below/two"))).await.expect(200);
    let problem = bench.post(PATH, &asked(&target("three"))).await.problem("resource_exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("store.backups_max"), "{problem}");
    assert!(!target("three").exists());
    std::fs::remove_dir_all(target("one")).unwrap();
    bench.post(PATH, &asked(&target("three"))).await.expect(200);
}

#[tokio::test]
async fn a_backup_that_would_use_up_the_reserve_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { min_free_bytes: Some(1 << 60), ..Options::default() };
    let disk = Arc::new(RealDisk::open_or_create(dir.path().join("data")).unwrap());
    let clock = Arc::new(ManualClock::default());
    let store = Arc::new(EmbeddedStore::open(disk, options, clock, &mut |_| {}).unwrap());
    let bench = Bench::backing_up(backups_of(dir.path().join("backups"), store));
    let target = dir.path().join("backups/today");
    let answer = bench.post(PATH, &asked(&target)).await;
    assert_eq!(answer.headers["retry-after"], "60");
    let problem = answer.problem("resource_exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("store.min_free_bytes"), "{problem}");
    assert!(!target.exists());
}
