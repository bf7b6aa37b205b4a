//! Locations that move, with checkpoints in between: every record that a kept checkpoint points at
//! exists, whichever of the two is read, and at every moment of the moves.
//!
//! The rewriter, the checkpoints and the removal of files run step by step here. No record contains a
//! move, so only the rule of removal keeps the old places.

use duly_core::{Payload, payload::Form};

use crate::{engine::background_work::Pace, index::Key};

use super::*;

/// Enough that the remaining ones move in several steps.
const TIMERS: u32 = 18_000;
/// One of every `LEFT` remains.
const LEFT: u32 = 4;
/// Its record is damaged on the disk: it stays where it is, and so does its run.
const DAMAGED: u32 = 16_000;

pub(super) struct Mover {
    pub(super) engine: Engine,
    disk: SimDisk,
    clock: ManualClock,
    pub(super) grown: u8,
}

fn options() -> Options {
    Options { checkpoint_bytes: 1, young_bytes: 1, chunk_bytes: 4_096, ..small() }
}

/// The state that kill -9 would leave now.
fn copy(disk: &SimDisk) -> SimDisk {
    let copy = SimDisk::new(2);
    for name in disk.names() {
        if let Some((dir, _)) = name.split_once('/') {
            copy.make_dir(dir).unwrap();
        }
        copy.create(&name).unwrap().write_at(0, &disk.read_file(&name)).unwrap();
    }
    copy
}

fn name_of(n: u32) -> String {
    format!("t{n}")
}

impl Mover {
    pub(super) fn new() -> Self {
        let (mut engine, disk, clock) = opened(options());
        let mut settings = duly_core::Settings::default();
        // Nothing of the cancelled timers is left to move.
        settings.limits.max_retained = 0;
        let secrets = duly_store::namespaces::Secrets::Set;
        let put = Put::Replace { settings: Box::new(settings), secrets };
        engine.put_namespace(&shop(), put).unwrap();
        Self { engine, disk, clock, grown: 0 }
    }

    pub(super) fn commit(&mut self) {
        if let Some(mark) = self.engine.commit().unwrap() {
            mark.file.sync_data().unwrap();
            self.engine.synced(mark.lsn, mark.position);
        }
    }

    pub(super) fn apply(&mut self, operation: Operation) {
        let command = Command { namespace: shop(), operation, answer: Answer::Brief };
        let outcome = self.engine.apply(command);
        assert!(!matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)), "{outcome:?}");
        if self.engine.uncommitted_bytes() > 8_192 {
            self.commit();
        }
    }

    pub(super) fn schedule(&mut self, text: &str, payload: Vec<u8>) {
        let mut schedule = Schedule::new(id(text), When::After(Millis::from_secs(86_400)));
        schedule.spec.payload = Some(Payload { form: Form::Binary, bytes: payload.into() });
        let schedule = Box::new(schedule);
        self.apply(Operation::Schedule { schedule, if_exists: IfExists::Replace });
    }

    /// Grows the journal; one record of it lives, in the newest segment.
    pub(super) fn grow(&mut self) {
        self.grown = self.grown.wrapping_add(1);
        self.schedule("filler", vec![self.grown; 5_000]);
        self.commit();
    }

    /// Runs the work that was handed over.
    pub(super) fn background(&mut self) {
        loop {
            let work = self.engine.take_work();
            if work.is_empty() {
                return;
            }
            work.into_iter().for_each(|work| work()(&mut self.engine));
        }
    }

    /// Rewrites until locations are about to move. Returns `true` if there is anything to rewrite.
    pub(super) fn rewrite_until_moving(&mut self) -> bool {
        self.engine.rewriter.is_wanted = true;
        for _ in 0..100 {
            self.engine.rewrite_step();
            self.background();
            if self.engine.rewriter.is_moving() {
                return true;
            }
        }
        false
    }

    /// Takes a checkpoint, and removes what can be removed then.
    pub(super) fn take_checkpoint(&mut self) {
        let newest = |mover: &Self| mover.engine.checkpoints.kept.back().map(|kept| kept.number);
        let before = newest(self);
        for _ in 0..1_000 {
            self.engine.checkpoint_step();
            self.background();
            if newest(self) != before {
                self.drop_last_buckets();
                return;
            }
            self.grow();
        }
        panic!("a checkpoint is taken");
    }

    fn move_some(&mut self) {
        self.engine.rewrite_step();
        self.drop_last_buckets();
    }

    /// Removes and frees what can go now.
    fn drop_last_buckets(&mut self) {
        self.engine.reclaim();
        self.background();
        self.engine.punch_step();
        self.background();
    }

    fn keys(&self) -> Vec<(u32, Key)> {
        let number = self.engine.namespaces.number_of(&shop()).unwrap();
        let left = (0..TIMERS).filter(|n| n % LEFT == 0);
        left.map(|n| (n, self.engine.key(number, &name_of(n)))).collect()
    }

    fn runs(&self) -> Vec<String> {
        self.disk.names().into_iter().filter(|name| name.ends_with(".run")).collect()
    }

    fn damaged_run(&self) -> String {
        let number = self.engine.namespaces.number_of(&shop()).unwrap();
        let key = self.engine.key(number, &name_of(DAMAGED));
        let slot = self.engine.namespaces.live(key).unwrap().location().slot();
        self.engine.files.get(slot).unwrap().id.name()
    }

    /// Runs of which little is left.
    pub(super) fn with_sparse_runs() -> Self {
        let mut mover = Self::new();
        (0..TIMERS).for_each(|n| mover.schedule(&name_of(n), vec![7; 10]));
        mover.commit();
        (0..40).for_each(|_| mover.grow());
        while mover.rewrite_until_moving() {
            while mover.engine.rewriter.is_moving() {
                mover.engine.rewrite_step();
            }
        }
        assert!(mover.runs().len() > 1, "{:?}", mover.disk.names());
        for n in (0..TIMERS).filter(|n| n % LEFT != 0) {
            mover.apply(Operation::Cancel { id: id(&name_of(n)), if_revision: None });
        }
        mover.grow();
        mover
    }

    /// The same, one of them with a record that cannot be read, in two checkpoints.
    fn with_a_damaged_run() -> Self {
        let mut mover = Self::with_sparse_runs();
        let number = mover.engine.namespaces.number_of(&shop()).unwrap();
        let key = mover.engine.key(number, &name_of(DAMAGED));
        let place = mover.engine.namespaces.live(key).unwrap().location();
        mover.disk.corrupt(&mover.damaged_run(), place.unit() * 16 + 30, 1);
        (0..2).for_each(|_| mover.take_checkpoint());
        mover
    }

    /// Checks that after kill -9 now either checkpoint restores all that is left.
    fn check(&self, when: &str) {
        for is_newest_damaged in [false, true] {
            let left = copy(&self.disk);
            if is_newest_damaged {
                let newest = left.names().into_iter().rfind(|name| name.ends_with(".ckp"));
                left.corrupt(&newest.expect("there are two"), 150, 2);
            }
            let what = format!("{when}, the newest checkpoint damaged: {is_newest_damaged}");
            let engine = open(&left, options(), &self.clock);
            for (n, key) in self.keys() {
                let entry = engine.namespaces.live(key);
                let entry = entry.unwrap_or_else(|| panic!("{what}: {n} is forgotten"));
                let read = engine.load_timer(entry.location());
                assert_eq!(read.is_ok(), n != DAMAGED, "{what}: {n}: {read:?}");
            }
        }
    }
}

#[test]
fn p1_run_is_kept_while_locations_move_into_it() {
    let mut mover = Mover::with_a_damaged_run();
    let before = mover.runs();
    assert!(mover.rewrite_until_moving(), "runs of which little is left are merged");
    let made: Vec<String> = mover.runs().into_iter().filter(|run| !before.contains(run)).collect();
    assert_eq!(made.len(), 1, "{made:?}");
    // Nothing has pointed at it since before the older of these began.
    (0..3).for_each(|_| mover.take_checkpoint());
    assert!(mover.runs().contains(&made[0]), "it was removed under the hands of the rewriter");
    while mover.engine.rewriter.is_moving() {
        mover.move_some();
    }
    mover.check("when all has moved");
}

#[test]
fn p1_both_checkpoints_load_while_locations_move() {
    let mut mover = Mover::with_a_damaged_run();
    let before = mover.runs();
    assert!(mover.rewrite_until_moving(), "runs of which little is left are merged");
    let mut steps = 0;
    while mover.engine.rewriter.is_moving() {
        // Not before each move: then the rest of the first ones might be removed before the last.
        if steps % 9 == 0 {
            mover.take_checkpoint();
            mover.check(&format!("before step {steps}"));
        }
        mover.move_some();
        mover.check(&format!("after step {steps}"));
        steps += 1;
    }
    assert!((10..=18).contains(&steps), "with two checkpoints in between: {steps}");
    let damaged = mover.damaged_run();
    let is_there = |mover: &Mover| before.iter().filter(|run| mover.runs().contains(run)).count();
    let holes = |mover: &Mover| mover.disk.open(&damaged).unwrap().holes().unwrap().len();
    for checkpoints in 1..=3 {
        if checkpoints == 1 {
            assert_eq!((is_there(&mover), holes(&mover)), (before.len(), 0), "none may go yet");
        }
        mover.take_checkpoint();
        mover.check(&format!("{checkpoints} checkpoints after the last step"));
    }
    assert_eq!(is_there(&mover), 1, "only the one with a record that cannot be moved is there");
    assert!(holes(&mover) > 0, "of which the rest is given back");
}

#[test]
fn rewrite_backlog_is_reported_until_moved() {
    let mut mover = Mover::new();
    let backlog = |mover: &Mover| mover.engine.health().rewrite_backlog_bytes;
    assert_eq!(backlog(&mover), 0);
    (0..4_000).for_each(|n| mover.schedule(&name_of(n), vec![7; 10]));
    mover.commit();
    let waits = backlog(&mover);
    assert!(waits >= 4 * mover.engine.options.segment_bytes, "{waits}");
    while mover.rewrite_until_moving() {
        while mover.engine.rewriter.is_moving() {
            mover.engine.rewrite_step();
        }
    }
    assert_eq!(backlog(&mover), 0, "{waits} before");
}

#[test]
fn p10_large_rewrite_backlog_refuses_only_new_timers() {
    let mut mover = Mover::new();
    let most = 32 * mover.engine.options.segment_bytes;
    let mut made = 0;
    while mover.engine.rewrite_backlog_bytes() <= most {
        mover.schedule(&name_of(made), vec![7; 4_000]);
        made += 1;
    }
    mover.commit();
    let look = |mover: &mut Mover| {
        mover.clock.advance(Millis::from_secs(1));
        mover.engine.begin_step();
        let timer = Schedule::new(id("another"), When::After(Millis::from_secs(86_400)));
        let schedule =
            Operation::Schedule { schedule: Box::new(timer), if_exists: IfExists::Replace };
        mover.engine.apply(Command {
            namespace: shop(),
            operation: schedule,
            answer: Answer::Brief,
        })
    };
    let refused = look(&mut mover);
    let Outcome::Refused(refusal) = &refused else { panic!("expected a refusal: {refused:?}") };
    assert_eq!(refusal.code().as_str(), "resource_exhausted");
    assert!(refusal.to_string().contains("wait to be rewritten"), "{refusal}");
    assert_eq!(mover.engine.background_pace(), Pace::Unlimited);
    mover.apply(Operation::Cancel { id: id("t0"), if_revision: None });
    while mover.rewrite_until_moving() {
        while mover.engine.rewriter.is_moving() {
            mover.engine.rewrite_step();
        }
    }
    let taken = look(&mut mover);
    assert!(matches!(taken, Outcome::Created(_)), "{taken:?}");
}
