//! A store on a disk with planned faults, and its restarts.

use std::sync::Arc;

use duly_core::env::Clock;
use duly_store::{Result, Store, conformance::ManualClock};
use duly_store_embedded::{
    EmbeddedStore, OpenError, Options,
    disk::{Disk, SimDisk},
};

use crate::{
    faulty::FaultyDisk,
    harness::Shell,
    steps::{Answer, Step, Tokens, perform, wait},
    twins::small,
};

/// A store under test.
#[derive(Debug)]
pub(crate) struct Stage {
    shell: Shell,
    pub(crate) clock: ManualClock,
    pub(crate) disk: FaultyDisk,
    store: Option<EmbeddedStore>,
    pub(crate) tokens: Tokens,
    openings: u64,
    options: fn(u64) -> Options,
}

/// Opens a disk with either shell.
pub(crate) fn open(
    shell: Shell,
    disk: Arc<dyn Disk>,
    clock: &ManualClock,
    options: Options,
) -> std::result::Result<EmbeddedStore, OpenError> {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    match shell {
        Shell::Inline => EmbeddedStore::open_inline(disk, options, clock),
        Shell::Threads => EmbeddedStore::open(disk, options, clock, &mut |_| {}),
    }
}

impl Stage {
    pub(crate) fn new(shell: Shell, disk: FaultyDisk) -> Self {
        Self::with(shell, disk, small)
    }

    /// Makes a stage with the options that `options` makes of a seed.
    pub(crate) fn with(shell: Shell, disk: FaultyDisk, options: fn(u64) -> Options) -> Self {
        let (clock, tokens) = (ManualClock::default(), Tokens::new());
        let mut stage = Self { shell, clock, disk, store: None, tokens, openings: 0, options };
        stage.open();
        stage
    }

    fn open(&mut self) {
        self.openings += 1;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = open(self.shell, disk, &self.clock, (self.options)(self.openings));
        self.store = Some(opened.unwrap_or_else(|error| panic!("it does not open: {error}")));
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.store.as_ref().expect("a store is open between restarts")
    }

    /// Returns the store, for the calls that are not in [`Store`].
    pub(crate) fn embedded(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("a store is open between restarts")
    }

    /// Closes the store.
    pub(crate) fn close(&self) {
        self.store.as_ref().expect("a store is open between restarts").close();
    }

    /// Closes the store and opens it again in the same process: the page cache stays.
    pub(crate) fn reopen(&mut self) {
        self.store = None;
        self.open();
    }

    /// Waits for the error that ended the store.
    pub(crate) fn ended(&self) -> String {
        let store = self.store.as_ref().expect("a store is open between restarts");
        wait(store.ended())
    }

    /// Takes a step and returns the store's result.
    pub(crate) fn attempt(&mut self, step: &Step) -> Result<Answer> {
        let store = self.store.as_ref().expect("a store is open between restarts");
        perform(store, step, &mut self.tokens)
    }

    /// Takes a step that must succeed.
    pub(crate) fn take(&mut self, step: &Step) -> Answer {
        self.attempt(step).unwrap_or_else(|error| panic!("{step:?} is taken, not answered {error}"))
    }

    /// Ends the process with kill -9 and starts another on the same files.
    pub(crate) fn restart_killed(&mut self) {
        let left = self.disk.sim.kill();
        self.restart_on(left);
    }

    /// Loses power and starts again.
    pub(crate) fn restart_crashed(&mut self) {
        let left = self.disk.sim.crash();
        self.restart_on(left);
    }

    /// Starts again with the disk that is left.
    pub(crate) fn restart_on(&mut self, left: SimDisk) {
        self.store = None;
        self.disk = FaultyDisk::new(left);
        self.open();
    }
}
