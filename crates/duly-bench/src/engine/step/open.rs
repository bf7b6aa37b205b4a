//! Step that opens a store's folder in a process that does nothing else.
//!
//! In the process that filled the store, the allocator still holds freed memory, which would count
//! as memory of the opened store.

use std::{
    path::PathBuf,
    process,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_store::Store as _;
use duly_store_embedded::{EmbeddedStore, Options as StoreOptions};
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use super::tell;
use crate::{
    clock::LeapClock,
    engine::{
        consumer::claim_request,
        scene::{SHARD, names},
    },
    error::Result,
    usage::{Span, resident_bytes},
};

/// Longest wait for the first firing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Parameters of the step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct OpenStep {
    /// The store's folder.
    pub(in crate::engine) folder: PathBuf,
    /// Lead of the store's clock over the machine's.
    pub(in crate::engine) ahead_ms: u64,
    /// Action after the open.
    pub(in crate::engine) end: End,
}

/// End of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) enum End {
    /// The store is closed cleanly.
    Close,
    /// One firing is claimed, and the process exits without a close.
    ClaimAndAbandon,
}

/// Cost of the open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct Opened {
    /// Seconds until the store could be used.
    pub(in crate::engine) open_s: f64,
    /// CPU seconds of all threads during the open.
    pub(in crate::engine) cpu_s: f64,
    /// Memory of the whole process after the open.
    pub(in crate::engine) resident_bytes: u64,
    /// Memory of the whole process before the open.
    pub(in crate::engine) base_bytes: u64,
    /// Bytes read from the disk.
    pub(in crate::engine) read_bytes: u64,
    /// Pending timers.
    pub(in crate::engine) pending: u64,
    /// Seconds from the open to the first firing; absent if none was claimed.
    pub(in crate::engine) first_firing_s: Option<f64>,
}

impl OpenStep {
    pub(super) fn carry_out(self) -> Result<()> {
        let clock = Arc::new(LeapClock::default());
        clock.leap(Duration::from_millis(self.ahead_ms));
        let base_bytes = resident_bytes();
        let span = Span::begin();
        let store = EmbeddedStore::open_dir(&self.folder, StoreOptions::default(), clock)?;
        let spent = span.end();
        let mut opened = Opened {
            open_s: spent.elapsed.as_secs_f64(),
            cpu_s: spent.process.as_secs_f64(),
            resident_bytes: resident_bytes(),
            base_bytes,
            read_bytes: spent.disk.read,
            pending: store.health().pending,
            first_firing_s: None,
        };
        if self.end == End::Close {
            drop(store);
            return tell(&opened);
        }
        opened.first_firing_s = first_firing(&store)?;
        tell(&opened)?;
        // The process exits without closing anything, like a killed one.
        process::exit(0)
    }
}

/// Returns the seconds until one firing is claimed.
fn first_firing(store: &EmbeddedStore) -> Result<Option<f64>> {
    let request = claim_request(&names(1)[0], 1);
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if !block_on(store.claim(SHARD, request.clone()))?.firings.is_empty() {
            return Ok(Some(began.elapsed().as_secs_f64()));
        }
        std::thread::yield_now();
    }
    Ok(None)
}
