use std::{fs, path::Path, sync::Arc};

use duly_core::{NamespaceName, Settings, env::Clock};
use duly_store::{
    AccessStore, AuditStore, Namespaces,
    conformance::ManualClock,
    namespaces::{Put, Secrets},
};
use futures::FutureExt;

use crate::{
    EmbeddedStore, Options, Tail,
    disk::SimDisk,
    journal::fixture::{FIRST, Fixture, pending},
    numbered::SEGMENTS,
    options::SEGMENT_BYTES_MIN,
};

use super::*;

fn options() -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES_MIN,
        min_free_bytes: Some(0),
        min_free_percent: 0,
        random_seed: Some(1),
        ..Options::default()
    }
}

/// Makes a store with one namespace in a real directory.
fn make_store(path: &Path) -> EmbeddedStore {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let disk = RealDisk::open_or_create(path).expect("a directory");
    let store = EmbeddedStore::open_inline(Arc::new(disk), options(), clock).expect("it opens");
    let put = Put::Replace { settings: Box::new(Settings::default()), secrets: Secrets::Set };
    let name = NamespaceName::new("shop").expect("a name");
    let answer = store.put_namespace(name, put).now_or_never();
    answer.expect("an inline store answers at once").expect("written");
    store
}

/// Returns every file with its bytes.
fn contents(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).expect("listed") {
        let entry = entry.expect("listed").path();
        if entry.is_dir() {
            files.extend(contents(&entry));
        } else {
            files.push((entry.display().to_string(), fs::read(&entry).expect("read")));
        }
    }
    files.sort();
    files
}

fn check_unchanged(path: &Path) -> Result<Report, OpenError> {
    let before = contents(path);
    let answer = check(path, &mut |_| {});
    assert!(contents(path) == before, "a check changes nothing");
    answer
}

/// A journal of two segments with five timers, and its manifest.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new(1);
    fixture.manifest.write(&fixture.disk).expect("written");
    for id in ["1", "2", "3"] {
        fixture.frame(id, 0);
    }
    fixture.roll().expect("room");
    fixture.append(&pending("4", 0));
    fixture.append(&pending("5", 0));
    fixture.sync();
    fixture
}

fn checked(disk: &SimDisk) -> Result<Report, OpenError> {
    let before = disk.ops();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let answer = check_disk(Arc::new(disk.clone()), clock, &mut |_| {});
    assert_eq!(disk.ops(), before, "a check changes nothing");
    answer
}

#[test]
fn a_healthy_directory_is_clean_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    make_store(dir.path()).close();
    let report = check_unchanged(dir.path()).expect("healthy");
    assert!(report.is_clean());
    let segments = report.files_of("segments").count;
    assert_eq!((report.format, report.epoch, segments, report.frames), (1, 2, 1, 2));
    assert_eq!(report.records, Counts { other: 1, ..Counts::default() });
    assert_eq!(report.tail, Tail::Closed, "it was closed");
    let text = report.to_string();
    assert!(text.ends_with("verdict         clean: every checksum, number and order holds"));
    assert!(text.contains(&dir.path().display().to_string()), "{text}");

    let mut seen = Vec::new();
    let fixture = fixture();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let mut report_progress = |progress| seen.push(progress);
    let report =
        check_disk(Arc::new(fixture.disk), clock, &mut report_progress).expect("no reason not to");
    let segments = report.files_of("segments");
    assert_eq!((segments.count, report.frames, report.records.pending), (2, 4, 5));
    assert_eq!((segments.bytes, segments.records), (2 * SEGMENT_BYTES_MIN, 5));
    let progress = |what, segments: u64| {
        let (bytes_done, bytes_total) = (segments * SEGMENT_BYTES_MIN, 2 * SEGMENT_BYTES_MIN);
        Progress { what, bytes_done, bytes_total }
    };
    let (replay, files) = ("journal to replay", "runs and segments");
    assert_eq!(
        seen,
        [
            progress(replay, 0),
            progress(replay, 1),
            progress(replay, 2),
            progress(files, 1),
            progress(files, 2)
        ]
    );
}

#[test]
fn a_torn_tail_is_reported_as_unknown_not_as_damage() {
    let fixture = fixture();
    let end = fixture.disk.read_file(&SEGMENTS.name(2)).iter().rposition(|byte| *byte != 0);
    fixture.disk.corrupt(&SEGMENTS.name(2), end.expect("a frame") as u64, 1);
    let report = checked(&fixture.disk).expect("no damage");
    assert!(report.tail == Tail::Unknown && report.is_clean());
    assert_eq!(report.records.pending, 3);
    let text = report.to_string();
    assert!(text.contains("it is unknown if it was acknowledged"), "{text}");
    assert!(text.contains("verdict         UNKNOWN at the end"), "{text}");
}

#[test]
fn damage_is_named_with_file_and_byte() {
    let fixture = fixture();
    let check = |name: &str, at: u64, file: &str, offset: u64| {
        fixture.disk.corrupt(name, at, 0x10);
        let report = checked(&fixture.disk).expect("it is checked to the end");
        assert!(!report.is_clean());
        let is_it = |finding: &Finding| finding.file == file && finding.offset == offset;
        assert!(report.findings.iter().any(is_it), "byte {at} of {name}: {report}");
        fixture.disk.corrupt(name, at, 0x10);
    };
    check("MANIFEST", 3, "MANIFEST", 0);
    check("MANIFEST", 60, "MANIFEST", 0);
    check("MANIFEST.copy", 60, "MANIFEST.copy", 0);
    check(FIRST, 20, FIRST, 0);
    check(FIRST, 64 + 40, FIRST, 64);
    check(&SEGMENTS.name(2), 40, &SEGMENTS.name(2), 0);
    assert!(checked(&fixture.disk).expect("whole").is_clean(), "all of it was put right again");
}

#[test]
fn the_live_percentage_is_unknown_behind_damage() {
    let shown = |records, live| {
        let files = FilesOf { kind: "segments", count: 1, bytes: 1, records, live };
        Report { files: vec![files], ..Report::default() }.to_string()
    };
    for (records, live, share) in [
        (202, 201, "201 (99 %)"),
        (201, 201, "201 (100 %)"),
        (1, 201, "201 (? %)"),
        (0, 0, "-"),
        (0, 201, "201 (? %)"),
    ] {
        let text = shown(records, live);
        let row = text.lines().find(|line| line.starts_with("segments")).expect("a row");
        assert!(row.ends_with(&format!("  {share}")), "{records}, {live}: {row}");
    }
}

#[test]
fn a_directory_without_a_store_is_named_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("letter.txt"), "to somebody").expect("written");
    let error = check_unchanged(dir.path()).expect_err("no store");
    assert!(matches!(error, OpenError::NoStore(_)), "{error}");
    assert!(error.to_string().contains("holds no Duly store"), "{error}");

    let error = check(&dir.path().join("missing"), &mut |_| {}).expect_err("no directory");
    assert!(matches!(&error, OpenError::Disk(error) if error.is_not_found()), "{error}");
    assert!(!dir.path().join("missing").exists());

    fs::write(dir.path().join("MANIFEST"), "a manifest of goods").expect("written");
    let report = check_unchanged(dir.path()).expect("a foreign manifest");
    assert!(!report.is_clean() && report.findings[0].file == "MANIFEST", "{report}");
}

#[test]
fn a_store_in_use_is_not_checked() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = make_store(dir.path());
    let error = check(dir.path(), &mut |_| {}).expect_err("in use");
    let locked = matches!(error, OpenError::Disk(crate::disk::Error::Locked { .. }));
    assert!(locked, "{error}");
    drop(store);
    assert!(check_unchanged(dir.path()).is_ok());
}

#[test]
fn a_newer_format_is_named() {
    let fixture = fixture();
    let newer = Manifest { version: 7, reader_min: 6, ..fixture.manifest };
    newer.write(&fixture.disk).expect("written");
    let error = checked(&fixture.disk).expect_err("newer");
    assert!(matches!(error, OpenError::Newer { found: 7, known: 1, features: 0 }), "{error}");
}

#[test]
fn segments_of_another_store_are_named() {
    let fixture = fixture();
    let other = Manifest { store: 1, ..fixture.manifest };
    other.write(&fixture.disk).expect("written");
    let report = checked(&fixture.disk).expect("it is checked to the end");
    assert!(report.to_string().contains("belongs to another store"), "{report}");
}

/// Every file of a data directory and of a backup that a start or a restore reads is known to the check: a damaged one is
/// a finding, and so is a missing one unless nothing needs it.
#[test]
fn p1_the_check_knows_every_file() {
    let root = tempfile::tempdir().expect("a directory");
    let (data, backup) = (root.path().join("data"), root.path().join("backup"));
    let store = make_store(&data);
    let key = crate::access_file::tests::put(1);
    let changed = store.change_access(
        0,
        key,
        crate::access_file::ChangeOrigin::Call(duly_core::access::AdminLogin::ANY),
    );
    changed.now_or_never().expect("at once").expect("written");
    let entry = duly_store::AuditEntry {
        id: duly_store::AuditId::new(SystemClock.now(), 1),
        line: "{}".to_owned(),
    };
    store.append_audit(vec![entry]).now_or_never().expect("at once").expect("written");
    store.backup(&backup, &mut |_| {}).expect("copied");
    store.close();
    drop(store);

    // A backup has links of the same files.
    for (path, bytes) in contents(&backup) {
        fs::remove_file(&path).expect("removed");
        fs::write(&path, bytes).expect("written");
    }
    for directory in [&data, &backup] {
        let report = check_unchanged(directory).expect("checked");
        assert!(report.findings.is_empty() && report.left_overs.is_empty(), "{report:?}");
        let mut names = Vec::new();
        for (path, bytes) in contents(directory) {
            let name = path.strip_prefix(directory.to_str().expect("text")).expect("below it");
            let name = name.trim_start_matches('/').to_owned();
            let is_found = |what: &str| match check(directory, &mut |_| {}) {
                Ok(report) => assert!(!report.findings.is_empty(), "{name} {what}: {report:?}"),
                Err(error) => panic!("{name} {what}: {error}"),
            };
            names.push(name.clone());
            // No start reads the content of these files.
            if matches!(name.as_str(), "LOCK" | "RESTORED") || name.ends_with("spare") {
                continue;
            }
            let mut damaged = bytes.clone();
            damaged[20] ^= 1;
            fs::write(&path, damaged).expect("written");
            is_found("is damaged");
            fs::remove_file(&path).expect("removed");
            // Without a checkpoint the journal is read from its beginning, as in a store that has none yet. The other
            // files are written again from their copies, and the audit log begins again.
            let is_whole_without = name.starts_with("checkpoints/")
                || ["MANIFEST", "MANIFEST.copy", "KEYS", "KEYS.copy", "AUDIT", "AUDIT.copy"]
                    .contains(&&*name);
            if !is_whole_without {
                is_found("is missing");
            }
            if name.ends_with(".copy") {
                let report = check(directory, &mut |_| {}).expect("checked");
                let noted: Vec<_> = report.left_overs.iter().map(|it| &it.name).collect();
                assert_eq!((report.is_clean(), noted), (true, vec![&name]));
                assert!(report.to_string().contains(&format!("missing copy    {name}: ")));
            }
            fs::write(&path, bytes).expect("written");
        }
        for name in ["MANIFEST", "MANIFEST.copy", "KEYS", "KEYS.copy"] {
            assert!(names.iter().any(|it| it == name), "{name} is not in {names:?}");
        }
        // Both of a pair.
        for pair in [["MANIFEST", "MANIFEST.copy"], ["KEYS", "KEYS.copy"]] {
            let kept = pair.map(|name| fs::read(directory.join(name)).expect("read"));
            pair.iter().for_each(|name| fs::remove_file(directory.join(name)).expect("removed"));
            let report = check(directory, &mut |_| {});
            assert!(report.is_err() || !report.expect("checked").findings.is_empty(), "{pair:?}");
            for (name, bytes) in pair.into_iter().zip(kept) {
                fs::write(directory.join(name), bytes).expect("written");
            }
        }
    }
}
