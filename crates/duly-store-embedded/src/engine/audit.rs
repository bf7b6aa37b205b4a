//! The auditor: a slow walk over the indexes that compares what should agree, while the store works.
//!
//! ```text
//!   namespace after namespace, table after table ─► entry.rs   each entry with files, leases, lanes
//!                                                └► tally.rs   what was counted, where nothing changed
//!   leases, part after part ─────────────────────► entries
//!   a few records a second ──────────────────────► sample.rs   read in the background
//! ```
//!
//! Every part of the engine keeps its structures in step with the index; should one of them fail to,
//! a timer could be due with nobody knowing. So each pass looks for such a timer, and for whatever
//! else must not be, says so in the log and in a metric, and puts it right where that is plain.
//!
//! It works in quiet moments, paced by the boot-time clock, and now and then under load. A step looks
//! at a bounded number of entries; what it meets in the middle of a change is judged by rules that
//! hold in every moment between two steps. A finding is an error in Duly (or in the machine's memory),
//! but for records that do not read back.

use duly_core::{NamespaceName, Timestamp, metric_names};

use crate::{format::ALIGN, index::Cursor};

use super::Engine;

mod entry;
mod lanes;
mod sample;
mod tally;
#[cfg(test)]
mod tests;

use entry::Wrong;
use tally::Tally;

/// Time between two steps.
const STEP_MS: u64 = 50;
/// Time between two steps while the engine has other work.
const STEP_UNDER_LOAD_MS: u64 = 500;
/// What a step may look at, in plain entries.
const LOOKS_PER_STEP: usize = 16_384;
/// What it costs to look at an entry that has something to be compared with.
const LOOKS_PER_FLAGGED: usize = 16;
/// What it costs to come to another namespace or part of the leases.
const LOOKS_PER_PART: usize = 16;

/// How far the auditor is, and what it has found.
#[derive(Debug)]
pub(super) struct Auditor {
    /// When it last took a step, by the boot-time clock.
    stepped_ms: u64,
    /// When the last pass ended, by the boot-time clock; at first, when the store was opened.
    rested_since_ms: u64,
    pass: Option<Pass>,
    sampler: sample::Sampler,
    /// What it has found since the store was opened.
    pub(super) findings: u64,
    /// When the last whole pass ended.
    pub(super) audited_at: Option<Timestamp>,
}

/// A walk over everything.
#[derive(Debug, Default)]
struct Pass {
    /// The namespace under way, or the one behind which to go on.
    name: Option<NamespaceName>,
    walk: Option<Walk>,
    /// The part of the leases that is next.
    leases: usize,
}

/// A walk over the index of one namespace.
#[derive(Debug)]
struct Walk {
    number: u32,
    cursor: Cursor,
    /// What [`super::namespaces::Namespace::touched`] said when it began.
    touched: u64,
    tally: Tally,
}

impl Auditor {
    pub(super) fn new(boot_ms: u64) -> Self {
        Self {
            stepped_ms: boot_ms,
            rested_since_ms: boot_ms,
            pass: None,
            sampler: sample::Sampler::default(),
            findings: 0,
            audited_at: None,
        }
    }
}

/// A disagreement, for the log.
#[derive(Debug)]
struct Finding {
    /// A word for the metric.
    kind: &'static str,
    namespace: u32,
    /// Where: a place in a file, a lane, a count. Never what a timer carries.
    place: String,
    what: &'static str,
}

impl Engine {
    /// One step, if it is time.
    pub(super) fn audit(&mut self) {
        let waited_ms = self.now.boot_ms.saturating_sub(self.auditor.stepped_ms);
        let wait_ms = if self.busy { STEP_UNDER_LOAD_MS } else { STEP_MS };
        if waited_ms < wait_ms {
            return;
        }
        let rested_ms = self.now.boot_ms.saturating_sub(self.auditor.rested_since_ms);
        let begins = || (rested_ms >= self.options.audit_rest_ms).then(Pass::default);
        let Some(mut pass) = self.auditor.pass.take().or_else(begins) else {
            return;
        };
        self.auditor.stepped_ms = self.now.boot_ms;
        self.auditor.sampler.earn(waited_ms);
        if self.audit_step(&mut pass) {
            self.auditor.rested_since_ms = self.now.boot_ms;
            self.auditor.audited_at = Some(self.now.wall());
            let seconds = std::time::Duration::from_millis(self.now.wall_ms).as_secs_f64();
            metrics::gauge!(metric_names::AUDIT_TIMESTAMP_SECONDS).set(seconds);
        } else {
            self.auditor.pass = Some(pass);
        }
    }

    /// Answers whether everything was seen.
    fn audit_step(&mut self, pass: &mut Pass) -> bool {
        let mut looks = 0;
        while looks < LOOKS_PER_STEP {
            if let Some(mut walk) = pass.walk.take() {
                if self.audit_table(&mut walk, &mut looks) {
                    self.end_walk(&walk);
                } else {
                    pass.walk = Some(walk);
                }
                continue;
            }
            looks += LOOKS_PER_PART;
            let next = self.namespaces.names_after(pass.name.as_ref()).next();
            if let Some((name, number)) = next.map(|(name, number)| (name.clone(), number)) {
                let touched = self.namespaces.get(number).map_or(0, |ns| ns.touched);
                let (cursor, tally) = (Cursor::START, Tally::default());
                pass.name = Some(name);
                pass.walk = Some(Walk { number, cursor, touched, tally });
            } else if pass.leases < super::leases::PARTS {
                looks += self.audit_leases(pass.leases);
                pass.leases += 1;
            } else {
                return true;
            }
        }
        false
    }

    /// Looks at the next table; answers whether that was the last.
    fn audit_table(&mut self, walk: &mut Walk, looks: &mut usize) -> bool {
        let number = walk.number;
        let Some(namespace) = self.namespaces.get(number) else {
            return true;
        };
        let Some(scan) = namespace.live.scan(walk.cursor) else {
            return true;
        };
        let next = scan.next;
        let entries: Vec<_> = scan.entries().collect();
        let mut suspects = Vec::new();
        for entry in &entries {
            walk.tally.add(entry);
            *looks += if entry::is_plain(entry) { 1 } else { LOOKS_PER_FLAGGED };
            if let Some(wrong) = self.wrong_with(number, namespace, entry) {
                suspects.push((wrong, entry.key(number)));
            }
        }
        for (wrong, key) in suspects {
            self.judge_entry(wrong, key);
        }
        self.sample(number, &entries);
        match next {
            Some(cursor) => walk.cursor = cursor,
            None => return true,
        }
        false
    }

    /// Compares leases with the entries that they are on; answers how much that was to look at.
    fn audit_leases(&mut self, part: usize) -> usize {
        let keys: Vec<_> = self.leases.part(part).collect();
        for &key in &keys {
            if self.namespaces.get(key.namespace()).is_none() {
                // Leases of a namespace that is gone are counted out step by step.
                continue;
            }
            match self.namespaces.live(key) {
                None => {
                    let place = "its leases".to_owned();
                    let what = "a lease is on a timer that is not there";
                    self.note_fault(Finding {
                        kind: "lease",
                        namespace: key.namespace(),
                        place,
                        what,
                    });
                    self.leases.remove(key);
                }
                Some(entry) if !entry::is_leased(&entry) => self.judge_entry(Wrong::Unleased, key),
                Some(_) => {}
            }
        }
        keys.len() * LOOKS_PER_FLAGGED
    }

    /// Says what was found.
    fn note_fault(&mut self, finding: Finding) {
        let Finding { kind, namespace, place, what } = finding;
        debug_assert!(
            metric_names::find(metric_names::AUDIT_FINDINGS_TOTAL)
                .is_some_and(|metric| metric.allows("kind", kind)),
            "{kind} is no kind of finding"
        );
        let name = self.namespaces.get(namespace).map_or("", |ns| ns.name.as_str());
        tracing::error!(namespace = name, place, what, "the audit found a fault");
        metrics::counter!(metric_names::AUDIT_FINDINGS_TOTAL, "kind" => kind).increment(1);
        self.auditor.findings += 1;
    }

    /// Where an entry's record should be, for a person.
    pub(super) fn place_of(&self, location: crate::index::Location) -> String {
        let file = self.files.get(location.slot());
        let file = file.map_or_else(|| format!("slot {}", location.slot()), |file| file.id.name());
        format!("{file} at byte {}", location.unit() * ALIGN)
    }
}
