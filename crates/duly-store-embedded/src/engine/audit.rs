//! The auditor: checks the invariants between the indexes and the other structures while the store works.
//!
//! ```text
//!   namespace after namespace, table after table ─► entry.rs   each entry with files, leases, lanes
//!                                                └► tally.rs   the counts, where nothing changed
//!   leases, part after part ─────────────────────► entries
//!   a few records a second ──────────────────────► sample.rs   read in the background
//! ```
//!
//! Every part of the engine keeps its structures consistent with the index. If one of them fails to, a
//! timer could be due without the engine's knowledge. So each pass looks for such a timer, and for other
//! broken invariants. It reports what it finds in the log and in a metric, and repairs what has a plain
//! repair.
//!
//! 1. The auditor works in quiet moments, paced by the boot-time clock, and more rarely under load.
//! 2. A step reads a bounded number of entries. Its rules hold in every moment between two steps, so a
//!    change under way is no finding.
//! 3. A finding is an error in Duly (or in the machine's memory), except for records that do not read
//!    back.

use duly_core::{NamespaceName, Timestamp, metric_names};

use crate::{format::ALIGN, index::Cursor};

use super::Engine;

mod entry;
mod lanes;
mod sample;
mod tally;
#[cfg(test)]
mod tests;

use entry::BrokenInvariant;
use tally::AuditTally;

/// Time between two steps.
const STEP_MS: u64 = 50;
/// Time between two steps while the engine has other work.
const STEP_UNDER_LOAD_MS: u64 = 500;
/// Cost of one step, in plain entries.
const VISITS_PER_STEP: usize = 16_384;
/// Cost of an entry that is compared with other structures, in plain entries.
const VISITS_PER_FLAGGED: usize = 16;
/// Cost of moving to another namespace or part of the leases, in plain entries.
const VISITS_PER_PART: usize = 16;

/// Progress of the auditor, and its results.
#[derive(Debug)]
pub(super) struct Auditor {
    /// Time of the last step, by the boot-time clock.
    stepped_ms: u64,
    /// End of the last pass by the boot-time clock; before the first, the time at which the store was
    /// opened.
    rested_since_ms: u64,
    pass: Option<AuditPass>,
    sampler: sample::Sampler,
    /// Number of findings since the store was opened.
    pub(super) findings: u64,
    /// End of the last complete pass.
    pub(super) audited_at: Option<Timestamp>,
}

/// A pass over all namespaces and leases.
#[derive(Debug, Default)]
struct AuditPass {
    /// Namespace under way, or the one after which to resume.
    name: Option<NamespaceName>,
    walk: Option<AuditWalk>,
    /// Next part of the leases.
    leases: usize,
}

/// A walk over the index of one namespace.
#[derive(Debug)]
struct AuditWalk {
    number: u32,
    cursor: Cursor,
    /// Value of [`super::namespaces::Namespace::touched`] when the walk began.
    touched: u64,
    tally: AuditTally,
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

/// A broken invariant, for the log.
#[derive(Debug)]
struct AuditFinding {
    /// Value of the metric's label `kind`.
    kind: &'static str,
    namespace: u32,
    /// Location of the fault: a place in a file, a lane, a count. It never contains data of a timer.
    place: String,
    what: &'static str,
}

impl Engine {
    /// Runs one step, if it is time.
    pub(super) fn audit(&mut self) {
        let waited_ms = self.now.boot_ms.saturating_sub(self.auditor.stepped_ms);
        let wait_ms = if self.busy { STEP_UNDER_LOAD_MS } else { STEP_MS };
        if waited_ms < wait_ms {
            return;
        }
        let rested_ms = self.now.boot_ms.saturating_sub(self.auditor.rested_since_ms);
        let begins = || (rested_ms >= self.options.audit_rest_ms).then(AuditPass::default);
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

    /// Runs one step of a pass. Returns `true` if the pass is complete.
    fn audit_step(&mut self, pass: &mut AuditPass) -> bool {
        let mut visits = 0;
        while visits < VISITS_PER_STEP {
            if let Some(mut walk) = pass.walk.take() {
                if self.audit_table(&mut walk, &mut visits) {
                    self.end_walk(&walk);
                } else {
                    pass.walk = Some(walk);
                }
                continue;
            }
            visits += VISITS_PER_PART;
            let next = self.namespaces.names_after(pass.name.as_ref()).next();
            if let Some((name, number)) = next.map(|(name, number)| (name.clone(), number)) {
                let touched = self.namespaces.get(number).map_or(0, |ns| ns.touched);
                let (cursor, tally) = (Cursor::START, AuditTally::default());
                pass.name = Some(name);
                pass.walk = Some(AuditWalk { number, cursor, touched, tally });
            } else if pass.leases < super::leases::PARTS {
                visits += self.audit_leases(pass.leases);
                pass.leases += 1;
            } else {
                return true;
            }
        }
        false
    }

    /// Checks the next table. Returns `true` if it was the last.
    fn audit_table(&mut self, walk: &mut AuditWalk, visits: &mut usize) -> bool {
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
            *visits += if entry::is_plain(entry) { 1 } else { VISITS_PER_FLAGGED };
            if let Some(wrong) = self.broken_invariant(number, namespace, entry) {
                suspects.push((wrong, entry.key(number)));
            }
        }
        for (wrong, key) in suspects {
            self.repair_entry(wrong, key);
        }
        self.sample(number, &entries);
        match next {
            Some(cursor) => walk.cursor = cursor,
            None => return true,
        }
        false
    }

    /// Compares leases with their index entries. Returns the cost.
    fn audit_leases(&mut self, part: usize) -> usize {
        let keys: Vec<_> = self.leases.part(part).collect();
        for &key in &keys {
            if self.namespaces.get(key.namespace()).is_none() {
                // Namespace reclamation drops the leases of a deleted namespace, step by step.
                continue;
            }
            match self.namespaces.live(key) {
                None => {
                    let place = "its leases".to_owned();
                    let what = "a lease belongs to a timer that does not exist; it was removed";
                    self.note_fault(AuditFinding {
                        kind: "lease",
                        namespace: key.namespace(),
                        place,
                        what,
                    });
                    self.leases.remove(key);
                }
                Some(entry) if !entry::is_leased(&entry) => {
                    self.repair_entry(BrokenInvariant::Unleased, key)
                }
                Some(_) => {}
            }
        }
        keys.len() * VISITS_PER_FLAGGED
    }

    /// Logs and counts a finding.
    fn note_fault(&mut self, finding: AuditFinding) {
        let AuditFinding { kind, namespace, place, what } = finding;
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

    /// Returns a readable description of the place of an entry's record.
    pub(super) fn place_of(&self, location: crate::index::Location) -> String {
        let file = self.files.get(location.slot());
        let file = file.map_or_else(|| format!("slot {}", location.slot()), |file| file.id.name());
        format!("{file} at byte {}", location.unit() * ALIGN)
    }
}
