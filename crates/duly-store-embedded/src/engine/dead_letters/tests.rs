//! Letters of a few timers that come and go, and copies of them. Each part of a copy is of a moment of
//! its own.

use proptest::prelude::*;

use super::*;

const NAMESPACE: u32 = 7;
const TIMERS: u8 = 2;
const LETTERS: u8 = 7;

/// A change of a letter.
#[derive(Debug, Clone, Copy)]
enum Change {
    Put(u8),
    Remove(u8),
}

fn timer(number: u8) -> Key {
    Key::of(1, NAMESPACE, &format!("timer {number}"))
}

fn letter(number: u8) -> Key {
    key_of(1, NAMESPACE, DeliveryId::from_u128(number.into()))
}

/// The timer of a letter.
const fn timer_of(letter: u8) -> u8 {
    letter % TIMERS
}

/// Makes the changes. The place of each is its identity.
fn make(dead_letters: &mut DeadLetters, changes: &[Change]) {
    for (place, change) in changes.iter().enumerate() {
        match *change {
            Change::Put(number) => {
                dead_letters.put(NewDeadLetter {
                    letter: letter(number),
                    timer: timer(timer_of(number)),
                    due_ms: 1_000 + u64::from(number),
                    dead_lettered_ms: place as u64,
                    location: Location::new(0, place as u64, 64),
                });
            }
            Change::Remove(number) => {
                dead_letters.remove(timer(timer_of(number)), letter(number));
            }
        }
    }
}

fn after(changes: &[Change]) -> DeadLetters {
    let mut dead_letters = DeadLetters::default();
    make(&mut dead_letters, changes);
    dead_letters
}

/// Returns everything known about each timer: its letters in order, its latest, and the time of that.
fn shown(dead_letters: &DeadLetters) -> Vec<String> {
    let timers = (0..TIMERS).map(|number| {
        let timer = timer(number);
        let listed: Vec<_> = dead_letters.several(timer).collect();
        let latest = dead_letters.latest(timer);
        let dead_lettered_ms =
            dead_letters.by_timer.get(timer).map(|entry| entry.claimable().at_ms);
        format!("{:?} {latest:?} {dead_lettered_ms:?} {listed:?}", dead_letters.of(timer))
    });
    let counts =
        format!("{} {} {}", dead_letters.len(), dead_letters.by_timer.len(), dead_letters.listed);
    timers.chain([counts]).collect()
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        3 => (0..LETTERS).prop_map(Change::Put),
        2 => (0..LETTERS).prop_map(Change::Remove),
    ];
    prop::collection::vec(change, 0..24)
}

/// Copies each letter, and each timer, as it is after a number of the changes.
fn copied(changes: &[Change], letters_at: &[usize], timers_at: &[usize]) -> DeadLetters {
    let moment = |at: usize| after(&changes[..at.min(changes.len())]);
    let mut copy = DeadLetters::default();
    for (number, at) in (0..LETTERS).zip(letters_at) {
        moment(*at).by_delivery.get(letter(number)).map(|entry| copy.by_delivery.put(entry));
    }
    for (number, at) in (0..TIMERS).zip(timers_at) {
        let from = moment(*at);
        from.by_timer.get(timer(number)).map(|entry| copy.by_timer.put(entry));
        from.several(timer(number)).for_each(|letter| copy.restore(&letter));
    }
    copy
}

proptest! {
    #[test]
    fn p1_fuzzy_copy_plus_later_changes_equals_state(
        before in changes(),
        since in changes(),
        letters_at in prop::collection::vec(0_usize..24, usize::from(LETTERS)),
        timers_at in prop::collection::vec(0_usize..24, usize::from(TIMERS)),
    ) {
        let all = [&before[..], &since].concat();
        let from_begin = |at: &[usize]| -> Vec<usize> {
            at.iter().map(|at| before.len() + at).collect()
        };
        let mut copy = copied(&all, &from_begin(&letters_at), &from_begin(&timers_at));
        // Changes are identified by their places, which continue for the later ones.
        let mut replayed = vec![Change::Remove(LETTERS); before.len()];
        replayed.extend_from_slice(&since);
        make(&mut copy, &replayed);
        prop_assert_eq!(shown(&copy), shown(&after(&all)));
    }

    #[test]
    fn letters_of_a_timer_keep_their_order(all in changes()) {
        let dead_letters = after(&all);
        for number in 0..TIMERS {
            let mut known: Vec<(u8, u64)> = Vec::new();
            for (place, change) in all.iter().enumerate() {
                let (Change::Put(letter) | Change::Remove(letter)) = *change;
                if timer_of(letter) == number {
                    known.retain(|(other, _)| *other != letter);
                    if matches!(change, Change::Put(_)) {
                        known.push((letter, place as u64));
                    }
                }
            }
            let places: Vec<u64> = dead_letters.of(timer(number)).iter().map(|at| at.unit()).collect();
            prop_assert_eq!(&places, &known.iter().map(|(_, place)| *place).collect::<Vec<_>>());
            let latest = dead_letters.latest(timer(number)).map(|(letter, _)| letter);
            prop_assert_eq!(latest, known.last().map(|(number, _)| letter(*number)));
        }
        prop_assert!(dead_letters.several.values().all(|several| several.len() > 1));
    }
}

#[test]
fn letter_dropped_without_its_timer_is_skipped() {
    let changes = [Change::Put(0), Change::Put(2), Change::Put(4), Change::Put(1)];
    let mut dead_letters = after(&changes);
    for number in [4, 1] {
        assert!(dead_letters.remove(unknown_timer(NAMESPACE), letter(number)).is_some());
    }
    assert_eq!(dead_letters.latest(timer(0)).map(|(letter, _)| letter), Some(letter(2)));
    assert_eq!(dead_letters.of(timer(0)).len(), 2);
    assert_eq!((dead_letters.latest(timer(1)), dead_letters.of(timer(1))), (None, Vec::new()));
}
