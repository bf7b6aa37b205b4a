//! Backups: a restored store equals the source at one moment, despite changes meanwhile. Nothing
//! of it fires before an operator resumes it.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use duly_core::{Settings, State, Timer, TimerId};
use duly_store::{
    Operation, Outcome, SettleVerdict, Store, conformance::ManualClock, namespaces::Activity,
};
use duly_store_embedded::{
    EmbeddedStore, Options, Tail,
    backup::{BackupError, BackupReport, restore},
    check::check,
    disk::{Disk, RealDisk, SimDisk},
};
use tempfile::TempDir;

use crate::{
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::open,
    steps::{
        Step, Tokens, apply, cancel, claim, dead_letter_verdict, get, perform, schedule, settle,
    },
    twins::small,
    workload::{ScriptStep, forgetful, script, settings},
};

/// Options with a checkpoint every few records, and immediate rewriting of old segments.
pub(crate) fn busy(seed: u64) -> Options {
    Options { checkpoint_bytes: 16 << 10, young_bytes: 1, ..small(seed) }
}

pub(crate) fn opened(path: &Path, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    let disk = Arc::new(RealDisk::open_or_create(path).expect("a directory"));
    open(Shell::Inline, disk, clock, busy(seed)).unwrap_or_else(|error| panic!("opens: {error}"))
}

/// Makes a store with a little of everything.
pub(crate) fn worked(disk: Arc<dyn Disk>, clock: &ManualClock) -> EmbeddedStore {
    worked_by(Shell::Inline, disk, clock)
}

/// Makes a store with a little of everything, by either shell.
pub(crate) fn worked_by(shell: Shell, disk: Arc<dyn Disk>, clock: &ManualClock) -> EmbeddedStore {
    let store = open(shell, disk, clock, busy(1)).expect("it opens");
    let mut tokens = Tokens::new();
    for line in script() {
        match line {
            ScriptStep::Take(step) => drop(perform(&store, &step, &mut tokens).expect("taken")),
            ScriptStep::Advance(ms) => clock.advance(duly_core::Millis::from_ms(ms)),
        }
    }
    fill(&store, &mut tokens);
    store
}

/// Makes pending timers, tombstones, dead letters and leases. Adds enough behind them that all except
/// the leases are rewritten into sorted runs.
fn fill(store: &EmbeddedStore, tokens: &mut Tokens) {
    perform(store, &Step::Put("rich", Box::new(settings())), tokens).expect("taken");
    let ids: Vec<String> = (0..24).map(|number| format!("rich-{number}")).collect();
    let due = |id: &String| schedule(id, if id.ends_with('3') { 0 } else { 7_000_000 }, 1_000);
    apply(store, "rich", ids.iter().map(due).collect()).expect("taken");
    let firings = claim(store, "rich", 9).expect("claimed");
    assert_eq!(firings.len(), 3, "rich-3, rich-13, rich-23");
    for (firing, verdict) in
        firings.iter().zip([dead_letter_verdict(), dead_letter_verdict(), SettleVerdict::Ack])
    {
        settle(store, "rich", &firing.token, verdict).expect("settled");
    }
    let ended = ids.iter().filter(|id| id.ends_with('5'));
    apply(store, "rich", ended.map(|id| cancel(id)).collect()).expect("taken");
    perform(store, &Step::Put("busy", Box::new(forgetful())), tokens).expect("taken");
    for round in 0..40 {
        let id = format!("filler-{round}");
        apply(store, "busy", vec![schedule(&id, 9_000, 6_000)]).expect("taken");
        apply(store, "busy", vec![cancel(&id)]).expect("taken");
    }
    apply(store, "rich", vec![schedule("leased", 0, 10)]).expect("taken");
    assert_eq!(claim(store, "rich", 9).expect("claimed").len(), 1);
}

/// Returns the contents of a store, without the parts that a start and a pause change.
pub(crate) fn at_rest(store: &dyn Store) -> Snapshot {
    let mut snapshot = Snapshot::of(store);
    for (namespace, _) in snapshot.namespaces.values_mut() {
        namespace.paused = false;
        namespace.updated_at = namespace.created_at;
    }
    snapshot
}

fn back_up(store: &EmbeddedStore, target: &Path) -> BackupReport {
    store.backup(target, &mut |_| {}).unwrap_or_else(|error| panic!("a backup: {error}"))
}

/// Restores a backup and opens it, with everything still paused.
pub(crate) fn restored(backup: &Path, clock: &ManualClock) -> (TempDir, EmbeddedStore) {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    restore(backup, &data, &mut |_| {}).unwrap_or_else(|error| panic!("restored: {error}"));
    let report = check(&data, &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean(), "{report}");
    let store = opened(&data, clock, 77);
    let names = Snapshot::of(&store).namespaces;
    assert!(names.values().all(|(namespace, _)| namespace.paused), "all are paused: {names:?}");
    (dir, store)
}

/// Makes a disk, in this directory if it is a real one.
type Source = fn(&Path) -> Arc<dyn Disk>;

#[test]
fn p10_a_restored_store_is_the_source_as_it_was_at_the_backup() {
    let sources: [Source; 2] = [
        |path| Arc::new(RealDisk::open_or_create(path.join("data")).expect("a directory")),
        |_| Arc::new(SimDisk::new(1)),
    ];
    for source in sources {
        let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
        let store = worked(source(dir.path()), &clock);
        let target = dir.path().join("backups/first");
        let mut heard = Vec::new();
        let report = store.backup(&target, &mut |progress| heard.push(progress)).expect("copied");
        let then = at_rest(&store);
        assert!(report.files > 2 && report.lsn.is_some_and(|lsn| lsn > 10), "{report:?}");
        let last = heard.last().expect("it tells how far it is");
        assert_eq!((last.bytes_done, last.bytes_total), (report.bytes, report.bytes));
        // Later changes are not in it, although files are shared.
        for round in 0..30 {
            let id = format!("later-{round}");
            apply(&store, "busy", vec![schedule(&id, 9_000, 6_000)]).expect("taken");
            apply(&store, "busy", vec![cancel(&id)]).expect("taken");
        }
        let checked = check(&target, &mut |_| {}).expect("a backup is a store");
        assert!(checked.is_clean(), "{checked}");
        let (_dir, copy) = restored(&target, &clock);
        // Leases of nodes end with the process, here and in any restart.
        let found = at_rest(&copy);
        for (key, view) in &then.timers {
            if view.state != State::InFlight {
                assert_eq!(found.timers.get(key), Some(view), "{key:?}");
            }
        }
        assert_eq!(found.timers.keys().collect::<Vec<_>>(), then.timers.keys().collect::<Vec<_>>());
        assert_eq!(found.namespaces, then.namespaces);
    }
}

#[test]
fn p11_a_backup_keeps_every_field() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let store = opened(&dir.path().join("data"), &clock, 1);
    let put = |settings| Step::Put("shop", Box::new(settings));
    perform(&store, &put(Settings::default()), &mut Tokens::new()).expect("taken");
    let moved = Timer { last_settled: None, ..Timer::every_field() };
    let id = |text| TimerId::new(text).expect("an id");
    let live = Timer { id: id("live"), dead_letter: None, ..moved.clone() };
    let dead_letter = Timer { id: id("dead"), next_attempt_at: None, ..moved };
    let import = |timer: &Timer| Operation::Import { timer: Box::new(timer.clone()) };
    apply(&store, "shop", vec![import(&live), import(&dead_letter)]).expect("taken");
    perform(&store, &put(Settings::every_field()), &mut Tokens::new()).expect("taken");
    let target = dir.path().join("backup");
    back_up(&store, &target);
    let (_data, copy) = restored(&target, &clock);
    for timer in [&live, &dead_letter] {
        let view = get(&copy, "shop", timer.id.as_str()).expect("it is there");
        assert_eq!(view.timer(), Some(timer));
    }
    assert_eq!(*Snapshot::of(&copy).namespaces["shop"].0.settings, Settings::every_field());
}

#[test]
fn p2_a_restored_store_fires_nothing_until_resumed() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let store = opened(&dir.path().join("data"), &clock, 1);
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("taken");
    apply(&store, "shop", vec![schedule("overdue", 0, 10)]).expect("taken");
    let target = dir.path().join("backup");
    back_up(&store, &target);
    assert_eq!(claim(&store, "shop", 9).expect("the source goes on").len(), 1);

    let (data, copy) = restored(&target, &clock);
    assert_eq!(copy.report().paused, 1);
    assert_eq!(claim(&copy, "shop", 9).expect("claims are answered"), []);
    drop(copy);
    // The pause is durable, and the next start adds none.
    let copy = opened(&data.path().join("data"), &clock, 78);
    assert_eq!(copy.report().paused, 0);
    assert_eq!(claim(&copy, "shop", 9).expect("claims are answered"), []);
    let resume = Step::Activity("shop", Activity::Running);
    perform(&copy, &resume, &mut Tokens::new()).expect("taken");
    assert_eq!(claim(&copy, "shop", 9).expect("claims are answered").len(), 1);
    drop(copy);
    let copy = opened(&data.path().join("data"), &clock, 79);
    assert_eq!(copy.report().paused, 0, "what was resumed stays so");
    assert!(!Snapshot::of(&copy).namespaces["shop"].0.paused);
}

#[test]
fn a_backup_opened_in_place_is_paused() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let data = dir.path().join("data");
    let source: Arc<dyn Disk> = Arc::new(RealDisk::open_or_create(&data).expect("a directory"));
    let store = worked(source, &clock);
    let target = dir.path().join("backup");
    back_up(&store, &target);
    let then = Snapshot::of(&store);
    let copy = opened(&target, &clock, 5);
    assert!(copy.report().paused > 0);
    for round in 0..60 {
        let id = format!("there-{round}");
        apply(&copy, "busy", vec![schedule(&id, 9_000, 6_000)]).expect("taken");
        apply(&copy, "busy", vec![cancel(&id)]).expect("taken");
    }
    assert_eq!(Snapshot::of(&store), then);
    drop(store);
    let report = check(&data, &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_target_that_is_in_use_is_refused_and_left_alone() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let data = dir.path().join("data");
    let store = opened(&data, &clock, 1);
    let full = dir.path().join("full");
    fs::create_dir(&full).expect("made");
    fs::write(full.join("letter.txt"), "to somebody").expect("written");
    let refused = |path: &Path| store.backup(path, &mut |_| {}).expect_err("refused");
    assert!(matches!(refused(&full), BackupError::NotEmpty(_)));
    assert_eq!(fs::read_dir(&full).expect("listed").count(), 1);
    assert!(matches!(refused(&data), BackupError::NotEmpty(_)));
    assert!(matches!(refused(&data.join("backups/x")), BackupError::Inside(_)));
    assert!(matches!(refused(&full.join("letter.txt")), BackupError::Target { .. }));
    let backup = dir.path().join("backup");
    back_up(&store, &backup);
    assert!(matches!(refused(&backup), BackupError::NotEmpty(_)), "not over an older one");
    let refused = restore(&backup, &full, &mut |_| {}).expect_err("refused");
    assert!(matches!(refused, BackupError::NotEmpty(_)), "{refused}");
    let none = restore(&full, &dir.path().join("new"), &mut |_| {}).expect_err("no store");
    assert!(none.to_string().contains("holds no Duly store"), "{none}");
    assert!(!dir.path().join("new").exists());
}

#[test]
fn a_failed_backup_leaves_no_files_and_no_pins() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let disk = SimDisk::new(1);
    let store = worked(Arc::new(disk.clone()), &clock);
    let then = Snapshot::of(&store);
    for (target, is_there) in [("new", false), ("empty", true)] {
        let target = dir.path().join(target);
        if is_there {
            fs::create_dir(&target).expect("made");
        }
        // A reader that sees the last file half copied takes the disk down.
        let sim = disk.clone();
        let mut downed = None;
        let mut take_down = |progress: duly_store_embedded::backup::BackupProgress| {
            if downed.is_none() && progress.bytes_done > progress.bytes_total / 2 {
                downed = Some(sim.kill());
            }
        };
        let failed = store.backup(&target, &mut take_down);
        if is_there {
            // The disk has been down since the first attempt.
            assert!(failed.is_err());
        } else {
            let named = failed.expect_err("the disk is gone").to_string();
            assert!(named.contains("simulated disk"), "{named}");
            let left = downed.expect("it got to the middle");
            let again = open(Shell::Inline, Arc::new(left), &clock, busy(2)).expect("it opens");
            assert_eq!(Snapshot::of(&again).timers, then.timers, "the source is as it was");
        }
        let left = fs::read_dir(&target).map(Iterator::count).unwrap_or(0);
        assert_eq!((left, target.exists()), (0, is_there), "{}", target.display());
    }
}

/// Backups are kept for a long time: damage to the last frame is found, and not cut off at a restore.
#[test]
fn p1_the_last_frame_of_a_backup_is_protected() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let store = worked(Arc::new(SimDisk::new(1)), &clock);
    let target = dir.path().join("backup");
    back_up(&store, &target);
    let report = check(&target, &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean() && report.tail == Tail::Closed, "{report}");
    let segments = fs::read_dir(target.join("journal")).expect("listed");
    let last = segments.map(|entry| entry.expect("listed").path()).max().expect("a segment");
    let bytes = fs::read(&last).expect("read");
    let (mut frames, mut at) = (Vec::new(), 64);
    while bytes[at..].starts_with(b"DLYf") {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes"));
        frames.push((at, length));
        at += 48 + length as usize;
    }
    let (last_two, closing) = (&frames[frames.len() - 2..], frames[frames.len() - 1]);
    assert_eq!(closing.1, 0, "it ends with a closing frame");
    assert!(bytes[at..].iter().all(|byte| *byte == 0), "and nothing behind it");
    let mut damaged = bytes.clone();
    damaged[last_two[0].0 + 20] ^= 1;
    fs::write(&last, &damaged).expect("written");
    let report = check(&target, &mut |_| {}).expect("it can be checked");
    assert!(!report.is_clean(), "{report}");
}

/// A backup that was cut behind its checkpoint looks like a store after a crash.
#[test]
fn p1_a_backup_that_is_cut_is_refused() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let (data, cut) = (dir.path().join("data"), dir.path().join("cut"));
    let store = opened(&data, &clock, 1);
    fill(&store, &mut Tokens::new());
    let copied = Command::new("cp").arg("-r").args([&data, &cut]).status().expect("cp starts");
    assert!(copied.success());
    let report = check(&cut, &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean() && report.tail != Tail::Closed, "{report}");
    for (mark, is_named) in [("a mark of no release", true), ("", false)] {
        fs::write(cut.join("RESTORED"), mark).expect("written");
        let report = check(&cut, &mut |_| {}).expect("it can be checked");
        assert!(report.to_string().contains("lacks the closing frame"), "{report}");
        assert_eq!(report.to_string().contains("no release writes this"), is_named, "{report}");
    }
    let refused = restore(&cut, &dir.path().join("new"), &mut |_| {}).expect_err("refused");
    assert!(refused.to_string().contains("lacks the closing frame"), "{refused}");
}

#[test]
fn an_interrupted_backup_is_not_a_store() {
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let store = opened(&dir.path().join("data"), &clock, 1);
    let target = dir.path().join("backup");
    back_up(&store, &target);
    // The manifest is written last.
    for name in ["MANIFEST", "MANIFEST.copy"] {
        fs::remove_file(target.join(name)).expect("removed");
    }
    let disk = Arc::new(RealDisk::open_or_create(&target).expect("a directory"));
    let error = open(Shell::Inline, disk, &clock, busy(2)).expect_err("half a backup");
    assert!(error.to_string().contains("the manifest is missing"), "{error}");
    let refused = restore(&target, &dir.path().join("new"), &mut |_| {}).expect_err("refused");
    assert!(refused.to_string().contains("the manifest is missing"), "{refused}");
    let refused = store.backup(&target, &mut |_| {}).expect_err("refused");
    assert!(matches!(refused, BackupError::NotEmpty(_)), "{refused}");
}

/// Sets the flag when it is dropped.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ingest, cancels, rolls, checkpoints and rewriting continue in threads while backups are made. A
/// backup has everything that was acknowledged before it began.
#[test]
fn p1_p4_a_backup_under_load_has_every_acknowledged_change() {
    // The store grows in each round, in files of 64 kB that are all open.
    let rounds = number("DULY_CRASH_SEEDS", 6).min(60);
    let _repeat = Repeat::new("backup", &[("DULY_CRASH_SEEDS", rounds)]).with_threads();
    let (dir, clock) = (tempfile::tempdir().expect("a directory"), ManualClock::default());
    let disk = Arc::new(RealDisk::open_or_create(dir.path().join("data")).expect("a directory"));
    let store = open(Shell::Threads, disk, &clock, busy(1)).expect("it opens");
    let put = Step::Put("shop", Box::new(settings()));
    perform(&store, &put, &mut Tokens::new()).expect("taken");
    let over = AtomicBool::new(false);
    let acknowledged = parking_lot::Mutex::new((Vec::new(), Vec::new()));
    thread::scope(|scope| {
        for caller in 0..2 {
            let (store, over, acknowledged) = (&store, &over, &acknowledged);
            scope.spawn(move || {
                for i in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let id = format!("{caller}-{i}");
                    let made = apply(store, "shop", vec![schedule(&id, 9_000, 2_000)]);
                    assert!(matches!(made.as_deref(), Ok([Outcome::Created(_)])), "{made:?}");
                    if i % 3 == 0 {
                        apply(store, "shop", vec![cancel(&id)]).expect("taken");
                        acknowledged.lock().1.push(id);
                    } else {
                        acknowledged.lock().0.push(id);
                    }
                }
            });
        }
        let _over = SetAtEnd(&over);
        for round in 0..rounds {
            let (kept, cancelled) = acknowledged.lock().clone();
            let target = dir.path().join(format!("backup-{round}"));
            back_up(&store, &target);
            let (_data, copy) = restored(&target, &clock);
            for id in &kept {
                let found = get(&copy, "shop", id).map(|view| view.state);
                assert_eq!(found, Some(State::Scheduled), "round {round}: {id}");
            }
            for id in &cancelled {
                let found = get(&copy, "shop", id).map(|view| view.state);
                assert_eq!(found, Some(State::Cancelled), "round {round}: {id}");
            }
        }
    });
    store.close();
    drop(store);
    let report = check(&dir.path().join("data"), &mut |_| {}).expect("it can be checked");
    assert!(report.is_clean(), "{report}");
    // Segments that a backup shares were not overwritten.
    for round in 0..rounds {
        let target = dir.path().join(format!("backup-{round}"));
        let report = check(&target, &mut |_| {}).expect("it can be checked");
        assert!(report.is_clean(), "backup {round}: {report}");
    }
}
