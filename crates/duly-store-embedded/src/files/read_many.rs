//! Reads many records at once, with few reads and with hints to the disk.
//!
//! 1. A claim asks for up to a thousand timers in the order of their due times. Those in a sorted run
//!    are adjacent and take one read; those in segments are scattered.
//! 2. Records that are in memory are read at once.
//! 3. For the others, each read alone would wait for the disk. So the disk gets hints of many reads
//!    ahead, and works on all of them while the first is waited for.

use std::{collections::VecDeque, ops::Range};

use crate::{
    format::{
        ALIGN,
        record::{self, Decoded},
    },
    index::Location,
};

use super::{Files, ReadError};

/// Reads that the disk gets hints of: enough to keep a fast disk busy, and few enough that the bytes are
/// still in memory when they are read.
const READ_AHEAD: usize = 256;
/// Bytes of the hinted reads at which no further hint is given.
const READ_AHEAD_BYTES: u64 = 16 << 20;
/// Gap between two records that is read rather than skipped.
const GAP_BYTES: u64 = 4 << 10;
/// Most bytes of one read.
const RANGE_BYTES_MAX: u64 = 512 << 10;

impl Files {
    /// Reads many records back, with as few reads as their places allow. Returns them in the order
    /// asked. After `failures_max` failures the disk is not asked for the other records: each failure
    /// may take the disk long.
    pub(crate) fn read_many(&self, locations: &[Location], failures_max: usize) -> ReadResults {
        let mut order: Vec<usize> = (0..locations.len()).collect();
        order.sort_unstable_by_key(|&place| (locations[place].slot(), locations[place].unit()));
        let mut results = ReadResults::new(locations.len(), failures_max);
        let mut waiting = VecDeque::new();
        let (mut hinted_bytes, mut buffer) = (0, Vec::new());
        let read_ranges = read_ranges(&order, locations);
        let is_only = read_ranges.len() == 1;
        for range in read_ranges {
            if self.read_in_memory(&range, locations, &mut buffer, &mut results) {
                continue;
            }
            if !is_only {
                self.will_need(&range);
            }
            hinted_bytes += range.len();
            waiting.push_back(range);
            while (waiting.len() >= READ_AHEAD || hinted_bytes >= READ_AHEAD_BYTES)
                && let Some(range) = waiting.pop_front()
            {
                hinted_bytes -= range.len();
                self.read_range(&range, locations, &mut buffer, &mut results);
            }
        }
        for range in &waiting {
            self.read_range(range, locations, &mut buffer, &mut results);
        }
        results
    }

    fn will_need(&self, range: &ReadRange<'_>) {
        if let Some(file) = self.get(range.slot) {
            let Range { start, end } = range.bytes;
            file.file.will_need(start, end.min(file.length).saturating_sub(start));
        }
    }

    /// Reads a range if it is in memory. Returns `true` if it was.
    fn read_in_memory(
        &self,
        range: &ReadRange<'_>,
        locations: &[Location],
        buffer: &mut Vec<u8>,
        results: &mut ReadResults,
    ) -> bool {
        let Some(file) = self.get(range.slot) else {
            return false;
        };
        range.resize_buffer(buffer, file.length);
        let got = file.file.read_now(range.bytes.start, buffer).unwrap_or(0);
        let is_whole = got == buffer.len();
        if is_whole {
            self.decode(range, locations, buffer, results);
        }
        is_whole
    }

    fn read_range(
        &self,
        range: &ReadRange<'_>,
        locations: &[Location],
        buffer: &mut Vec<u8>,
        results: &mut ReadResults,
    ) {
        buffer.clear();
        if range.places.len() > 1
            && results.failures_left > 0
            && let Some(file) = self.get(range.slot)
        {
            range.resize_buffer(buffer, file.length);
            let got = file.file.read_at(range.bytes.start, buffer).unwrap_or(0);
            buffer.truncate(got);
        }
        self.decode(range, locations, buffer, results);
    }

    fn decode(
        &self,
        range: &ReadRange<'_>,
        locations: &[Location],
        read: &[u8],
        results: &mut ReadResults,
    ) {
        for &place in range.places {
            let location = locations[place];
            let at = usize::try_from(offset_of(location) - range.bytes.start);
            // A record that reaches beyond the bytes read, or is damaged, is read again alone: then the
            // error names its place and cause.
            let bytes = at.ok().and_then(|at| read.get(at..));
            let decoded = bytes.map(record::decode).and_then(Result::ok);
            results.take(place, || decoded.map_or_else(|| self.read(location), Ok));
        }
    }
}

/// The results of the reads, in the order asked; `None` for records that the disk was not asked for.
#[derive(Debug)]
pub(crate) struct ReadResults {
    of: Vec<Option<Result<Decoded, ReadError>>>,
    failures_left: usize,
}

impl ReadResults {
    pub(crate) fn new(count: usize, failures_max: usize) -> Self {
        let of = std::iter::repeat_with(|| None).take(count).collect();
        Self { of, failures_left: failures_max }
    }

    /// Takes a result, unless the disk has failed too often.
    pub(crate) fn take(&mut self, nth: usize, read: impl FnOnce() -> Result<Decoded, ReadError>) {
        if self.failures_left > 0 {
            let result = read();
            self.failures_left -= usize::from(matches!(result, Err(ReadError::Disk(_))));
            self.of[nth] = Some(result);
        }
    }

    /// Returns the results.
    pub(crate) fn into_vec(self) -> Vec<Option<Result<Decoded, ReadError>>> {
        self.of
    }
}

/// Records of one file that are read at once.
#[derive(Debug)]
struct ReadRange<'a> {
    slot: u16,
    bytes: Range<u64>,
    /// Indexes of these records in the request.
    places: &'a [usize],
}

impl ReadRange<'_> {
    const fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    fn resize_buffer(&self, buffer: &mut Vec<u8>, file_bytes: u64) {
        let bytes = self.bytes.end.min(file_bytes).saturating_sub(self.bytes.start);
        buffer.clear();
        buffer.resize(usize::try_from(bytes).expect("a stretch fits memory"), 0);
    }
}

/// Joins records that are close to each other; the order is that of the places.
fn read_ranges<'a>(order: &'a [usize], locations: &[Location]) -> Vec<ReadRange<'a>> {
    let mut read_ranges = Vec::new();
    let mut rest = order;
    while let Some((&first, _)) = rest.split_first() {
        let (slot, start) = (locations[first].slot(), offset_of(locations[first]));
        let mut end = start + locations[first].bytes_max();
        let mut count = 1;
        for &next in &rest[1..] {
            let from = offset_of(locations[next]);
            let until = from + locations[next].bytes_max();
            let is_near = locations[next].slot() == slot && from <= end + GAP_BYTES;
            if !is_near || until - start > RANGE_BYTES_MAX {
                break;
            }
            end = end.max(until);
            count += 1;
        }
        let (places, later) = rest.split_at(count);
        rest = later;
        read_ranges.push(ReadRange { slot, bytes: start..end, places });
    }
    read_ranges
}

fn offset_of(location: Location) -> u64 {
    location.unit() * ALIGN
}

#[cfg(test)]
mod tests;
