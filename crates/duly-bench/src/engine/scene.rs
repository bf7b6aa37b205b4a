//! A store on the measured disk, with the timers of a row.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use duly_core::{Millis, NamespaceName, Settings, Timestamp, env::Clock as _, shard::ShardId};
use duly_store::{Stats, Store as _, namespaces::Put};
use duly_store_embedded::{EmbeddedStore, Options as StoreOptions};
use futures::executor::block_on;

use crate::{
    clock::LeapClock,
    error::{Error, Result},
    workload::{Dues, Workload},
};

/// The only shard of the embedded store.
pub(super) const SHARD: ShardId = ShardId(0);
/// Delay of the first timer. None is due while a row fills the store.
pub(super) const AHEAD: Millis = Millis::from_secs(24 * 3_600);

/// Due times of a scene's timers: spread or equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Spread over thirty days.
    Spread,
    /// All at one instant.
    AtOnce,
}

impl Due {
    const fn from(self, first: Timestamp) -> Dues {
        match self {
            Self::Spread => Dues::SpreadFrom(first),
            Self::AtOnce => Dues::AllAt(first),
        }
    }
}

/// Initial state of a scene.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// Due times of its timers.
    pub(super) due: Due,
    /// Bytes of each payload.
    pub(super) payload_bytes: u32,
    /// Number of namespaces over which the timers take turns.
    pub(super) namespaces: u32,
    /// Settings of each namespace.
    pub(super) settings: Settings,
}

impl Setup {
    /// Creates a setup of one namespace with default settings.
    pub(super) fn new(due: Due, payload_bytes: u32) -> Self {
        Self { due, payload_bytes, namespaces: 1, settings: Settings::default() }
    }
}

/// A store, open or closed, and its workload.
#[derive(Debug)]
pub(super) struct Scene {
    store: Option<EmbeddedStore>,
    clock: Arc<LeapClock>,
    path: PathBuf,
    payload_bytes: usize,
    /// The namespaces of the timers.
    pub(super) namespaces: Arc<[NamespaceName]>,
    /// The timers.
    pub(super) workload: Workload,
}

impl Scene {
    /// Creates a store without timers, below `folder`.
    pub(super) fn fresh(folder: &Path, setup: &Setup) -> Result<Self> {
        let path = folder.join("store");
        let clock = Arc::new(LeapClock::default());
        let namespaces = names(setup.namespaces);
        let first: Timestamp = clock.now().saturating_add(AHEAD);
        let payload_bytes = usize::try_from(setup.payload_bytes).expect("at most 256 KiB");
        let workload = Workload::new(Arc::clone(&namespaces), setup.due.from(first), payload_bytes);
        let mut scene = Self { store: None, clock, path, payload_bytes, namespaces, workload };
        scene.open()?;
        for name in &*scene.namespaces {
            let put = Put::IfAbsent(Box::new(setup.settings.clone()));
            block_on(scene.store().put_namespace(name.clone(), put))?;
        }
        Ok(scene)
    }

    /// Creates a namespace and returns a workload for it. The first timer is due `ahead` after the
    /// scene's present time.
    pub(super) fn beside(&self, name: &str, due: Due, ahead: Millis) -> Result<Workload> {
        let namespace = NamespaceName::new(name).expect("letters and dashes");
        let put = Put::IfAbsent(Box::default());
        block_on(self.store().put_namespace(namespace.clone(), put))?;
        let dues = due.from(self.clock.now().saturating_add(ahead));
        Ok(Workload::new([namespace].into(), dues, self.payload_bytes))
    }

    /// Returns the open store.
    pub(super) fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("a scene is closed only between close and open")
    }

    /// Returns the present time of the store's clock.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the store's folder.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the folder again.
    pub(super) fn open(&mut self) -> Result<()> {
        let clock = Arc::clone(&self.clock);
        let store = EmbeddedStore::open_dir(&self.path, StoreOptions::default(), clock)?;
        self.store = Some(store);
        Ok(())
    }

    /// Closes the store cleanly and frees it.
    pub(super) fn close(&mut self) {
        self.store = None;
    }

    /// Sets the clock forward; a leap of [`AHEAD`] makes timers of [`Due::AtOnce`] due.
    pub(super) fn leap(&self, by: Millis) {
        self.clock.leap(Duration::from_millis(by.ms()));
    }

    /// Returns the pending timers of all its namespaces.
    pub(super) fn pending(&self) -> Result<u64> {
        self.namespaces.iter().map(|name| Ok(self.stats(name)?.pending())).sum()
    }

    /// Returns the store's statistics of a namespace.
    pub(super) fn stats(&self, namespace: &NamespaceName) -> Result<Stats> {
        let stats = block_on(self.store().stats(SHARD, namespace.clone()))?;
        stats.ok_or_else(|| Error::Unexpected {
            expected: format!("namespace {namespace}"),
            found: "none".to_owned(),
        })
    }

    /// Closes the store and removes its folder.
    pub(super) fn remove(mut self) -> Result<()> {
        self.close();
        fs::remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))
    }
}

/// Returns `count` names, the same each time.
pub(super) fn names(count: u32) -> Arc<[NamespaceName]> {
    (0..count)
        .map(|n| NamespaceName::new(&format!("bench-{n}")).expect("letters, digits and a dash"))
        .collect()
}
