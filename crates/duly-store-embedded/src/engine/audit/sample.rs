//! Samples: reads a few records a second, to find damaged ones before their timers fire.
//!
//! The background thread reads, on file handles taken at that moment. By then a file may be removed or
//! reused. So a record that does not read back is only a suspect: the engine reads it once more, from the
//! place at which the entry points then.

use std::sync::Arc;

use crate::{
    disk::File,
    files::ReadError,
    format::{ALIGN, record},
    index::{Entry, Key, Location},
};

use super::{
    super::{Engine, invariants::is_leased},
    AuditFinding,
};

const READS_PER_SECOND: u64 = 100;
const BYTES_PER_SECOND: u64 = 4 << 20;
/// Bytes that are read of a record of the largest size class.
const LARGEST_READ_BYTES: usize = 2 << 20;
/// Most reads of one background job.
const READS_MAX: u64 = 32;

/// The budget of reads.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    thousandths: u64,
    bytes: u64,
    /// Number of samples so far. Each starts at another entry of its table, so that in the end every
    /// entry is read.
    turn: usize,
    is_under_way: bool,
}

impl Sampler {
    /// Adds the budget of `ms` milliseconds.
    pub(super) fn earn(&mut self, ms: u64) {
        let ms = ms.min(1_000);
        self.thousandths = (self.thousandths + ms * READS_PER_SECOND).min(READS_MAX * 1_000);
        self.bytes = (self.bytes + ms * BYTES_PER_SECOND / 1_000).min(BYTES_PER_SECOND);
    }

    fn reads(&self) -> usize {
        if self.is_under_way {
            return 0;
        }
        usize::try_from(self.thousandths / 1_000).unwrap_or(0)
    }

    const fn spend(&mut self, bytes: u64) -> bool {
        let is_enough = self.bytes >= bytes && self.thousandths >= 1_000;
        if is_enough {
            self.bytes -= bytes;
            self.thousandths -= 1_000;
        }
        is_enough
    }
}

/// A record to be read.
struct RecordSample {
    key: Key,
    location: Location,
    file: Arc<dyn File>,
}

impl RecordSample {
    /// Returns `false` if the record does not read back.
    fn reads_back(&self) -> bool {
        let mut bytes = vec![0; usize::try_from(self.location.bytes_max()).unwrap_or(0)];
        let Ok(got) = self.file.read_at(self.location.unit() * ALIGN, &mut bytes) else {
            return true;
        };
        bytes.truncate(got);
        // Of the very largest records only the first part was read.
        let is_cut = got >= LARGEST_READ_BYTES
            && record::bytes_of(&bytes).is_some_and(|total| total > got as u64);
        is_cut || record::decode(&bytes).is_ok()
    }
}

impl Engine {
    /// Reads some records of these entries in the background, spread evenly over them.
    pub(super) fn sample(&mut self, number: u32, entries: &[Entry]) {
        let wanted = self.auditor.sampler.reads();
        if wanted == 0 || entries.is_empty() {
            return;
        }
        let mut samples = Vec::new();
        let stride = entries.len().div_ceil(wanted);
        self.auditor.sampler.turn = self.auditor.sampler.turn.wrapping_add(1);
        let start = self.auditor.sampler.turn % stride;
        for entry in entries.iter().skip(start).step_by(stride) {
            let location = entry.location();
            let Some(file) = self.files.get(location.slot()) else {
                continue;
            };
            let can_be_read = !is_leased(entry) && self.is_durable(location);
            if can_be_read && self.auditor.sampler.spend(location.bytes_max()) {
                let (key, file) = (entry.key(number), Arc::clone(&file.file));
                samples.push(RecordSample { key, location, file });
            }
        }
        if samples.is_empty() {
            return;
        }
        self.auditor.sampler.is_under_way = true;
        let read = move || {
            samples.retain(|sample: &RecordSample| !sample.reads_back());
            samples
        };
        self.in_background(read, |engine, suspects: Vec<RecordSample>| {
            engine.auditor.sampler.is_under_way = false;
            for RecordSample { key, location, .. } in suspects {
                engine.check_sample(key, location);
            }
        });
    }

    fn check_sample(&mut self, key: Key, location: Location) {
        let entry = self.namespaces.live(key).filter(|entry| entry.location() == location);
        let Some(entry) = entry.filter(|entry| !is_leased(entry)) else {
            return;
        };
        if let Err(ReadError::Damaged { .. }) = self.load_timer(location) {
            let place = self.place_of(location);
            let what = "a record does not read back; its timer becomes a dead letter".to_owned();
            self.note_fault(AuditFinding {
                kind: "record",
                namespace: key.namespace(),
                place,
                what,
            });
            self.dead_letter_damaged(key, &entry);
        }
    }
}
