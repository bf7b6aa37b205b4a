//! The auditor: walks over the invariants while the store works, and repairs what it finds.
//!
//! Every part of the engine keeps its structures consistent with the index. If one of them fails to, a
//! timer could be due without the engine's knowledge. So each pass makes one walk over the invariants
//! (`invariants.rs`). It reports what is broken in the log and in a metric, and repairs what has a plain
//! repair (`repair.rs`).
//!
//! 1. The auditor works in quiet moments, paced by the boot-time clock, and more rarely under load.
//! 2. A step reads a bounded number of entries.
//! 3. A few records a second are read in the background (`sample.rs`), to find damaged ones.
//! 4. A finding is an error in Duly (or in the machine's memory), except for records that do not read
//!    back.

use duly_core::{Timestamp, metric_names};

use super::{Engine, invariants::InvariantWalk};

mod repair;
mod sample;
#[cfg(test)]
mod tests;

/// Time between two steps.
const STEP_MS: u64 = 50;
/// Time between two steps while the engine has other work.
const STEP_UNDER_LOAD_MS: u64 = 500;
/// Cost of one step, in plain entries.
const COST_PER_STEP: usize = 16_384;

/// Progress of the auditor, and its results.
#[derive(Debug)]
pub(super) struct Auditor {
    /// Time of the last step, by the boot-time clock.
    stepped_ms: u64,
    /// End of the last pass by the boot-time clock; before the first, the time at which the store was
    /// opened.
    rested_since_ms: u64,
    pass: Option<InvariantWalk>,
    sampler: sample::Sampler,
    /// Number of findings since the store was opened.
    pub(super) findings: u64,
    /// End of the last complete pass.
    pub(super) audited_at: Option<Timestamp>,
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
    /// The broken rule, and its repair.
    what: String,
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
        let begins = || (rested_ms >= self.options.audit_rest_ms).then(InvariantWalk::default);
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
    fn audit_step(&mut self, pass: &mut InvariantWalk) -> bool {
        let mut cost = 0;
        while cost < COST_PER_STEP {
            let Some(visited) = pass.step(self) else {
                return true;
            };
            cost += visited.cost;
            for broken in visited.broken {
                self.repair(broken);
            }
            if let Some((number, entries)) = visited.table {
                self.sample(number, &entries);
            }
        }
        false
    }

    /// Logs and counts a finding.
    fn note_fault(&mut self, finding: AuditFinding) {
        let AuditFinding { kind, namespace, place, what } = finding;
        debug_assert!(
            metric_names::find(metric_names::AUDIT_FINDINGS_TOTAL)
                .is_some_and(|metric| metric.allows("kind", kind)),
            "{kind} is no kind of finding"
        );
        let name = self.namespaces.get(namespace).map_or("", |ns| ns.record.name.as_str());
        tracing::error!(namespace = name, place, what, "the audit found a fault");
        metrics::counter!(metric_names::AUDIT_FINDINGS_TOTAL, "kind" => kind).increment(1);
        self.auditor.findings += 1;
    }
}
