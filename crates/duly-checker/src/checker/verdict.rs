//! Verdict of the checker: counts, and the first findings of each kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Lateness;

/// Most findings kept of each kind; further ones are only counted.
const FINDINGS_MAX: usize = 5;

/// Kinds of broken promises, each with its own count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Count {
    /// An acknowledged timer that is gone without a delivery.
    Lost,
    /// A delivery that no caller asked for, or with another payload or due time than requested.
    Unexpected,
    /// A second delivery without a crash or a lost lease between the two.
    DuplicateUnexplained,
    /// A delivery before the due time, or a retry before its wait was over.
    Early,
    /// A claim granted after the result `cancelled`.
    ClaimAfterCancel,
    /// A claim granted for content that an acknowledged change had replaced.
    OldTime,
    /// A settlement accepted from a token whose lease was lost, or from a made-up token.
    StaleSettleAccepted,
    /// A claim granted for a timer that was acknowledged as ended, or a pending state of one.
    Resurrected,
    /// One firing with two delivery ids, or two firings with one.
    DeliveryIdChanged,
    /// An acknowledged change that is missing in the final state.
    Undone,
    /// A timer that is due long after the load has ended.
    Stuck,
}

impl Count {
    /// All kinds, in the order of the report.
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

    /// Returns the words of the report.
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

/// One broken promise, and its timer.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Kind of the broken promise.
    pub count: Count,
    /// Namespace of the timer.
    pub namespace: String,
    /// Id of the timer.
    pub id: String,
    /// Description.
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
    /// Schedule calls sent.
    pub attempted: usize,
    /// Schedule calls and payload changes that were acknowledged.
    pub acknowledged: usize,
    /// Deliveries received, including repeated ones.
    pub deliveries: usize,
    /// Acknowledged timers that were delivered at least once.
    pub delivered: usize,
    /// Timers acknowledged before a crash, and delivered or present after it.
    pub recovered: usize,
    /// Repeated deliveries that a crash or a lost lease explains.
    pub duplicates_explained: usize,
    /// Number of broken promises of each kind; absent kinds have none.
    pub counts: BTreeMap<Count, usize>,
    /// The first findings of each kind.
    pub findings: Vec<Finding>,
    /// Lateness of first attempts.
    pub lateness: Lateness,
}

impl Verdict {
    /// Returns `true` if no promise was broken.
    pub fn is_clean(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns the number of broken promises of this kind.
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
