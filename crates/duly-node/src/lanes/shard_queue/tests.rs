use super::*;

const NOW: Duration = Duration::from_secs(1);

/// Serves shards that always want `demands`, one slot at a time; returns the slots of each.
fn served(demands: &[usize], slots: usize) -> Vec<usize> {
    let mut places = vec![QueuePlace::default(); demands.len()];
    let mut got = vec![0; demands.len()];
    for slot in 0..slots {
        // Another shard comes first each time.
        for asks in (0..demands.len()).map(|n| (n + slot) % demands.len()) {
            let own = places[asks];
            let wanting = places.iter_mut().zip(demands.iter().copied()).enumerate();
            let mut others: Vec<_> =
                wanting.filter(|(n, _)| *n != asks).map(|(_, other)| other).collect();
            let (place, may) = allowed_slots(Some(own), demands[asks], 1, &mut others, NOW);
            if may > 0 {
                got[asks] += may;
                places[asks] = place.after(may, demands[asks]);
                break;
            }
        }
    }
    got
}

#[test]
fn slots_go_where_firings_wait() {
    assert_eq!(served(&[100, 100, 100, 100], 400), [100; 4]);
    let got = served(&[100, 300, 100], 500);
    for (got, part) in got.iter().zip([100, 300, 100]) {
        assert!((part - 1..=part + 1).contains(got), "{got} of {part}");
    }
}

#[test]
fn a_silent_shard_delays_the_others_only_briefly() {
    let own = QueuePlace::default().after(1, 10);
    let mut silent = QueuePlace::default();
    let mut may = |now| allowed_slots(Some(own), 10, 1, &mut [(&mut silent, 10)], now).1;
    assert_eq!(may(NOW), 0, "it is left to the shard before");
    assert_eq!(may(NOW + RESERVED_FOR - Duration::from_nanos(1)), 0);
    assert_eq!(may(NOW + RESERVED_FOR), 1);
    assert_eq!(may(NOW + RESERVED_FOR * 10), 1, "until it asks");
}

#[test]
fn a_new_shard_gets_the_first_place() {
    let (mut first, mut second) =
        (QueuePlace::default().after(5, 10), QueuePlace::default().after(10, 10));
    let mut others = [(&mut first, 10), (&mut second, 10)];
    let (place, may) = allowed_slots(None, 10, 3, &mut others, NOW);
    assert_eq!((place.number, may), (first.number, 1), "its part");
}

#[test]
fn with_enough_slots_no_shard_waits() {
    let mut other = QueuePlace::default();
    let own = QueuePlace::default().after(10, 10);
    assert_eq!(allowed_slots(Some(own), 6, 10, &mut [(&mut other, 4)], NOW).1, 10);
}
