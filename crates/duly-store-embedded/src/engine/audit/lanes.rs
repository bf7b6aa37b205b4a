//! The checks of a namespace after all its entries were visited.
//!
//! 1. Claimers know every lane in which a timer is due.
//! 2. The spilled timers of a lane are on their way back into its resident window.
//! 3. If nothing changed during the walk, every count is the sum over the entries.

use crate::index::AttemptKind;

use super::{
    super::{Engine, refill::LaneKindKey},
    AuditFinding, AuditWalk,
    tally::AuditTally,
};

impl Engine {
    pub(super) fn end_walk(&mut self, walk: &AuditWalk) {
        let number = walk.number;
        let Some(namespace) = self.namespaces.get(number) else {
            return;
        };
        let is_quiet = namespace.touched == walk.touched;
        let counted = AuditTally::as_counted(namespace);
        let name = namespace.name.clone();
        let mut unlisted = Vec::new();
        let mut stuck: Vec<LaneKindKey> = Vec::new();
        for (slot, lane) in namespace.lanes.iter() {
            if lane.is_idle() == self.namespaces.active.contains(&(name.clone(), slot)) {
                unlisted.push((slot, lane.is_idle()));
            }
            for kind in [AttemptKind::First, AttemptKind::Retry] {
                let (due, of) = (lane.due(kind), (number, slot, kind));
                let waits = due.window().is_empty() && due.has_spilled();
                if waits && !(due.is_refilled() && self.refills.has(of)) {
                    stuck.push(of);
                }
            }
        }
        for (slot, is_idle) in unlisted {
            let what = "the list of active lanes disagreed with the due timers of a lane; it was \
                        corrected";
            self.note_fault(AuditFinding {
                kind: "lane",
                namespace: number,
                place: lane_name(slot),
                what,
            });
            let listed = (name.clone(), slot);
            if is_idle {
                self.namespaces.active.remove(&listed);
            } else {
                self.namespaces.active.insert(listed);
                self.wake = true;
            }
        }
        for of in stuck {
            let what = "spilled timers of a lane had no refill; one was begun";
            self.note_fault(AuditFinding {
                kind: "lane",
                namespace: number,
                place: lane_name(of.1),
                what,
            });
            self.check_window(of);
            self.refills.want(of);
            self.busy = true;
        }
        if is_quiet && counted != walk.tally {
            let place = walk.tally.difference(&counted);
            let what = "the counts of a namespace disagreed with its timers; they were corrected";
            self.note_fault(AuditFinding { kind: "count", namespace: number, place, what });
            walk.tally.put_into(&mut self.namespaces, number);
        }
    }
}

fn lane_name(slot: u8) -> String {
    format!("lane {slot}")
}
