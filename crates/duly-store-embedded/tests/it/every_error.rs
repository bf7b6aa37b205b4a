//! EIO, ENOSPC, EMFILE and EINTR at every file operation of every kind: in a run with writes, rolls,
//! checkpoints, rewrites, removals and a backup, and at a start.
//!
//! Either the operation is tried again and callers notice at most a refusal. Or the store ends, and
//! opening it again in the same process finds everything that was acknowledged. The operation and the
//! error alone decide which: `docs/internals/disk-errors.md` has the table.

use std::collections::{BTreeMap, BTreeSet};

use duly_core::{Millis, State};
use duly_store::{Error, Outcome, SettleVerdict};
use duly_store_embedded::disk::{Operation, SimDisk};

use crate::{
    faulty::{FaultKind, FaultyDisk},
    harness::Shell,
    seeds::{Repeat, number},
    snapshot::Snapshot,
    stage::{Stage, open},
    steps::{Step, apply, cancel, get, schedule},
    twins::busy,
    workload::{LARGE_BYTES, settings},
};

const ERRORS: [FaultKind; 4] =
    [FaultKind::Broken, FaultKind::Full, FaultKind::TooManyFiles, FaultKind::Interrupted];

/// Rounds of a run.
const ROUNDS: usize = 4;
/// Longer than the waits after one failure.
const PAUSE: Millis = Millis::from_ms(2_100);

/// Returns `true` if this operation ends the store with this error.
fn ends(operation: Operation, name: &str, fault_kind: FaultKind) -> bool {
    match operation {
        Operation::Write | Operation::Sync => {
            name.ends_with(".log") && fault_kind != FaultKind::Full
        }
        Operation::SyncDir => {
            name == "journal" && matches!(fault_kind, FaultKind::Broken | FaultKind::Interrupted)
        }
        _ => false,
    }
}

fn stage(seed: u64) -> Stage {
    let mut stage = Stage::with(Shell::Inline, FaultyDisk::new(SimDisk::new(seed)), busy);
    stage.take(&Step::Put("shop", Box::new(settings())));
    stage
}

/// A run, and the replies that it received.
struct Course {
    stage: Stage,
    acknowledged: BTreeMap<String, State>,
    /// Timers whose latest call may have been done or not.
    in_doubt: BTreeSet<String>,
}

impl Course {
    fn new() -> Self {
        Self { stage: stage(1), acknowledged: BTreeMap::new(), in_doubt: BTreeSet::new() }
    }

    fn apply(&mut self, ids: &[String], cancels: bool) {
        let made = |id: &String| {
            if cancels { cancel(id) } else { schedule(id, 90_000_000, LARGE_BYTES) }
        };
        let answer = apply(self.stage.store(), "shop", ids.iter().map(made).collect());
        let outcomes = match answer {
            Ok(outcomes) => outcomes,
            Err(Error::InDoubt { .. }) => {
                self.in_doubt.extend(ids.iter().cloned());
                return;
            }
            Err(Error::Unavailable { .. }) => return,
            Err(other) => panic!("{other}"),
        };
        for (id, outcome) in ids.iter().zip(outcomes) {
            match outcome {
                Outcome::Created(_) => {
                    self.acknowledged.insert(id.clone(), State::Scheduled);
                }
                Outcome::Cancelled { .. } => {
                    self.acknowledged.insert(id.clone(), State::Cancelled);
                }
                Outcome::Failed(Error::InDoubt { .. }) => {
                    self.in_doubt.insert(id.clone());
                }
                Outcome::Refused(_) | Outcome::Failed(Error::Unavailable { .. }) => {}
                other => panic!("{id}: {other:?}"),
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.stage.store().terminal_error().is_some()
    }

    fn round(&mut self, round: usize) {
        self.stage.clock.advance(PAUSE);
        let ids: Vec<String> = (0..10).map(|i| format!("r{round} {i}")).collect();
        self.apply(&ids, false);
        let every_other: Vec<String> = ids.iter().step_by(2).cloned().collect();
        self.apply(&every_other, true);
        // A due timer is claimed and acknowledged; the result is not checked later.
        let due = format!("due {round}");
        self.stage.attempt(&Step::Apply("shop", vec![schedule(&due, 0, 100)])).ok();
        if self.stage.attempt(&Step::Claim("shop", 1)).is_ok()
            && self.stage.tokens.contains_key(&("shop", due.clone()))
        {
            self.stage.attempt(&Step::Settle("shop", due, SettleVerdict::Ack)).ok();
        }
    }

    /// Runs all rounds, up to the end of the store.
    fn run(&mut self) {
        for round in 0..ROUNDS {
            self.round(round);
        }
        if !self.has_ended() {
            self.back_up();
        }
    }

    /// Makes a backup, which succeeds despite one failure in it.
    fn back_up(&mut self) {
        // The space that the journal waits for is available again.
        self.stage.clock.advance(PAUSE);
        self.stage.attempt(&Step::Tick).ok();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let target = directory.path().join("backup");
        let copied = self.stage.embedded().backup(&target, &mut |_| {});
        if !self.has_ended() {
            copied.expect("it is tried again");
            self.round(ROUNDS);
        }
    }

    fn check(&self, what: &str) {
        for (id, state) in &self.acknowledged {
            let found = get(self.stage.store(), "shop", id).map(|view| view.state);
            assert!(found.is_some(), "{what}: {id} is there");
            if !self.in_doubt.contains(id) {
                assert_eq!(found, Some(*state), "{what}: {id}");
            }
        }
    }

    fn finish(&mut self, fault_kind: FaultKind, what: &str) {
        let (operation, name) = self.stage.disk.nth_failed().expect("the course comes by it");
        let what = format!("{what}: {operation} {name} {fault_kind:?}");
        let expected = ends(operation, &name, fault_kind);
        // Of the syncs of the directory only that of a roll ends the store.
        if operation != Operation::SyncDir || self.has_ended() {
            assert_eq!(self.has_ended(), expected, "{what}");
        }
        if self.has_ended() {
            self.stage.reopen();
        } else {
            for _ in 0..3 {
                self.stage.clock.advance(PAUSE);
                self.stage.attempt(&Step::Tick).ok();
            }
        }
        assert_eq!(self.stage.store().health().not_ready, [""; 0], "{what}");
        self.check(&what);
        let before = self.acknowledged.len();
        self.round(ROUNDS + 1);
        assert_eq!(self.acknowledged.len(), before + 10, "{what}: it goes on");
        let shown = Snapshot::of(self.stage.store());
        self.stage.restart_crashed();
        assert!(Snapshot::of(self.stage.store()) == shown, "{what}: after a power loss");
        self.check(&what);
    }
}

#[test]
fn p1_every_disk_error_is_retried_or_ends_the_store() {
    let mut calm = Course::new();
    let from = calm.stage.disk.count();
    calm.run();
    let count = calm.stage.disk.count() - from;
    let (first, stride) = (number("DULY_CRASH_OP", 0), number("DULY_CRASH_STRIDE", 11));
    let mut ended = 0;
    let mut nth = first;
    while nth < count {
        let _repeat = Repeat::new("every_error", &[("DULY_CRASH_OP", nth)]);
        for (place, fault_kind) in ERRORS.into_iter().enumerate() {
            // If not all operations are tried, each error gets different ones.
            let nth = nth + place as u64 % stride;
            if nth >= count {
                continue;
            }
            let mut course = Course::new();
            course.stage.disk.fail_nth(nth, fault_kind);
            course.run();
            ended += u64::from(course.has_ended());
            course.finish(fault_kind, &format!("operation {nth}"));
        }
        nth += stride;
    }
    println!("{count} operations, every {stride} with four errors each; {ended} ended the store");
    assert!(ended > 0 || first > 0, "some end it");
}

#[test]
fn p1_every_error_at_an_opening_leaves_a_store_that_opens() {
    let mut prepared = Course::new();
    prepared.run();
    let disk = prepared.stage.disk.sim.kill();
    let copy = || FaultyDisk::new(crate::twins::copy(&disk, 3));
    let open_on = |disk: &FaultyDisk, clock: &_| {
        open(Shell::Inline, std::sync::Arc::new(disk.clone()), clock, busy(9))
    };
    let calm = copy();
    drop(open_on(&calm, &prepared.stage.clock).expect("it opens"));
    let (count, stride) = (calm.count(), number("DULY_CRASH_STRIDE", 3));
    let mut nth = number("DULY_CRASH_OP", 0);
    let mut refused = 0;
    while nth < count {
        let _repeat = Repeat::new("every_error", &[("DULY_CRASH_OP", nth)]);
        for fault_kind in ERRORS {
            let disk = copy();
            disk.fail_nth(nth, fault_kind);
            let opened = open_on(&disk, &prepared.stage.clock);
            let what = format!("operation {nth} {fault_kind:?}: {:?}", disk.nth_failed());
            refused += usize::from(opened.is_err());
            drop(opened);
            let store = open_on(&disk, &prepared.stage.clock);
            let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
            for (id, state) in &prepared.acknowledged {
                let found = get(&store, "shop", id).map(|view| view.state);
                assert_eq!(found, Some(*state), "{what}: {id}");
            }
            apply(&store, "shop", vec![schedule("more", 90_000, 10)]).expect("it goes on");
            let shown = Snapshot::of(&store);
            drop(store);
            let left = FaultyDisk::new(disk.sim.crash());
            let store = open_on(&left, &prepared.stage.clock);
            let store = store.unwrap_or_else(|error| panic!("{what}: after a crash: {error}"));
            assert!(Snapshot::of(&store) == shown, "{what}: after a power loss");
        }
        nth += stride;
    }
    println!("{count} operations of an opening; {refused} refused");
}
