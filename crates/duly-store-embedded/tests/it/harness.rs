//! The harness of the conformance suite: the embedded store on a simulated disk and a manual clock.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use duly_core::{Millis, Timestamp, env::Clock};
use duly_store::{
    Store,
    conformance::{Harness, ManualClock, NAMESPACES_MAX, Restart},
};
use duly_store_embedded::{
    EmbeddedStore, Options,
    disk::{Disk, SimDisk},
};
use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;

static OPENED: AtomicU64 = AtomicU64::new(1_000);

/// The shell that drives the engine.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shell {
    Inline,
    Threads,
}

/// A store that can be restarted.
pub(crate) struct EmbeddedHarness {
    shell: Shell,
    clock: ManualClock,
    open: Mutex<(SimDisk, Option<Arc<EmbeddedStore>>)>,
}

/// Options for small stores.
pub(crate) fn options(seed: u64) -> Options {
    Options {
        segment_bytes: [1 << 20, 512 << 10][(seed % 2) as usize],
        min_free_bytes: Some(0),
        min_free_percent: 0,
        namespaces_max: NAMESPACES_MAX,
        random_seed: Some(seed),
        // Small near horizons and windows for two seeds of three: then every timer goes through them.
        near_max: [1_000_000, 2, 5][(seed % 3) as usize],
        overdue_max: [262_144, 3, 8][(seed % 3) as usize],
        // A checkpoint every few dozen records for every second seed.
        checkpoint_bytes: [128 << 20, 8 << 10][(seed % 2) as usize],
        young_bytes: 1,
        chunk_bytes: [1 << 20, 4096][(seed % 2) as usize],
        audit_rest_ms: 0,
        ..Options::default()
    }
}

/// Opens a simulated disk.
pub(crate) fn open(shell: Shell, disk: &SimDisk, clock: &ManualClock, seed: u64) -> EmbeddedStore {
    let clock: Arc<dyn Clock> = Arc::new(clock.clone());
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    match shell {
        Shell::Inline => EmbeddedStore::open_inline(disk, options(seed), clock),
        Shell::Threads => {
            // A call may come between two sweeps, so a small near horizon returns less.
            let options = Options { near_max: 1_000_000, ..options(seed) };
            EmbeddedStore::open(disk, options, clock, &mut |_| {})
        }
    }
    .expect("the store opens")
}

impl EmbeddedHarness {
    pub(crate) fn new(shell: Shell) -> Self {
        Self::with_clock(shell, ManualClock::default())
    }

    pub(crate) fn with_clock(shell: Shell, clock: ManualClock) -> Self {
        let disk = SimDisk::new(1);
        let store = open(shell, &disk, &clock, 7);
        Self { shell, clock, open: Mutex::new((disk, Some(Arc::new(store)))) }
    }
}

impl Harness for EmbeddedHarness {
    fn store(&self) -> Arc<dyn Store> {
        let open = self.open.lock();
        Arc::clone(open.1.as_ref().expect("a store is open between restarts")) as Arc<dyn Store>
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn advance(&self, by: Millis) -> BoxFuture<'_, ()> {
        self.clock.advance(by);
        futures::future::ready(()).boxed()
    }

    fn step_wall(&self, by_ms: i64) -> Option<()> {
        self.clock.step_wall(by_ms);
        Some(())
    }

    fn restart(&self, how: Restart) -> BoxFuture<'_, Option<()>> {
        let mut open_now = self.open.lock();
        let killed = match how {
            Restart::Kill => Some(open_now.0.kill()),
            Restart::Clean => None,
        };
        if let Some(old) = open_now.1.take() {
            old.close();
            drop(old);
        }
        let disk = killed.unwrap_or_else(|| open_now.0.clone());
        // Another seed at every start: the same one would repeat incarnations.
        let seed = OPENED.fetch_add(1, Ordering::Relaxed);
        let store = open(self.shell, &disk, &self.clock, seed);
        *open_now = (disk, Some(Arc::new(store)));
        futures::future::ready(Some(())).boxed()
    }
}
