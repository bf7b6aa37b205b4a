//! The choice of the records of a part that are copied.
//!
//! A lookup of a record in the index is a cache miss on the thread that serves callers, and the move
//! needs a second one. So the rewriter avoids lookups where it can:
//!
//! 1. It looks up a sample of a segment's part first. If nearly all of the sampled bytes are live, it
//!    copies the small pending timers of the part without a lookup, in the background.
//! 2. Dead records that are copied in this way stay dead. No location moves to them, and their space is
//!    freed with that of their neighbours.
//! 3. Large records are always looked up. So are those of runs, which are rewritten to drop dead records.

use crate::{
    effect::Effect,
    files::FileId,
    format::sorted_run,
    index::{Entry, Key, Location},
};

use super::{Candidate, Engine, GatheredPart, JobBuffers, RewriteJob, RewriterState, Survivor};

/// Size of the sample.
const SAMPLE: usize = 128;
/// One of every `DEAD_FRACTION` bytes may be dead.
const DEAD_FRACTION: u64 = 8;
/// Most bytes of a record that may be copied without a lookup.
const SMALL_BYTES_MAX: u64 = 1_024;

impl Engine {
    /// Looks up some records of a part, and copies those that the indexes point at.
    pub(super) fn select(&mut self, mut job: RewriteJob, slot: u16, next: usize) {
        if next == 0 && self.is_mostly_live(slot, &job.buffers.part) {
            job.buffers.part.is_live_in = Some(slot);
        }
        let JobBuffers { part, survivors, bytes: kept } = &mut job.buffers;
        let end = (next + self.rewriter.records_per_step()).min(part.candidates.len());
        let without_lookup = part.is_live_in.is_some();
        let needs_lookup = |candidate: &&Candidate| !(without_lookup && is_small(candidate));
        let candidates = part.candidates[next..end].iter().filter(needs_lookup);
        self.namespaces.warm(candidates.clone().filter_map(|candidate| candidate.effect.key()));
        for candidate in candidates {
            if let Some(survivor) = self.survivor(slot, candidate) {
                let start = kept.len();
                kept.extend_from_slice(&part.bytes[candidate.start..candidate.end]);
                survivors.push(Survivor { bytes: start..kept.len(), ..survivor });
            }
        }
        self.busy = true;
        if end < part.candidates.len() {
            self.rewriter.state = RewriterState::Selecting { job, slot, next: end };
        } else if let Some(next) = part.next.take() {
            self.read_part(job, slot, Some(next));
        } else {
            self.read_next(job);
        }
    }

    fn is_mostly_live(&self, slot: u16, part: &GatheredPart) -> bool {
        let is_run =
            self.files.get(slot).is_none_or(|file| matches!(file.id, FileId::SortedRun(_)));
        if is_run {
            return false;
        }
        let small = part.candidates.iter().filter(|candidate| is_small(candidate));
        let stride = part.candidates.len().div_ceil(SAMPLE).max(1);
        let (mut seen_bytes, mut dead_bytes) = (0, 0);
        for candidate in small.step_by(stride) {
            seen_bytes += candidate.bytes;
            if self.survivor(slot, candidate).is_none() {
                dead_bytes += candidate.bytes;
            }
        }
        seen_bytes > 0 && dead_bytes * DEAD_FRACTION <= seen_bytes
    }

    /// Returns the record to copy, without its bytes, if the index points at it.
    fn survivor(&self, slot: u16, candidate: &Candidate) -> Option<Survivor> {
        let (kind, key, entry) = self.entry_of(candidate.namespace, &candidate.effect)?;
        let old = candidate.location(slot);
        if entry.location() != old {
            return None;
        }
        let firing = match &candidate.effect {
            Effect::Dead { firing, .. } => Some(firing.clone()),
            _ => None,
        };
        let time_ms = match &candidate.effect {
            // The entry has the end of the timer.
            Effect::Ended { ends_ms, .. } => (*ends_ms)?,
            _ => entry.claimable().at_ms,
        };
        let (bytes, new) = (0..0, (0, 0));
        Some(Survivor { kind, key, firing, time_ms, old, bytes, new })
    }

    /// Returns the key and the entry of the timer, tombstone or dead letter that a record is about.
    pub(in crate::engine) fn entry_of(
        &self,
        number: u32,
        effect: &Effect,
    ) -> Option<(sorted_run::RunKind, Key, Entry)> {
        let namespace = self.namespaces.get(number)?;
        let (kind, key, index) = match effect {
            Effect::Pending(pending) => {
                (sorted_run::RunKind::Pending, pending.key, &namespace.live)
            }
            Effect::Redriven(redriven) => {
                (sorted_run::RunKind::Pending, redriven.pending.key, &namespace.live)
            }
            Effect::Ended { key, .. } => {
                (sorted_run::RunKind::Tombstones, *key, &namespace.tombstones.index)
            }
            Effect::Dead { key, firing, .. } => {
                let delivery = firing.delivery_id(namespace.record.name.as_str());
                let entry = namespace.dead_letters.entry(self.hash_key, number, delivery)?;
                return Some((sorted_run::RunKind::DeadLetters, *key, entry));
            }
            _ => return None,
        };
        Some((kind, key, index.get(key)?))
    }
}

impl JobBuffers {
    /// Copies the small pending timers of a part that is nearly all live, without a lookup. The other
    /// records were looked up before.
    pub(super) fn copy_without_lookup(&mut self) {
        let Some(slot) = self.part.is_live_in.take() else {
            return;
        };
        for candidate in self.part.candidates.iter().filter(|candidate| is_small(candidate)) {
            let Effect::Pending(pending) = &candidate.effect else {
                continue;
            };
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&self.part.bytes[candidate.start..candidate.end]);
            self.survivors.push(Survivor {
                kind: sorted_run::RunKind::Pending,
                key: pending.key,
                firing: None,
                time_ms: pending.claimable.at_ms,
                old: candidate.location(slot),
                bytes: start..self.bytes.len(),
                new: (0, 0),
            });
        }
    }
}

impl Candidate {
    fn location(&self, slot: u16) -> Location {
        Location::new(slot, u64::from(self.unit), self.bytes)
    }
}

const fn is_small(candidate: &Candidate) -> bool {
    matches!(candidate.effect, Effect::Pending(_)) && candidate.bytes <= SMALL_BYTES_MAX
}
