//! A store on the disk that is measured, with the timers that a row works on.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use duly_core::{Millis, NamespaceName, Timestamp, env::Clock as _, shard::ShardId};
use duly_store::{Stats, Store as _, namespaces::Put};
use duly_store_embedded::{EmbeddedStore, Options as StoreOptions};
use futures::executor::block_on;

use super::Options;
use crate::{
    clock::LeapClock,
    error::{Error, Result},
    workload::{Dues, Workload},
};

/// The embedded store is one shard.
pub(super) const SHARD: ShardId = ShardId(0);
/// How far ahead the first timer is due: none is while a row fills the store.
const AHEAD: Millis = Millis::from_secs(24 * 3_600);

/// Whether a scene's timers are due apart or together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Spread over thirty days.
    Spread,
    /// All at one instant.
    AtOnce,
}

/// A store, open or closed, and what is sent to it.
#[derive(Debug)]
pub(super) struct Scene {
    store: Option<EmbeddedStore>,
    clock: Arc<LeapClock>,
    path: PathBuf,
    /// The namespace of all timers.
    pub(super) namespace: NamespaceName,
    /// The timers.
    pub(super) workload: Workload,
}

impl Scene {
    /// A fresh store without timers.
    pub(super) fn fresh(folder: &Path, options: &Options, due: Due) -> Result<Self> {
        let path = folder.join("store");
        let clock = Arc::new(LeapClock::default());
        let namespace = NamespaceName::new("bench").expect("letters");
        let first: Timestamp = clock.now().saturating_add(AHEAD);
        let dues = match due {
            Due::Spread => Dues::SpreadFrom(first),
            Due::AtOnce => Dues::AllAt(first),
        };
        let payload_bytes = usize::try_from(options.payload_bytes).expect("at most 256 KiB");
        let workload = Workload::new(namespace.clone(), dues, payload_bytes);
        let mut scene = Self { store: None, clock, path, namespace, workload };
        scene.open()?;
        let put = Put::IfAbsent(Box::default());
        block_on(scene.store().put_namespace(scene.namespace.clone(), put))?;
        Ok(scene)
    }

    /// The open store.
    pub(super) fn store(&self) -> &EmbeddedStore {
        self.store.as_ref().expect("a scene is closed only between close and open")
    }

    /// The store's folder.
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

    /// Closes the store in order, and frees it.
    pub(super) fn close(&mut self) {
        self.store = None;
    }

    /// Makes timers of [`Due::AtOnce`] due.
    pub(super) fn leap_to_due(&self) {
        self.clock.leap(Duration::from_millis(AHEAD.ms()));
    }

    /// What the store says of the namespace.
    pub(super) fn stats(&self) -> Result<Stats> {
        let stats = block_on(self.store().stats(SHARD, self.namespace.clone()))?;
        stats.ok_or_else(|| Error::Unexpected {
            expected: format!("namespace {}", self.namespace),
            found: "none".to_owned(),
        })
    }

    /// Closes the store and removes its folder.
    pub(super) fn remove(mut self) -> Result<()> {
        self.close();
        fs::remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))
    }
}
