//! Opening a store's folder in a process that does nothing else.
//!
//! In the process that filled it the allocator still holds what was freed, which would count as the
//! memory of the opened store.

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

/// How long the first firing is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to open.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct OpenStep {
    /// The store's folder.
    pub(in crate::engine) folder: PathBuf,
    /// How far ahead of the machine's the store's clock is.
    pub(in crate::engine) ahead_ms: u64,
    /// What comes after the opening.
    pub(in crate::engine) end: End,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::engine) enum End {
    /// The store is closed in order.
    Close,
    /// One firing is claimed, and the process ends without closing.
    ClaimAndAbandon,
}

/// What opening took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct Opened {
    /// Seconds until the store could be used.
    pub(in crate::engine) open_s: f64,
    /// CPU seconds of all threads until then.
    pub(in crate::engine) cpu_s: f64,
    /// Memory of the whole process then.
    pub(in crate::engine) resident_bytes: u64,
    /// Memory of the whole process before.
    pub(in crate::engine) base_bytes: u64,
    /// Bytes that came from the disk.
    pub(in crate::engine) read_bytes: u64,
    /// Timers that are pending.
    pub(in crate::engine) pending: u64,
    /// Seconds from then to the first firing in hand; absent when none was claimed.
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
        // As a killed process does: nothing is closed.
        process::exit(0)
    }
}

/// Seconds until one firing is in hand.
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
