//! Golden directories: data directories of released formats must open, and give exactly the listed
//! contents.
//!
//! `tests/golden/vN-fM/` is a data directory of format N with the feature bits M (`vN`: with none). The
//! text file beside it lists everything in it. A directory is written once, by
//!
//! ```text
//! DULY_WRITE_GOLDEN=1 cargo test -p duly-store-embedded --test it golden
//! ```
//!
//! and never again after its format was released: when a test here fails, the reader is wrong. A new
//! format gets a directory of its own, see `docs/internals/disk-format.md`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use duly_core::{Millis, env::Clock};
use duly_store::{Namespaces, conformance::ManualClock, namespaces::IDLE_AFTER};
use duly_store_embedded::{
    EmbeddedStore, FEATURES, FORMAT_VERSION, Options, Tail, check::check, disk::RealDisk,
};

use crate::{harness::options, steps::wait};

mod complete;
mod listing;
mod script;

/// The formats that this build reads.
const READABLE: &[&str] = &["v1", "v1-f1", "v1-f3", "v1-fb"];
/// Time from the last write to the opening of the directories.
const LATER: Millis = Millis::from_secs(60);

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Returns version and feature bits.
fn present() -> String {
    format!("v{FORMAT_VERSION}-f{FEATURES:x}")
}

fn open(path: &Path, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    let options = Options { segment_bytes: 64 * 1024, ..options(seed) };
    let disk = RealDisk::open_or_create(path).expect("a directory");
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    EmbeddedStore::open_inline(Arc::new(disk), options, clock).expect("the store opens")
}

/// Returns the clock for the opening of a golden directory.
fn clock_at_opening() -> ManualClock {
    let clock = ManualClock::default();
    clock.advance(script::LASTS);
    clock.advance(LATER);
    clock
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("the golden directory is committed") {
        let entry = entry.expect("listed");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Returns the report and the contents of a copy of a golden directory, as text.
fn list_copy(name: &str) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    copy(&golden(name), dir.path());
    let mut text = String::new();
    let report = check(dir.path(), &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean(), "{name}: {report}");
    let records = report.records;
    text += &format!(
        "format {} epoch {} frames {} torn {}\n",
        report.format,
        report.epoch,
        report.frames,
        report.tail == Tail::Unknown
    );
    for files in &report.files {
        text += &format!("{} {} with {} records\n", files.count, files.kind, files.records);
    }
    text += &format!(
        "records pending {} dead {} ended {} leases {} other {}\n\n",
        records.pending, records.dead, records.ended, records.leases, records.other
    );
    let clock = clock_at_opening();
    let store = open(dir.path(), &clock, 2);
    let listed = listing::list(&store);
    drop(store);
    // The files that this build wrote at the start read back as well.
    let store = open(dir.path(), &clock, 3);
    assert_eq!(listing::list(&store), listed, "{name} after another restart");
    text + &listed
}

fn write_present() {
    let (dir, name) = (golden(&present()), present());
    if dir.exists() {
        fs::remove_dir_all(&dir).expect("removed");
    }
    let clock = ManualClock::default();
    let store = open(&dir, &clock, 1);
    script::run(&store, &clock, &dir);
    // Its journal ends with a closing frame.
    clock.advance(Millis::from_secs(2));
    wait(store.list_namespaces(None, 1)).expect("it is answered");
    drop(store);
    // The file names a process, and a start makes it again.
    fs::remove_file(dir.join("LOCK")).expect("removed");
    fs::write(golden(&format!("{name}.txt")), list_copy(&name)).expect("written");
}

#[test]
fn every_released_format_opens_with_its_listed_contents() {
    if std::env::var_os("DULY_WRITE_GOLDEN").is_some() {
        write_present();
    }
    for name in READABLE {
        let listed = fs::read_to_string(golden(&format!("{name}.txt"))).expect("it is committed");
        let found = list_copy(name);
        let differs = found.lines().zip(listed.lines()).find(|(found, listed)| found != listed);
        assert!(found == listed, "{name} differs first at {differs:?}, now:\n{found}");
    }
    assert!(golden(&present()).join("MANIFEST").exists(), "{} is missing", present());
}

#[test]
fn a_golden_directory_keeps_which_namespaces_are_implicit() {
    for (name, implicit) in [("v1-f1", &[][..]), ("v1-f3", &["implicit-and-empty"])] {
        let dir = tempfile::tempdir().expect("a directory");
        copy(&golden(name), dir.path());
        let clock = clock_at_opening();
        let store = open(dir.path(), &clock, 2);
        let pass = || wait(store.remove_idle(None, Arc::default())).expect("a page").removed;
        assert_eq!(pass(), [], "{name}: a pass notes what is idle");
        clock.advance(IDLE_AFTER);
        let removed = pass();
        let removed: Vec<&str> = removed.iter().map(|namespace| namespace.as_str()).collect();
        assert_eq!(removed, implicit, "{name}");
    }
}
