//! Every file operation hung for 30 s: it gives no error. The health of the store says that it waits, or everything goes
//! on. When the operation ends, everything is there.
//!
//! The operations and the files are those that a course of a store comes by. The table in
//! `docs/operate/troubleshooting.md` says what stops.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use duly_core::{
    Millis, State, Timestamp,
    access::{Actions, AdminLogin, ApiKey, KeyId, NamespacePattern, PresentedKey},
    env::Clock as _,
};
use duly_store::{
    AccessChange, AccessStore, AuditEntry, AuditId, AuditStore, ChangeOrigin, Outcome,
    SettleVerdict, Store as _, conformance::ManualClock,
};
use duly_store_embedded::{
    EmbeddedStore,
    disk::{Operation, SimDisk},
};
use parking_lot::Mutex;

use crate::{
    backup::worked,
    every_file::tempdir,
    faulty::{CALLER, FaultyDisk, PATIENCE, Place},
    harness::Shell,
    stage::open,
    steps::{apply, cancel, claim, get, schedule, settle, wait},
    twins::{busy, copy},
};

/// Time that an operation hangs, by the clock of the store.
const HANG: Millis = Millis::from_secs(30);
/// Time after which work in the background hangs.
const BACKGROUND: Millis = Millis::from_secs(120);
/// Least rounds of a course: mostly enough for segments, checkpoints, sorted runs and holes.
const ROUNDS: usize = 24;
/// Rounds after which an operation that came in such a course is not waited for any more.
const ROUNDS_MAX: usize = 200;
/// Pause between two rounds, for the work in the background.
const PAUSE: Duration = Duration::from_millis(2);

/// Adds a key.
pub(crate) fn add_key(store: &EmbeddedStore, digit: u8) -> duly_store::Result<()> {
    let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
    let rights = (Actions::all(), vec![NamespacePattern::all()]);
    let created = (Timestamp::MIN, "offline".to_owned());
    let put = AccessChange::Put(Box::new(ApiKey::new(&presented, "k".to_owned(), rights, created)));
    let seen = wait(store.read_access(u64::MAX)).expect("keys are in memory");
    let seen = seen.map_or(0, |records| records.version);
    wait(store.change_access(seen, put, ChangeOrigin::Call(AdminLogin::ANY))).map(drop)
}

/// Adds an entry to the audit log.
pub(crate) fn add_entry(
    store: &EmbeddedStore,
    clock: &ManualClock,
    number: u8,
) -> duly_store::Result<()> {
    let id = AuditId::new(clock.now(), u64::from(number));
    let entry = AuditEntry { id, line: format!("{{\"number\":{number}}}") };
    wait(store.append_audit(vec![entry])).map(drop)
}

/// The part of a course in which an operation hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Work,
}

/// A store at work.
struct Course {
    disk: FaultyDisk,
    clock: ManualClock,
    store: OnceLock<EmbeddedStore>,
    acknowledged: Mutex<BTreeSet<String>>,
}

/// Ends the hang, also after a failed assertion: the threads of the store wait for it.
struct Released<'a>(&'a FaultyDisk);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// What goes on while an operation hangs, and what says that it does not.
#[derive(Debug, Default)]
struct Seen {
    /// A change was acknowledged.
    is_acknowledged: bool,
    /// The health after 30 s.
    stalls: Vec<String>,
    /// The warnings after two minutes more.
    warnings: Vec<String>,
}

impl Course {
    fn new(files: &SimDisk, clock: &ManualClock) -> Self {
        Self {
            disk: FaultyDisk::new(copy(files, 1)),
            clock: ManualClock::new(clock.now()),
            store: OnceLock::new(),
            acknowledged: Mutex::default(),
        }
    }

    /// Opens the store and works, until something hangs. `opened` is called in between.
    fn run(&self, opened: impl FnOnce(), is_over: impl Fn() -> bool) {
        let disk = Arc::new(self.disk.clone());
        let store = open(Shell::Threads, disk, &self.clock, busy(1)).expect("it opens");
        let store = self.store.get_or_init(|| store);
        opened();
        for round in 0..ROUNDS_MAX {
            if self.disk.hangs() || (round >= ROUNDS && is_over()) {
                break;
            }
            self.round(store, round);
            if round % ROUNDS == 1 {
                self.change_others(store, round);
            }
        }
    }

    /// Changes the keys and the audit log, and makes a backup.
    fn change_others(&self, store: &EmbeddedStore, round: usize) {
        let digit = u8::try_from(round % 250).expect("a small number") + 2;
        add_key(store, digit).expect("taken");
        add_entry(store, &self.clock, digit).expect("taken");
        let directory = tempdir();
        store.backup(&directory.path().join("backup"), &mut |_| {}).expect("a backup");
    }

    fn round(&self, store: &EmbeddedStore, round: usize) {
        let ids: Vec<String> = (0..14).map(|number| format!("t{round}-{number}")).collect();
        let made = ids.iter().map(|id| schedule(id, 90_000_000, 6_000)).collect();
        let outcomes = apply(store, "rich", made).expect("taken");
        let is_made = |outcome: &Outcome| matches!(outcome, Outcome::Created(_));
        assert!(outcomes.iter().all(is_made), "{outcomes:?}");
        // Most of them end later, in the sorted runs.
        let gone = |id: &String| (!id.ends_with('7')).then(|| cancel(id));
        self.acknowledged.lock().extend(ids.iter().filter(|id| gone(id).is_none()).cloned());
        let before = ids
            .iter()
            .map(|id| id.replace(&format!("t{round}-"), &format!("t{}-", round.saturating_sub(3))));
        apply(store, "rich", before.filter_map(|id| gone(&id)).collect()).expect("taken");
        apply(store, "rich", vec![schedule(&format!("due{round}"), 0, 10)]).expect("taken");
        for firing in claim(store, "rich", 1).expect("claimed") {
            settle(store, "rich", &firing.token, SettleVerdict::Ack).expect("settled");
        }
        self.clock.advance(Millis::from_ms(2_100));
        store.health();
        thread::sleep(PAUSE);
    }

    /// Returns what callers and operators see while the operation hangs.
    fn observe<'scope>(&'scope self, scope: &'scope thread::Scope<'scope, '_>) -> Seen {
        // A start serves no call yet.
        let Some(store) = self.store.get() else { return Seen::default() };
        let (reply, answer) = mpsc::channel();
        scope.spawn(move || {
            let change = vec![schedule("probe", 90_000_000, 10)];
            drop(reply.send(apply(store, "rich", change)));
        });
        self.clock.advance(HANG);
        let mut seen = Seen::default();
        let deadline = Instant::now() + PATIENCE;
        // A change of the keys that waits delays no timer.
        let is_served = |stalls: &[String]| stalls.iter().all(|stall| stall.contains("the keys"));
        while !seen.is_acknowledged && is_served(&seen.stalls) {
            assert!(Instant::now() < deadline, "a change waits, and nothing says so");
            seen.is_acknowledged = answer.recv_timeout(Duration::from_millis(20)).is_ok();
            let health = store.health();
            seen.stalls = health.stalls.into_iter().chain(health.keys_stall).collect();
            // A thread may begin to wait for the one that hangs only now.
            self.clock.advance(Millis::from_secs(1));
        }
        if seen.stalls.iter().any(|stall| stall.contains("a sync of the journal")) {
            let known = self.acknowledged.lock().first().cloned();
            known.iter().for_each(|id| assert!(get(store, "rich", id).is_some(), "{id} is read"));
            claim(store, "rich", 1).expect("firings are claimed");
        }
        wait(store.read_access(u64::MAX)).expect("keys are read from memory");
        wait(store.read_audit(None, 1)).expect("the audit log is read from memory");
        self.clock.advance(BACKGROUND);
        seen.warnings = store.health().warnings;
        seen
    }

    /// Checks that everything is there.
    fn check(self) {
        let disk = self.disk.sim.kill();
        drop(self.store);
        let disk = Arc::new(disk);
        let store = open(Shell::Inline, disk, &self.clock, busy(2)).expect("it opens again");
        for id in self.acknowledged.into_inner() {
            let state = get(&store, "rich", &id).map(|view| view.state);
            assert_eq!(state, Some(State::Scheduled), "{id}");
        }
    }
}

/// Hangs an operation. Returns `None` if the course did not come by it.
fn hang((files, clock): &(SimDisk, ManualClock), phase: Phase, place: &Place) -> Option<Seen> {
    let course = Course::new(files, clock);
    let arm = |when| {
        if when == phase {
            course.disk.hang(place);
        }
    };
    let seen = thread::scope(|scope| {
        let released = Released(&course.disk);
        arm(Phase::Start);
        let running = scope.spawn(|| course.run(|| arm(Phase::Work), || false));
        while !course.disk.hangs() && !running.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let seen = course.disk.hangs().then(|| course.observe(scope));
        drop(released);
        running.join().expect("the course goes on");
        seen
    });
    course.check();
    seen
}

/// Returns the directory that every course begins with.
fn files() -> (SimDisk, ManualClock) {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = worked(Arc::new(disk.clone()), &clock);
    add_key(&store, 1).expect("taken");
    add_entry(&store, &clock, 1).expect("taken");
    store.close();
    drop(store);
    (disk, clock)
}

/// Returns the operations of a course in its two phases.
fn places((files, clock): &(SimDisk, ManualClock)) -> Vec<(Phase, Place)> {
    let course = Course::new(files, clock);
    let starts = Mutex::new(Vec::<Place>::new());
    let has_seen = |operation| {
        let is_of_start = starts.lock().iter().any(|place| place.operation == operation);
        is_of_start || course.disk.has_seen(operation)
    };
    course.run(
        || *starts.lock() = course.disk.take_seen(),
        || OPERATIONS.into_iter().all(|operation| operation == NOT_SEEN || has_seen(operation)),
    );
    let works = course.disk.take_seen().into_iter().map(|place| (Phase::Work, place));
    let all =
        starts.into_inner().into_iter().map(|place| (Phase::Start, place)).chain(works).collect();
    course.check();
    all
}

/// Every kind of operation.
const OPERATIONS: [Operation; 16] = [
    Operation::Create,
    Operation::Open,
    Operation::List,
    Operation::Rename,
    Operation::Remove,
    Operation::MakeDir,
    Operation::SyncDir,
    Operation::Space,
    Operation::Lock,
    Operation::Read,
    Operation::Write,
    Operation::Sync,
    Operation::Length,
    Operation::SetLength,
    Operation::PunchHole,
    Operation::WriteBack,
];

/// Only sorted runs and checkpoints of 4 MB are written back, by the thread that syncs them.
const NOT_SEEN: Operation = Operation::WriteBack;

/// Returns the place of an operation in [`OPERATIONS`]: a new one does not compile until it has one.
const fn number_of(operation: Operation) -> usize {
    match operation {
        Operation::Create => 0,
        Operation::Open => 1,
        Operation::List => 2,
        Operation::Rename => 3,
        Operation::Remove => 4,
        Operation::MakeDir => 5,
        Operation::SyncDir => 6,
        Operation::Space => 7,
        Operation::Lock => 8,
        Operation::Read => 9,
        Operation::Write => 10,
        Operation::Sync => 11,
        Operation::Length => 12,
        Operation::SetLength => 13,
        Operation::PunchHole => 14,
        Operation::WriteBack => 15,
    }
}

impl Seen {
    /// Checks what the thread of an operation that hangs keeps waiting, and what says so.
    fn check(&self, place: &Place, what: &str) {
        let says = |said: &[String], part: &str| {
            assert!(said.iter().any(|said| said.contains(part)), "{what}: {part}: {self:?}");
        };
        match place.thread.as_str() {
            "duly-engine" => says(&self.stalls, "the engine has been at one step for"),
            "duly-sync" => says(&self.stalls, "a sync of the journal for"),
            "duly-background" => says(&self.warnings, "work in the background"),
            "duly-file" if place.kind.starts_with("AUDIT") => {
                says(&self.warnings, "a change of the audit log");
            }
            "duly-file" => says(&self.stalls, "a change of the keys for"),
            // A spare that is not complete is not used, and a backup has its own caller.
            "duly-spare" | CALLER => {}
            other => panic!("{what}: a thread that has no row in the table: {other}"),
        }
    }
}

#[test]
fn p10_an_operation_that_hangs_is_reported_or_stops_nothing() {
    let files = files();
    let mut has_hung = [false; OPERATIONS.len()];
    has_hung[number_of(NOT_SEEN)] = true;
    for (phase, place) in places(&files) {
        let what = format!("{phase:?}: {} {} in {}", place.operation, place.kind, place.thread);
        // The threads take turns as they like: a rare operation may not come again.
        let Some(seen) = hang(&files, phase, &place) else {
            println!("{what}: it did not come again");
            continue;
        };
        has_hung[number_of(place.operation)] = true;
        if phase == Phase::Work {
            seen.check(&place, &what);
        }
    }
    for operation in OPERATIONS {
        assert!(has_hung[number_of(operation)], "no {operation} hung");
    }
}
