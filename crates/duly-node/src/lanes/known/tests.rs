use std::sync::Arc;

use duly_core::{NamespaceName, destination::LaneKey};

use super::*;
use crate::lanes::fair_share::Load;

fn lane(n: usize) -> Lane {
    Lane {
        namespace: NamespaceName::new("ns").unwrap(),
        key: LaneKey::Receiver(Arc::from(format!("https://r{n:06}"))),
    }
}

const NOW: Duration = Duration::from_secs(1_000);

/// Creates `count` idle lanes and `held` lanes with a slot; `most` are to be remembered.
fn known(count: usize, held: usize, most: usize) -> KnownLanes {
    let mut known = KnownLanes::new(0);
    (known.idle_max, known.most) = (most, most);
    for n in 0..count {
        known.entry(&lane(n)).load = Load::new(usize::from(n < held), 0);
    }
    known
}

#[test]
fn p10_a_clean_up_slice_is_bounded_and_a_round_visits_all_lanes() {
    const COUNT: usize = 20 * CLEAN_UP_SLICE + 1;
    let mut known = known(COUNT, 0, 0);
    let mut visited = 0;
    while visited < COUNT {
        let slice = known.clean_up_slice(NOW);
        assert!((1..=CLEAN_UP_SLICE).contains(&slice), "{slice}");
        visited += slice;
    }
    assert_eq!(visited, COUNT);
    assert!(known.states.is_empty() && known.order.is_empty() && known.cleaned_to.is_none());
}

#[test]
fn clean_up_runs_only_above_the_lane_limit() {
    let mut known = known(1_000, 10, 500);
    let mut before = known.states.len();
    for n in 1..=100 * CLEAN_UP_EVERY {
        known.slots_returned(NOW);
        let now = known.states.len();
        assert!(before - now <= CLEAN_UP_SLICE && (before == now || n % CLEAN_UP_EVERY == 0));
        before = now;
    }
    assert!((500 - CLEAN_UP_SLICE..=500).contains(&before), "{before}");
    assert_eq!(known.states.values().filter(|state| state.load.sum() > 0).count(), 10);
    assert!(known.order.iter().eq(known.from(Bound::Unbounded).map(|(lane, _)| lane)));
    assert_eq!(known.order.len(), known.states.len());
}
