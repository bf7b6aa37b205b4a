//! Tests that the mix follows from the numbers alone.

use std::collections::HashMap;

use super::*;
use crate::{recording_client::tests::client_of, transport::Ask};

#[test]
fn a_send_has_distinct_timers_and_changes_earlier_ones() {
    let (recording, _) = client_of(|_| {});
    let mix = Mix { recording, operations: 5_003, batch: 20, rate: 500 };
    let sends = mix.operations.div_ceil(mix.batch);
    let mut kinds: HashMap<&str, u32> = HashMap::new();
    let mut operations = 0;
    for send in 0..sends {
        let asks = mix.asks(send, 1_000);
        assert_eq!(asks.len() as u64, mix.count(send));
        let mut named = HashSet::new();
        for (number, Ask { number: timer, action, replaces }) in (operations..).zip(&asks) {
            assert!(named.insert(*timer), "{timer} twice in send {send}");
            let is_new = *timer == number;
            assert!(is_new || *timer < send * mix.batch, "{timer} is of the same send");
            assert!(is_new || number - timer <= 2 * mix.rate + 20 + LOOKS, "{timer} is too old");
            assert!(action.mark().is_none_or(|mark| mark == number), "a mark twice");
            assert_eq!(*replaces, !is_new && matches!(action, Action::Schedule { .. }));
            *kinds.entry(if *replaces { "replace" } else { action.name() }).or_default() += 1;
        }
        operations += asks.len() as u64;
    }
    assert_eq!(operations, mix.operations);
    assert!(mix.asks(sends, 1_000).is_empty() && mix.count(sends) == 0);
    for (kind, least) in
        [("schedule", 2_900), ("reschedule", 800), ("cancel", 600), ("replace", 200)]
    {
        assert!(kinds[kind] >= least, "{kinds:?}");
    }
}
