//! The numbers of namespaces. There are 2^24 for the whole life of a store, so some are reused.
//!
//! Every record names its namespace by number, and so do index entries and keys of leases. New namespaces
//! get numbers that were never used, until few of these are left. Then the engine searches for free
//! numbers in the background, about a million at a time.
//!
//! What must stay true:
//!
//! 1. **A number is reused only if no record on disk refers to it.** The search reads the directory of
//!    every sorted run and every record of every segment. A file that cannot be read whole ends the
//!    search without a result.
//! 2. Numbers that may not be written yet count as used: those of existing namespaces, of namespaces that
//!    ended since the segment before the active one was begun, and those given out during the search.
//! 3. During the search no file is removed. It begins only if nothing else on its way to the disk may
//!    name an older number: no rewrite, no checkpoint, no removal, and no entries of ended namespaces.
//!
//! From 1 follows that no replay meets two namespaces of one number. Both kept checkpoints have the end
//! of the first one, and began after it; otherwise the segment with the record of that end would still be
//! there.

use std::sync::Arc;

use duly_core::Millis;
use duly_store::{Error, Result};

use crate::{
    disk::Disk, journal::recovery, manifest::Manifest, numbered::SORTED_RUNS, open::OpenError,
    sorted_runs,
};

use super::Engine;

/// Unused numbers at or below which a search begins; or one in `FRESH_LOW_PART` of all numbers, if that
/// is fewer.
const FRESH_LOW: u32 = 1 << 20;
const FRESH_LOW_PART: u32 = 4;
/// Free numbers that a search keeps.
const FREE_MAX: usize = 1 << 20;
/// Free numbers at or below which another search begins.
const FREE_LOW: usize = 1 << 16;
/// Time between two searches. Tests move no clock for it.
const PAUSE_MS: u64 = if cfg!(test) { 0 } else { 60_000 };

/// State of the numbers of namespaces.
#[derive(Debug, Default)]
pub(super) struct NamespaceNumbers {
    /// Numbers that were free at the last search and were not given out since.
    free: Vec<u32>,
    /// Numbers of namespaces that ended since the active segment was begun, and in the segment before it.
    ended: [Vec<u32>; 2],
    /// During a search: numbers that were given out since it began.
    given: Option<Vec<u32>>,
    is_wanted: bool,
    not_before_ms: u64,
}

impl NamespaceNumbers {
    /// Records the end of a namespace.
    pub(super) fn note_end(&mut self, number: u32) {
        self.ended[0].push(number);
    }

    /// Records that a new segment is the active one.
    pub(super) fn note_roll(&mut self) {
        self.ended[1] = std::mem::take(&mut self.ended[0]);
    }

    /// Returns `true` if no file may be removed, because a search is under way.
    pub(super) const fn is_searching(&self) -> bool {
        self.given.is_some()
    }
}

impl Engine {
    /// Gives a number to a new namespace.
    pub(super) fn take_number(&mut self) -> Result<u32> {
        let (highest, max) = (self.namespaces.highest_number(), self.options.namespace_numbers);
        let fresh = max.saturating_sub(highest);
        if fresh <= FRESH_LOW.min(max / FRESH_LOW_PART)
            && self.namespace_numbers.free.len() <= FREE_LOW
        {
            self.namespace_numbers.is_wanted = true;
        }
        let number = if fresh > 0 { Some(highest + 1) } else { self.namespace_numbers.free.pop() };
        let number = number.ok_or_else(|| Error::Overloaded {
            reason: format!(
                "all {max} namespace numbers have been used, and files still refer to them; \
                 numbers become free as the journal is rewritten"
            ),
            retry_after: Millis::from_secs(60),
        })?;
        if let Some(given) = &mut self.namespace_numbers.given {
            given.push(number);
        }
        Ok(number)
    }

    /// Begins a search for free numbers, if one is wanted and nothing prevents it.
    pub(super) fn search_free_numbers(&mut self) {
        let numbers = &self.namespace_numbers;
        let may_begin = numbers.is_wanted
            && !numbers.is_searching()
            && self.now.boot_ms >= numbers.not_before_ms
            && self.rewriter.is_idle()
            && !self.checkpoints.is_taking()
            && !self.checkpoints.is_reclaiming
            && self.reclamation.is_empty();
        if !may_begin {
            return;
        }
        let highest = self.namespaces.highest_number();
        let mut used = UsedNumbers::up_to(highest);
        self.namespaces.iter().for_each(|(number, _)| used.insert(number));
        self.namespace_numbers.ended.iter().flatten().for_each(|number| used.insert(*number));
        self.namespace_numbers.given = Some(Vec::new());
        let (disk, manifest) = (Arc::clone(&self.disk), self.manifest);
        self.in_background(
            move || used.read(disk.as_ref(), &manifest).map(|()| used.free()),
            |engine, found| engine.free_numbers_found(found),
        );
    }

    fn free_numbers_found(&mut self, found: std::result::Result<Vec<u32>, OpenError>) {
        let mut given = self.namespace_numbers.given.take().unwrap_or_default();
        self.namespace_numbers.not_before_ms = self.now.boot_ms + PAUSE_MS;
        // The next namespace that finds too few free numbers asks for another search.
        self.namespace_numbers.is_wanted = false;
        match found {
            Ok(mut free) => {
                given.sort_unstable();
                free.retain(|number| given.binary_search(number).is_err());
                tracing::info!(free = free.len(), "search for free namespace numbers complete");
                self.namespace_numbers.free = free;
            }
            Err(error) => {
                tracing::warn!(%error, "search for free namespace numbers failed, will retry");
            }
        }
        // Removals that waited for the search run now.
        self.reclaim();
    }
}

/// A set of numbers.
struct UsedNumbers {
    bits: Vec<u64>,
    highest: u32,
}

impl UsedNumbers {
    fn up_to(highest: u32) -> Self {
        Self { bits: vec![0; highest as usize / 64 + 1], highest }
    }

    fn insert(&mut self, number: u32) {
        if let Some(bits) = self.bits.get_mut(number as usize / 64) {
            *bits |= 1 << (number % 64);
        }
    }

    /// Reads the numbers that the files name.
    fn read(&mut self, disk: &dyn Disk, manifest: &Manifest) -> std::result::Result<(), OpenError> {
        for sequence in recovery::all_sequences(disk)? {
            let mut note =
                |_, decoded: crate::format::record::Decoded| self.insert(decoded.namespace);
            let read = recovery::read_segment(disk, manifest, sequence, &mut note)?;
            // An unreadable record may name any number.
            if let Some(damage) = read.and_then(|alone| alone.damage.into_iter().next()) {
                return Err(damage);
            }
        }
        for id in SORTED_RUNS.list(disk)? {
            let run = sorted_runs::open(disk, id, manifest)?;
            run.groups.iter().for_each(|group| self.insert(group.namespace));
        }
        Ok(())
    }

    /// Returns numbers that are not in the set.
    fn free(&self) -> Vec<u32> {
        let is_free = |number: &u32| self.bits[*number as usize / 64] & 1 << (number % 64) == 0;
        (1..=self.highest).filter(is_free).take(FREE_MAX).collect()
    }
}
