//! Figures of a run with a full history: the verdict, the counts of every run, and the times after
//! a kill.

use std::sync::atomic::Ordering::Relaxed;

use duly_checker::{
    checker::{self, Count, Verdict},
    history::{Action, Answer, Crash, History, SettleAnswer, Via},
};

use super::RecordingClient;
use crate::{baseline::ms, ledger::Counts, table::Table};

/// Result of the checker.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) verdict: Verdict,
    pub(crate) counts: Counts,
    pub(crate) table: Table,
}

impl RecordingClient {
    /// Judges the history recorded so far, and removes it.
    pub(crate) fn check(&self) -> Checked {
        let mut history = self.history.take();
        history.drained = self.has_waited.load(Relaxed);
        let mut table = Table::default();
        add_operations(&history, &mut table);
        if let [crash] = history.crashes[..] {
            add_recovery(&history, crash, &mut table);
        }
        let verdict = checker::check(&history);
        let counts = counts(&history, &verdict);
        Checked { verdict, counts, table }
    }
}

impl Checked {
    /// Describes the broken promises: for each kind its number and its first finding.
    pub(crate) fn broken(&self) -> Vec<String> {
        let said = self.verdict.counts.iter().map(|(count, times)| {
            let first = self.verdict.findings.iter().find(|finding| finding.count == *count);
            let first = first.map(|finding| format!(", first {}: {}", finding.id, finding.text));
            format!("{times} {}{}", count.name(), first.unwrap_or_default())
        });
        said.collect()
    }
}

fn counts(history: &History, verdict: &Verdict) -> Counts {
    let answered = |what: fn(&Answer) -> bool| {
        let operations = history.operations.iter();
        operations.filter(|operation| what(&operation.answer)).count() as u64
    };
    let settled = history.settles.iter().filter(|settle| settle.answer == SettleAnswer::Ok);
    let found = |count: Count| verdict.count(count) as u64;
    Counts {
        attempted: verdict.attempted as u64,
        acknowledged: verdict.acknowledged as u64,
        refused: answered(|answer| *answer == Answer::Refused),
        cancelled: answered(|answer| matches!(answer, Answer::Cancelled { .. })),
        fired: verdict.deliveries as u64,
        settled: settled.count() as u64,
        lost: found(Count::Lost),
        duplicates: found(Count::DuplicateUnexplained),
        early: found(Count::Early),
        after_cancel: found(Count::ClaimAfterCancel),
        unexpected: found(Count::Unexpected),
    }
}

/// Adds the number of operations of each kind, and the number of those with an unknown outcome.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn add_operations(history: &History, table: &mut Table) {
    type Is = fn(&Action) -> bool;
    let kinds: [(&str, Is); 3] = [
        ("schedules and replacements sent", |action| matches!(action, Action::Schedule { .. })),
        ("reschedules sent", |action| matches!(action, Action::Reschedule { .. })),
        ("cancellations sent", |action| matches!(action, Action::Cancel)),
    ];
    for (name, is) in kinds {
        let count = history.operations.iter().filter(|one| is(&one.action)).count();
        table.add(name, "", count as f64);
    }
    let in_doubt = history.operations.iter().filter(|one| one.answer == Answer::InDoubt).count();
    table.add("operations without an answer", "", in_doubt as f64);
}

/// Adds the times of events after the restart of the process.
#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn add_recovery(history: &History, crash: Crash, table: &mut Table) {
    let Crash { killed_us, reaped_us, spawned_us, ready_us } = crash;
    let mut add = |name: &str, at_us: Option<u64>| {
        if let Some(at_us) = at_us {
            table.add(name, "ms", ms(at_us.saturating_sub(spawned_us)));
        }
    };
    add("from start to ready", Some(ready_us));
    let after = history.operations.iter().filter(|one| one.sent_us >= killed_us);
    let answered = after.filter(|one| one.answer != Answer::InDoubt && one.ended_us >= spawned_us);
    let leased = history.deliveries.iter().filter(|one| match one.via {
        Via::Pull { lease_sent_us, .. } => lease_sent_us >= killed_us,
        Via::Push { .. } => false,
    });
    // Operations alone do not do: a start can take longer than the rest of the load.
    let first = answered.map(|one| one.ended_us).chain(leased.map(|one| one.received_us)).min();
    add("from start to the first call answered", first);
    let overdue = || {
        let late = history.deliveries.iter().filter(|one| {
            let due_us = one.due_ms * 1_000;
            one.received_us >= reaped_us && due_us <= ready_us && one.attempt == 1
        });
        late.map(|one| one.received_us)
    };
    add("from start to the first overdue firing", overdue().min());
    add("from start to the last overdue firing", overdue().max());
    table.add("overdue firings", "", overdue().count() as f64);
}
