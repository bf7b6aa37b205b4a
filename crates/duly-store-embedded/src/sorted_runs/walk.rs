//! Reads a sorted run from its first record to its last, for `duly store check`.
//!
//! 1. If the length of a record cannot be trusted, reading continues with the next group of the
//!    directory.
//! 2. Chunks that nothing points into are deallocated, and a power loss may leave some of their old
//!    bytes. So a record that does not decode and touches a sector of zeros is in such a hole, and is
//!    not damaged.
//! 3. The caller detects the loss of a record that something points at: `each` is not called with it.

use std::ops::Range;

use duly_core::Timestamp;

use crate::{
    disk,
    format::{
        ALIGN, align_up,
        record::{self, Decoded, Record},
        sorted_run::{Group, HEADER_BYTES, RunKind, hour_of},
    },
};

use super::SortedRun;

/// A byte of a sorted run, and the fault there.
pub(crate) type RecordFault = (u64, String);

/// Passes each record and its byte offset to `each`. Returns the faults.
pub(crate) fn walk(
    run: &SortedRun,
    each: &mut dyn FnMut(u64, Decoded),
) -> disk::Result<Vec<RecordFault>> {
    let length = usize::try_from(run.records_end).expect("a run has at most 256 MiB");
    let mut bytes = vec![0; length];
    run.file.read_exact_at(0, &mut bytes)?;
    let mut walk = Walk { run, bytes: &bytes, wrong: Vec::new(), times: None, has_hole: false };
    for (place, group) in run.groups.iter().enumerate() {
        let end = run.groups.get(place + 1);
        let end = end.map_or(run.records_end, |next| u64::from(next.unit) * ALIGN);
        walk.group(group, end, each);
    }
    let said = (run.time_min_ms, run.time_max_ms);
    if let Some(times) = walk.times
        && walk.wrong.is_empty()
        && !walk.has_hole
        && times != said
    {
        let what = format!("the trailer says times {said:?}, the records have {times:?}");
        walk.wrong.push((run.records_end, what));
    }
    Ok(walk.wrong)
}

struct Walk<'a> {
    run: &'a SortedRun,
    bytes: &'a [u8],
    wrong: Vec<RecordFault>,
    /// Earliest and latest time.
    times: Option<(u64, u64)>,
    has_hole: bool,
}

impl Walk<'_> {
    fn group(&mut self, group: &Group, end: u64, each: &mut dyn FnMut(u64, Decoded)) {
        let mut at = (u64::from(group.unit) * ALIGN).max(HEADER_BYTES);
        let (mut count, mut is_holed) = (0, false);
        while at < end {
            let rest = &self.bytes[memory(at)..memory(end)];
            let fitting = record::bytes_of(rest).map(align_up);
            let fitting = fitting.filter(|bytes| *bytes <= rest.len() as u64);
            match record::decode(rest) {
                Ok(decoded) => {
                    self.check_place(at, group, &decoded);
                    each(at, decoded);
                }
                // A header is within one sector, so it is complete or gone.
                Err(_) if self.touches_zeros(at..at + fitting.unwrap_or(ALIGN)) => is_holed = true,
                Err(error) if fitting.is_some() => self.wrong.push((at, error.to_string())),
                Err(_) => {
                    self.wrong.push((at, "no record that fits its group begins here".into()));
                    return;
                }
            }
            // No record begins with zeros, so behind them only the next group can be found.
            let Some(bytes) = fitting.filter(|_| !are_zeros(&rest[..UNIT])) else {
                break;
            };
            count += 1;
            at += bytes;
        }
        self.has_hole |= is_holed;
        if count != group.count && !is_holed {
            let what = format!("{count} records where the directory has {}", group.count);
            self.wrong.push((u64::from(group.unit) * ALIGN, what));
        }
    }

    /// Returns `true` if any sector that the range touches is all zeros.
    fn touches_zeros(&self, range: Range<u64>) -> bool {
        let first = memory(range.start) / SECTOR_BYTES * SECTOR_BYTES;
        let end = memory(range.end).next_multiple_of(SECTOR_BYTES).min(self.bytes.len());
        self.bytes[first..end].chunks_exact(SECTOR_BYTES).any(are_zeros)
    }

    fn check_place(&mut self, at: u64, group: &Group, decoded: &Decoded) {
        let Some((kind, time_ms)) = sorted_by(&decoded.record) else {
            self.wrong.push((at, "a record of this kind is in no run".into()));
            return;
        };
        if kind != self.run.kind {
            self.wrong.push((at, format!("a record of {kind:?} in a run of {:?}", self.run.kind)));
        }
        let key = (hour_of(time_ms), decoded.namespace);
        if key != group.key() {
            let what = format!("a record of {key:?} in the group of {:?}", group.key());
            self.wrong.push((at, what));
        }
        let (least, most) = self.times.unwrap_or((time_ms, time_ms));
        self.times = Some((least.min(time_ms), most.max(time_ms)));
    }
}

/// Length of the first bytes of a record, which are never all zeros.
const UNIT: usize = ALIGN as usize;
/// The unit in which a disk deallocates.
const SECTOR_BYTES: usize = 512;

fn are_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Returns the kind of the sorted run that a record belongs to, and the time that it is sorted by.
fn sorted_by(record: &Record) -> Option<(RunKind, u64)> {
    match record {
        Record::Pending(_, timer) => {
            let at = timer.next_attempt_at.unwrap_or(timer.due_at);
            Some((RunKind::Pending, at.unix_ms()))
        }
        Record::Ended { expires_at, .. } => {
            Some((RunKind::Tombstones, expires_at.map_or(0, Timestamp::unix_ms)))
        }
        Record::Dead(_, timer) => Some((RunKind::DeadLetters, timer.due_at.unix_ms())),
        _ => None,
    }
}

fn memory(offset: u64) -> usize {
    usize::try_from(offset).expect("a run has at most 256 MiB")
}
