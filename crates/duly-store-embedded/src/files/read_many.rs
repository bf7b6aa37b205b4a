//! Reading many records at once: few reads, and a disk that knows what comes.
//!
//! A claim asks for up to a thousand timers in the order in which they are due. Those in a run stand
//! side by side and are one read; those in segments are scattered. Where they are not in memory, each
//! read alone would wait for the disk, so it is told of many ahead.

use std::ops::Range;

use crate::{
    format::{
        ALIGN,
        record::{self, Decoded},
    },
    index::Location,
};

use super::{Files, ReadError};

/// Reads that a disk is told of ahead: as many as keep a fast one busy, and few enough that what
/// came is still in memory when it is read.
const READ_AHEAD: usize = 256;
/// Bytes of these reads at which no further one is told of.
const READ_AHEAD_BYTES: u64 = 16 << 20;
/// Bytes between two records that are read along rather than skipped.
const GAP_BYTES: u64 = 4 << 10;
/// Most bytes of one read.
const RANGE_BYTES_MAX: u64 = 512 << 10;

impl Files {
    /// Reads many records back, as few reads as their places allow; answers in the order asked.
    pub(crate) fn read_many(&self, locations: &[Location]) -> Vec<Result<Decoded, ReadError>> {
        let mut order: Vec<usize> = (0..locations.len()).collect();
        order.sort_unstable_by_key(|&place| (locations[place].slot(), locations[place].unit()));
        let mut answers: Vec<Option<Result<Decoded, ReadError>>> = Vec::new();
        answers.resize_with(locations.len(), || None);
        let mut ranges = Vec::new();
        let mut rest = order.as_slice();
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
            let (range, later) = rest.split_at(count);
            rest = later;
            ranges.push((slot, start..end, range));
        }
        // A disk that does not have them in memory is told of many at once: it works on all of them
        // while the first is waited for.
        let mut ahead = ranges.iter().take(if ranges.len() > 1 { ranges.len() } else { 0 });
        let (mut told, mut told_bytes) = (0, 0);
        for (slot, bytes, range) in &ranges {
            while told < READ_AHEAD
                && told_bytes < READ_AHEAD_BYTES
                && let Some((slot, bytes, _)) = ahead.next()
            {
                self.will_need(*slot, bytes);
                (told, told_bytes) = (told + 1, told_bytes + (bytes.end - bytes.start));
            }
            self.read_range(*slot, bytes.clone(), range, locations, &mut answers);
            told = told.saturating_sub(1);
            told_bytes = told_bytes.saturating_sub(bytes.end - bytes.start);
        }
        let answers = answers.into_iter();
        answers.map(|answer| answer.expect("each place is in one range")).collect()
    }

    fn will_need(&self, slot: u16, bytes: &Range<u64>) {
        if let Some(file) = self.get(slot) {
            file.file
                .will_need(bytes.start, bytes.end.min(file.length).saturating_sub(bytes.start));
        }
    }

    fn read_range(
        &self,
        slot: u16,
        bytes: Range<u64>,
        places: &[usize],
        locations: &[Location],
        answers: &mut [Option<Result<Decoded, ReadError>>],
    ) {
        let alone = places.len() == 1;
        let mut read = Vec::new();
        if !alone && let Some(file) = self.get(slot) {
            let end = bytes.end.min(file.length);
            read.resize(usize::try_from(end - bytes.start.min(end)).unwrap_or(0), 0);
            let got = file.file.read_at(bytes.start, &mut read).unwrap_or(0);
            read.truncate(got);
        }
        for &place in places {
            let location = locations[place];
            let at = usize::try_from(offset_of(location) - bytes.start).unwrap_or(usize::MAX);
            // One that reaches beyond what was read, or is damaged, is read again by itself: then
            // the answer says where and why.
            let decoded = read.get(at..).map(record::decode).and_then(Result::ok);
            answers[place] = Some(decoded.map_or_else(|| self.read(location), Ok));
        }
    }
}

fn offset_of(location: Location) -> u64 {
    location.unit() * ALIGN
}

#[cfg(test)]
mod tests;
