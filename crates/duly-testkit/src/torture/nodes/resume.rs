//! Duration of the delay of firings after a fault, from the deliveries of timers that were never
//! changed.

use std::fmt;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::fault::Fault;
use crate::checker::timers_with_one_operation;
use crate::clock::seconds_since;
use crate::history::{Delivery, History};
use crate::torture::world::WELL_BEHAVED;

/// Lateness from which a firing counts as delayed by the fault.
const LATE_FROM: Duration = Duration::from_millis(500);

/// Time after the start of a fault within which firings begin to wait for its end.
const AFFECTED_WITHIN_US: u64 = 2_000_000;

/// Target for the longest delay of firings after the death of a node.
const TARGET: Duration = Duration::from_secs(3);

/// A fault of the run.
#[derive(Debug, Clone)]
pub(super) struct FaultEvent {
    pub(super) fault: Fault,
    pub(super) text: String,
    pub(super) from_us: u64,
    /// Time of the repair.
    pub(super) repaired_us: u64,
    /// Time at which all nodes and servers were well again.
    pub(super) recovered_us: u64,
}

impl fmt::Display for FaultEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, text, repaired_us, recovered_us, .. } = self;
        let whole = Duration::from_micros(recovered_us - repaired_us);
        write!(f, "{fault:<24} {text}; healthy again after {whole:.1?}")
    }
}

/// A firing of a timer that was scheduled before its due time and never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Firing {
    pub(super) due_ms: u64,
    pub(super) received_us: u64,
}

impl Firing {
    pub(super) fn late(self) -> Duration {
        Duration::from_micros(self.received_us.saturating_sub(self.due_ms * 1_000))
    }
}

/// Returns the first delivery of each such timer for the well-behaved receiver, by due time.
pub(super) fn firings(history: &History) -> Vec<Firing> {
    let made_us = timers_with_one_operation(history, true);
    let mut firsts: FxHashMap<u32, Firing> = FxHashMap::default();
    for delivery in &history.deliveries {
        let Delivery { key, due_ms, received_us, .. } = *delivery;
        let in_time = made_us.get(&key).copied().flatten().is_some_and(|us| us <= due_ms * 1_000);
        if in_time && history.keys[key as usize].namespace == WELL_BEHAVED {
            let firing = Firing { due_ms, received_us };
            firsts
                .entry(key)
                .and_modify(|first| first.received_us = first.received_us.min(received_us))
                .or_insert(firing);
        }
    }
    let mut firings: Vec<Firing> = firsts.into_values().collect();
    firings.sort_by_key(|firing| (firing.due_ms, firing.received_us));
    firings
}

/// Returns the time from the start of a fault to the last firing that had waited for its end;
/// `None` if none had to wait.
///
/// 1. Only firings due before `until_us` count.
/// 2. A late firing belongs to the fault if it was due soon after the start of the fault, or while
///    others still waited.
/// 3. A firing that is late after that has another reason, for example a busy machine.
fn resumed_after(firings: &[Firing], from_us: u64, until_us: u64) -> Option<Duration> {
    let mut last_us = None;
    for firing in firings {
        let due_us = firing.due_ms * 1_000;
        let until_us = until_us.min(last_us.unwrap_or(0).max(from_us + AFFECTED_WITHIN_US));
        if due_us < until_us && firing.received_us >= from_us && firing.late() >= LATE_FROM {
            last_us = last_us.max(Some(firing.received_us));
        }
    }
    Some(Duration::from_micros(last_us? - from_us))
}

/// Describes the lateness of firings that were due in this time: the median and the worst.
fn lateness(firings: &[Firing], from_us: u64, until_us: u64) -> Option<String> {
    let due = firings.iter().filter(|f| (from_us..until_us).contains(&(f.due_ms * 1_000)));
    let mut late: Vec<Duration> = due.map(|firing| firing.late()).collect();
    late.sort_unstable();
    let (median, worst) = (late.get(late.len() / 2)?.as_secs_f64(), late.last()?.as_secs_f64());
    Some(format!(
        "{} were due during the fault, {median:.2} s late (median), {worst:.2} s (worst)",
        late.len()
    ))
}

/// Returns a line for each event, and one for all node deaths.
pub(super) fn report_lines(history: &History, events: &[FaultEvent]) -> Vec<String> {
    let firings = firings(history);
    let mut lines = Vec::new();
    let mut deaths = Vec::new();
    for event in events {
        // The return of the node is another event: a node that joins takes over shards again.
        let until_us =
            if event.fault.is_node_death() { event.repaired_us } else { event.recovered_us };
        let resumed = resumed_after(&firings, event.from_us, until_us);
        let waited = match resumed {
            Some(resumed) => format!("firings were late until {:.2} s", resumed.as_secs_f64()),
            None => "no firing was late".to_owned(),
        };
        if event.fault.is_node_death() {
            deaths.push(resumed.unwrap_or_default());
        }
        let meanwhile = lateness(&firings, event.from_us, event.repaired_us);
        let meanwhile =
            meanwhile.filter(|_| event.fault.is_slow_network()).map(|text| format!("; {text}"));
        lines.push(format!("{event}; {waited}{}", meanwhile.unwrap_or_default()));
    }
    deaths.sort_unstable();
    if let (Some(worst), Some(median)) = (deaths.last(), deaths.get(deaths.len() / 2)) {
        let within = deaths.iter().filter(|took| **took <= TARGET).count();
        lines.push(format!(
            "after {} node deaths firings resumed within {:.2} s (median), {:.2} s (worst); {within} \
             within {TARGET:?}",
            deaths.len(),
            median.as_secs_f64(),
            worst.as_secs_f64(),
        ));
    }
    lines
}

/// Returns the seconds from a moment to the firing's due time; negative before the moment.
pub(super) fn due_s(firing: &Firing, from_us: u64) -> f64 {
    -seconds_since(firing.due_ms, from_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resume_time_is_the_last_delayed_firing() {
        let firing =
            |due_ms, late_ms: u64| Firing { due_ms, received_us: (due_ms + late_ms) * 1_000 };
        let firings =
            [firing(900, 700), firing(1_200, 3), firing(1_500, 900), firing(5_000, 2_000)];
        let after = |until_us| resumed_after(&firings, 1_000_000, until_us);
        assert_eq!(after(4_000_000), Some(Duration::from_millis(1_400)));
        assert_eq!(after(9_000_000), Some(Duration::from_millis(1_400)));
        assert_eq!(after(1_400_000), Some(Duration::from_millis(600)));
        assert_eq!(resumed_after(&firings[1..2], 1_000_000, 9_000_000), None);
        let meanwhile = lateness(&firings, 1_000_000, 2_000_000).unwrap();
        assert_eq!(meanwhile, "2 were due during the fault, 0.90 s late (median), 0.90 s (worst)");
        assert_eq!(lateness(&firings, 2_000_000, 3_000_000), None);
        assert!((due_s(&firings[1], 1_000_000) - 0.2).abs() < 1e-9);
    }
}
