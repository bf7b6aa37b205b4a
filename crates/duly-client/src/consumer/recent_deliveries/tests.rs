use proptest::prelude::*;

use super::*;

/// The reference model: a list with the most recently used id last.
struct Model {
    ids: Vec<(u8, Instant)>,
    dedup: Dedup,
}

impl Model {
    fn remember(&mut self, id: u8, now: Instant) {
        self.ids.retain(|(other, _)| *other != id);
        self.ids.push((id, now));
        if self.ids.len() > self.dedup.entries_max {
            self.ids.remove(0);
        }
    }

    fn contains(&mut self, id: u8, now: Instant) -> bool {
        let Some(at) = self.ids.iter().position(|(other, _)| *other == id) else { return false };
        let entry = self.ids.remove(at);
        let is_fresh = now - entry.1 < self.dedup.keep;
        if is_fresh {
            self.ids.push(entry);
        }
        is_fresh
    }
}

#[derive(Debug, Clone)]
enum Step {
    Remember(u8),
    Ask(u8),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..12_u8).prop_map(Step::Remember),
        (0..12_u8).prop_map(Step::Ask),
        (0..40_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn cache_matches_the_reference_model(
        entries_max in 0..8_usize,
        keep_ms in 0..100_u64,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let dedup = Dedup { entries_max, keep: Duration::from_millis(keep_ms) };
        let (mut seen, mut model) = (RecentDeliveries::new(dedup), Model { ids: Vec::new(), dedup });
        let mut now = Instant::now();
        for step in steps {
            match step {
                Step::Remember(id) => {
                    seen.remember(&id.to_string(), now);
                    model.remember(id, now);
                }
                Step::Ask(id) => {
                    prop_assert_eq!(seen.contains(&id.to_string(), now), model.contains(id, now));
                }
                Step::Wait(ms) => now += Duration::from_millis(ms),
            }
            prop_assert!(seen.ids.as_ref().map_or(0, LruCache::len) <= entries_max);
        }
    }
}

#[test]
fn lookup_does_not_extend_the_expiry() {
    let dedup = Dedup { entries_max: 4, keep: Duration::from_secs(10) };
    let (mut seen, start) = (RecentDeliveries::new(dedup), Instant::now());
    seen.remember("a", start);
    assert!(seen.contains("a", start + Duration::from_secs(9)));
    assert!(!seen.contains("a", start + Duration::from_secs(10)));
}
