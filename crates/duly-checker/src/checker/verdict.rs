//! What the judge says: counts, and the first findings of each kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Lateness;

/// Findings kept of each kind; the rest are only counted.
const FINDINGS_MAX: usize = 5;

/// What must never happen. Each is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// An acknowledged timer that is gone without having been delivered.
    Lost,
    /// A delivery that nobody asked for, or with another payload or due time than asked for.
    Unexpected,
    /// A second delivery without a crash or a lost lease between the two.
    DuplicateUnexplained,
    /// A delivery before it was due, or a retry before its wait was over.
    Early,
    /// A claim granted after `cancelled` was answered.
    ClaimAfterCancel,
    /// A claim granted for what an acknowledged change had replaced.
    OldTime,
    /// A settlement accepted from a token whose lease was lost, or that was never handed out.
    StaleSettleAccepted,
    /// A claim granted for, or a pending state of, a timer that was acknowledged as ended.
    Resurrected,
    /// One firing under two delivery ids, or two under one.
    DeliveryIdChanged,
    /// An acknowledged change that is not in the state at the end.
    Undone,
    /// Still due long after the load had ended.
    Stuck,
}

impl Count {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 11] = [
        Self::Lost,
        Self::Unexpected,
        Self::DuplicateUnexplained,
        Self::Early,
        Self::ClaimAfterCancel,
        Self::OldTime,
        Self::StaleSettleAccepted,
        Self::Resurrected,
        Self::DeliveryIdChanged,
        Self::Undone,
        Self::Stuck,
    ];

    /// The words of the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unexpected => "unexpected",
            Self::DuplicateUnexplained => "duplicated, unexplained",
            Self::Early => "early",
            Self::ClaimAfterCancel => "claims after a confirmed cancel",
            Self::OldTime => "old time or payload after a confirmed change",
            Self::StaleSettleAccepted => "stale settles accepted",
            Self::Resurrected => "resurrected",
            Self::DeliveryIdChanged => "delivery ids changed",
            Self::Undone => "acknowledged changes undone",
            Self::Stuck => "stuck",
        }
    }
}

/// One thing that must never happen, and where.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Its kind.
    pub count: Count,
    /// Namespace of the timer.
    pub namespace: String,
    /// Id of the timer.
    pub id: String,
    /// What was seen.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, namespace, id, text } = self;
        write!(f, "{}: {namespace}/{id}: {text}", count.name())
    }
}

/// The verdict on a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Verdict {
    /// Schedules sent.
    pub attempted: usize,
    /// Schedules and changes of payload that were acknowledged.
    pub acknowledged: usize,
    /// Deliveries seen, repeated ones included.
    pub deliveries: usize,
    /// Acknowledged timers that were delivered at least once.
    pub delivered: usize,
    /// Acknowledged before a crash and delivered, or still there, after it.
    pub recovered: usize,
    /// Second deliveries inside the window of a crash or of a lost lease.
    pub duplicates_explained: usize,
    /// How often each thing happened that must not; absent = never.
    pub counts: BTreeMap<Count, usize>,
    /// The first findings of each kind.
    pub findings: Vec<Finding>,
    /// How late first deliveries were.
    pub lateness: Lateness,
}

impl Verdict {
    /// Whether nothing happened that must not.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// How often it happened.
    pub fn count(&self, count: Count) -> usize {
        self.counts.get(&count).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, finding: Finding) {
        let seen = self.counts.entry(finding.count).or_insert(0);
        *seen += 1;
        if *seen <= FINDINGS_MAX {
            self.findings.push(finding);
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, n: usize| writeln!(f, "  {name:<46}{n:>10}");
        line("schedules attempted", self.attempted)?;
        line("acknowledged", self.acknowledged)?;
        line("acknowledged and delivered", self.delivered)?;
        line("deliveries seen", self.deliveries)?;
        line("recovered after a crash", self.recovered)?;
        line("duplicated, explained", self.duplicates_explained)?;
        for count in Count::ALL {
            line(count.name(), self.count(count))?;
        }
        write!(f, "{}", self.lateness)?;
        for finding in &self.findings {
            writeln!(f, "  ! {finding}")?;
        }
        Ok(())
    }
}
