//! The bytes of one simulated file: the cache that reads see, and the platter that survives a power
//! loss.
//!
//! 1. Every read sees `cache`.
//! 2. For each sector that was written since the last sync, `unsynced` keeps the old bytes of the
//!    platter. A sector that is not in `unsynced` is the same in both.
//! 3. A sync drops entries of `unsynced`. A power loss ([`Content::settle`]) decides for each sector:
//!    the new bytes, the old ones, or a torn mix.
//! 4. A sector whose write-back failed is *given up*: reads still see it, the platter never got it, and
//!    no later sync writes it, as in Linux after EIO. Only another write brings it back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use rand::Rng;
use rand::rngs::SmallRng;

/// The unit in which a simulated disk writes, loses and tears.
pub const SECTOR_BYTES: usize = 512;

type Sector = [u8; SECTOR_BYTES];

/// On average one in this many writes to a dirty sector finds that the kernel wrote back the version
/// before.
const WRITE_BACK_ODDS: u32 = 8;

/// On average one in this many sectors in flight at a power loss is torn.
const TORN_ODDS: u32 = 6;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    cache: Vec<u8>,
    unsynced: BTreeMap<usize, Unsynced>,
    platter_len: usize,
    length: WriteFate,
    /// For each sector: `true` if it takes space on the disk; a hole does not.
    allocated: Vec<bool>,
}

#[derive(Clone, Debug)]
struct Unsynced {
    platter: Box<Sector>,
    fate: WriteFate,
    change: ContentChange,
}

/// The cause of a difference between cache and platter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContentChange {
    Written,
    /// The sector was deallocated; after a power loss that is done or not done, for a whole sector.
    Freed,
}

/// The effect of the next successful sync on a difference between cache and platter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WriteFate {
    Dirty,
    #[default]
    Settled,
}

impl Content {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.cache
    }

    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        let sectors = self.allocated.iter().filter(|taken| **taken).count();
        (sectors * SECTOR_BYTES) as u64
    }

    /// Returns the ranges of sectors within the length that take no space.
    pub(super) fn holes(&self) -> Vec<Range<u64>> {
        let mut holes: Vec<Range<u64>> = Vec::new();
        for index in 0..self.cache.len().div_ceil(SECTOR_BYTES) {
            if self.allocated.get(index).copied().unwrap_or(false) {
                continue;
            }
            let sector = sector_range(index, self.cache.len());
            let (start, end) = (sector.start as u64, sector.end as u64);
            match holes.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => holes.push(start..end),
            }
        }
        holes
    }

    /// Returns how many of `wanted` bytes from `offset` fit if only `free_bytes` more may be allocated,
    /// and the bytes that this allocates.
    pub(super) fn fitting(&self, offset: usize, wanted: usize, free_bytes: u64) -> (usize, u64) {
        let mut new_bytes = 0;
        for sector in sectors(offset..offset + wanted) {
            if self.allocated.get(sector).copied().unwrap_or(false) {
                continue;
            }
            if new_bytes + SECTOR_BYTES as u64 > free_bytes {
                return ((sector * SECTOR_BYTES).saturating_sub(offset), new_bytes);
            }
            new_bytes += SECTOR_BYTES as u64;
        }
        (wanted, new_bytes)
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], rng: &mut SmallRng) {
        if bytes.is_empty() {
            return;
        }
        let range = offset..offset + bytes.len();
        self.touch(sectors(range.clone()), rng);
        if range.end > self.cache.len() {
            self.cache.resize(range.end, 0);
            self.length = WriteFate::Dirty;
        }
        self.cache[range.clone()].copy_from_slice(bytes);
        let taken = sectors(range);
        if taken.end > self.allocated.len() {
            self.allocated.resize(taken.end, false);
        }
        self.allocated[taken].fill(true);
    }

    pub(super) fn set_len(&mut self, len: usize, rng: &mut SmallRng) {
        if len == self.cache.len() {
            return;
        }
        if len < self.cache.len() {
            self.touch(sectors(len..self.cache.len()), rng);
            self.allocated.truncate(len.div_ceil(SECTOR_BYTES));
        }
        self.cache.resize(len, 0);
        self.length = WriteFate::Dirty;
    }

    /// Zeroes a range within the file and frees the sectors that lie completely in it.
    pub(super) fn punch_hole(&mut self, range: Range<usize>, rng: &mut SmallRng) {
        self.touch(sectors(range.clone()), rng);
        self.cache[range.clone()].fill(0);
        let whole = range.start.div_ceil(SECTOR_BYTES)..range.end / SECTOR_BYTES;
        if !whole.is_empty() {
            for (_, sector) in self.unsynced.range_mut(whole.clone()) {
                sector.change = ContentChange::Freed;
            }
            // Behind the last sector ever written there is nothing to free.
            let taken = self.allocated.len();
            self.allocated[whole.start.min(taken)..whole.end.min(taken)].fill(false);
        }
    }

    pub(super) fn sync(&mut self) {
        self.unsynced.retain(|_, sector| sector.fate == WriteFate::Settled);
        if self.length == WriteFate::Dirty {
            self.platter_len = self.cache.len();
            self.length = WriteFate::Settled;
        }
    }

    /// Fails a sync with EIO: some of the dirty sectors got through, the rest is given up.
    pub(super) fn fail_sync(&mut self, rng: &mut SmallRng) {
        self.unsynced.retain(|_, sector| {
            let arrived = sector.fate == WriteFate::Dirty && rng.random();
            sector.fate = WriteFate::Settled;
            !arrived
        });
        if self.length == WriteFate::Dirty && rng.random() {
            self.platter_len = self.cache.len();
        }
        self.length = WriteFate::Settled;
    }

    /// Returns the file as it is found after a power loss.
    pub(super) fn settle(&self, rng: &mut SmallRng) -> Self {
        let mut found = self.cache.clone();
        found.resize(self.cache.len().max(self.platter_len), 0);
        // Of each file all, none, or a part is lost. A fair coin for each sector alone would hardly ever
        // let a long write through, or lose all of it.
        let survivors_of_4 = rng.random_range(0..=4);
        for (&index, sector) in &self.unsynced {
            let range = sector_range(index, found.len());
            if range.is_empty() {
                continue;
            }
            let cut_off = range.start >= self.cache.len();
            let lost_bytes = if sector.fate == WriteFate::Settled || cut_off {
                0..range.len()
            } else if (1..4).contains(&survivors_of_4)
                && sector.change == ContentChange::Written
                && rng.random_ratio(1, TORN_ODDS)
            {
                rng.random_range(0..range.len())..range.len()
            } else if rng.random_ratio(survivors_of_4, 4) {
                0..0
            } else {
                0..range.len()
            };
            found[range][lost_bytes.clone()].copy_from_slice(&sector.platter[lost_bytes]);
        }
        found.truncate(self.settled_len(rng));
        Self::on_platter(found, &self.allocated)
    }

    fn settled_len(&self, rng: &mut SmallRng) -> usize {
        let (old, new) = (self.platter_len, self.cache.len());
        if self.length == WriteFate::Settled {
            return old;
        }
        match rng.random_range(0..3) {
            0 => old,
            1 if old < new => rng.random_range(old..=new),
            _ => new,
        }
    }

    fn on_platter(bytes: Vec<u8>, allocated: &[bool]) -> Self {
        let mut allocated = allocated.to_vec();
        allocated.resize(bytes.len().div_ceil(SECTOR_BYTES), true);
        // If a hole was not durable, its old sectors are found again, with their space.
        for (taken, sector) in allocated.iter_mut().zip(bytes.chunks(SECTOR_BYTES)) {
            *taken |= sector.iter().any(|byte| *byte != 0);
        }
        let platter_len = bytes.len();
        Self { cache: bytes, platter_len, allocated, ..Self::default() }
    }

    /// Damages the stored bytes, synced or not, without any operation.
    pub(super) fn damage(&mut self, range: Range<usize>, damage: impl Fn(&mut u8)) {
        self.cache[range.clone()].iter_mut().for_each(&damage);
        for index in sectors(range.clone()) {
            if let Some(sector) = self.unsynced.get_mut(&index) {
                let start = index * SECTOR_BYTES;
                let from = range.start.saturating_sub(start);
                let to = (range.end - start).min(SECTOR_BYTES);
                sector.platter[from..to].iter_mut().for_each(&damage);
            }
        }
    }

    /// Marks sectors as dirty that are about to change.
    fn touch(&mut self, touched: Range<usize>, rng: &mut SmallRng) {
        for index in touched {
            match self.unsynced.entry(index) {
                Entry::Vacant(entry) => {
                    let platter = copy_sector(&self.cache, index);
                    let (fate, change) = (WriteFate::Dirty, ContentChange::Written);
                    entry.insert(Unsynced { platter, fate, change });
                }
                Entry::Occupied(mut entry) => {
                    let sector = entry.get_mut();
                    if sector.fate == WriteFate::Dirty && rng.random_ratio(1, WRITE_BACK_ODDS) {
                        sector.platter = copy_sector(&self.cache, index);
                    }
                    (sector.fate, sector.change) = (WriteFate::Dirty, ContentChange::Written);
                }
            }
        }
    }
}

fn sectors(bytes: Range<usize>) -> Range<usize> {
    if bytes.is_empty() {
        return 0..0;
    }
    bytes.start / SECTOR_BYTES..bytes.end.div_ceil(SECTOR_BYTES)
}

fn sector_range(index: usize, len: usize) -> Range<usize> {
    let start = (index * SECTOR_BYTES).min(len);
    start..(start + SECTOR_BYTES).min(len)
}

fn copy_sector(bytes: &[u8], index: usize) -> Box<Sector> {
    let mut sector = Box::new([0; SECTOR_BYTES]);
    let range = sector_range(index, bytes.len());
    sector[..range.len()].copy_from_slice(&bytes[range]);
    sector
}
