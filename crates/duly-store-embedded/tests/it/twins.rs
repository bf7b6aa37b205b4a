//! A store that meets faults, and its healthy twin.
//!
//! 1. Both open copies of one disk with one seed and take the same steps, so they are equal to the last
//!    bit of every random incarnation.
//! 2. When the subject crashes within a step, the twin shows what was acknowledged (before that step)
//!    and what would have been (after it). Both states are taken after a restart, as the subject's is.
//! 3. The subject must then show a state between the two, with each change complete.
//! 4. Only inline stores are used: they sync before every reply, claims included, so a power loss must
//!    not lose anything that was acknowledged.

use std::sync::Arc;

use duly_core::{Millis, Timestamp, env::Clock};
use duly_store::{Error, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore, OpenError, Options,
    disk::{self, Disk, SimDisk},
};

use crate::{
    snapshot::Snapshot,
    steps::{Answer, Step, Tokens, perform},
    workload::ScriptStep,
};

/// The smallest segment size, so that a few large payloads fill one.
pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024;

/// A store on a simulated disk.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) disk: SimDisk,
    pub(crate) store: EmbeddedStore,
    pub(crate) tokens: Tokens,
}

/// Options of the small stores of these tests.
pub(crate) fn small(seed: u64) -> Options {
    Options {
        segment_bytes: SEGMENT_BYTES,
        min_free_bytes: Some(0),
        min_free_percent: 0,
        random_seed: Some(seed),
        chunk_bytes: 4096,
        ..Options::default()
    }
}

/// Options with frequent checkpoints, rewriting and file removal between the steps.
pub(crate) fn busy(seed: u64) -> Options {
    Options { checkpoint_bytes: 16 << 10, young_bytes: 1, ..small(seed) }
}

/// Opens an inline store with checkpoints, rewriting and file removal between the steps.
pub(crate) fn open_busy(
    disk: &SimDisk,
    clock: &ManualClock,
    seed: u64,
) -> Result<EmbeddedStore, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    EmbeddedStore::open_inline(disk, busy(seed), Arc::new(clock.clone()))
}

/// Opens an inline store.
pub(crate) fn open_inline(
    disk: &SimDisk,
    clock: &ManualClock,
    seed: u64,
) -> Result<EmbeddedStore, OpenError> {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    EmbeddedStore::open_inline(disk, small(seed), clock)
}

impl Node {
    fn open(disk: SimDisk, clock: &ManualClock, seed: u64, tokens: Tokens) -> Self {
        let store = open_busy(&disk, clock, seed).unwrap_or_else(|error| {
            panic!("what a crash leaves behind is opened: {error}");
        });
        Self { disk, store, tokens }
    }

    /// Returns the contents of this store after a restart; the store itself continues.
    fn after_restart(&self, clock: &ManualClock, seed: u64) -> Snapshot {
        let store = open_busy(&copy(&self.disk, seed), clock, seed).expect("the twin opens");
        Snapshot::of(&store)
    }
}

/// Makes another disk with the same files, all durable, and its own faults.
pub(crate) fn copy(disk: &SimDisk, seed: u64) -> SimDisk {
    let copy = SimDisk::new(seed);
    let put = |name: &str| -> Result<(), disk::Error> {
        if let Some((dir, _)) = name.split_once('/') {
            copy.make_dir(dir)?;
        }
        let file = copy.create(name)?;
        file.write_at(0, &disk.read_file(name))?;
        file.sync_all()
    };
    for name in disk.names() {
        put(&name).expect("a healthy disk takes a copy");
    }
    copy.sync_dir("").expect("a healthy disk is synced");
    for dir in ["journal", "runs", "checkpoints"] {
        copy.sync_dir(dir)
            .or_else(|error| error.is_not_found().then_some(()).ok_or(error))
            .expect("a healthy disk is synced");
    }
    copy
}

/// The end of a step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stepped {
    Done(Answer),
    Failed(Error),
    /// Both stores took the step correctly, but with different results. A fault in the subject's
    /// background work left its records in other places. The places decide the order of timers that are
    /// claimable at the same millisecond. Only a restart makes the two equal again.
    Parted,
}

/// Returns `true` if two claims differ in the order, or the choice, of timers that are claimable at the
/// same millisecond.
fn differ_in_ties(one: &Answer, other: &Answer) -> bool {
    let (Answer::Claimed(one), Answer::Claimed(other)) = (one, other) else {
        return false;
    };
    let times = |firings: &[duly_store::Firing]| -> Vec<_> {
        firings.iter().map(|firing| (firing.claimable_at, firing.leased_until)).collect()
    };
    let names = |firings: &[duly_store::Firing]| -> Vec<_> {
        firings.iter().map(|firing| firing.delivery_id).collect()
    };
    names(one) != names(other) && times(one) == times(other)
}

/// The two stores.
#[derive(Debug)]
pub(crate) struct Twins {
    pub(crate) clock: ManualClock,
    pub(crate) subject: Node,
    twin: Node,
    openings: u64,
    /// The latest time of the wall clock so far.
    latest: Timestamp,
}

impl Twins {
    /// Makes two new stores; `seed` decides the faults.
    pub(crate) fn new(seed: u64) -> Self {
        let (clock, openings) = (ManualClock::default(), 1_000 * seed);
        let subject = Node::open(SimDisk::new(seed), &clock, openings, Tokens::new());
        let twin = Node::open(SimDisk::new(seed), &clock, openings, Tokens::new());
        let latest = Timestamp::MIN;
        Self { clock, subject, twin, openings, latest }
    }

    /// Returns the step of a line of a script, and moves the clock if the line says so.
    pub(crate) fn step_of(&self, line: ScriptStep) -> Step {
        match line {
            ScriptStep::Take(step) => step,
            ScriptStep::Advance(by_ms) => {
                self.clock.advance(Millis::from_ms(by_ms));
                Step::Tick
            }
        }
    }

    /// Takes a step with both; with the twin only after the subject.
    pub(crate) fn step(&mut self, step: &Step) -> Stepped {
        self.latest = self.latest.max(now(&self.clock));
        // The machine may go down in the store's background work; later steps are not done.
        let down = || Stepped::Failed(Error::InDoubt { reason: "the machine is down".into() });
        if self.subject.disk.is_down() {
            return down();
        }
        let answer = match perform(&self.subject.store, step, &mut self.subject.tokens) {
            Ok(answer) => answer,
            Err(error) => return Stepped::Failed(error),
        };
        let is_unread = || format!("{answer:?}").contains("cannot be read now");
        // A claim that finds no readable record grants nothing and writes nothing.
        let is_nothing = matches!(&answer, Answer::Claimed(firings) if firings.is_empty());
        if self.subject.disk.is_down() && (is_nothing || matches!(step, Step::Tick) || is_unread())
        {
            return down();
        }
        let twins = perform(&self.twin.store, step, &mut self.twin.tokens);
        if twins.as_ref().is_ok_and(|twins| differ_in_ties(&answer, twins)) {
            return Stepped::Parted;
        }
        assert_eq!(Ok(&answer), twins.as_ref(), "both answer the same to {step:?}");
        Stepped::Done(answer)
    }

    /// Restarts the subject, which failed in `step` or in none, and checks its contents. `between` may
    /// crash the disk again before the start that counts.
    pub(crate) fn restart(
        &mut self,
        how: Loss,
        step: Option<&Step>,
        between: impl FnOnce(SimDisk, &ManualClock) -> SimDisk,
    ) -> Result<(), String> {
        self.openings += 1;
        let seed = self.openings;
        let before = self.twin.after_restart(&self.clock, seed);
        let after = match step {
            None => before.clone(),
            Some(step) => {
                perform(&self.twin.store, step, &mut self.twin.tokens.clone())
                    .map_err(|error| format!("the twin cannot take {step:?}: {error}"))?;
                self.twin.after_restart(&self.clock, seed)
            }
        };
        self.subject.store.close();
        let left = match how {
            Loss::Power => self.subject.disk.crash(),
            Loss::Process => self.subject.disk.kill(),
        };
        let left = between(left, &self.clock);
        let store = open_busy(&left, &self.clock, seed)
            .map_err(|error| format!("it does not open: {error}"))?;
        // If a tombstone ended before the clock stepped back, it may be there again or not.
        let latest = self.latest.max(now(&self.clock));
        let [found, before, after] = [Snapshot::of(&store), before, after].map(|snapshot| {
            snapshot.without_tombstones_over(latest).without_waits_after_lost_leases()
        });
        found.check_between(&before, &after)?;
        store.close();
        // From here on both continue with the subject's state.
        let tokens = std::mem::take(&mut self.subject.tokens);
        let (subject, twin) = (left.kill(), copy(&left, seed));
        self.subject = Node::open(subject, &self.clock, seed, tokens.clone());
        self.twin = Node::open(twin, &self.clock, seed, tokens);
        Ok(())
    }
}

/// The way in which a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The machine loses power.
    Power,
    /// kill -9.
    Process,
}

fn now(clock: &ManualClock) -> Timestamp {
    let wall_ms = u64::try_from(clock.wall().as_millis()).expect("before 2200");
    Timestamp::saturating_from_unix_ms(wall_ms)
}
