//! The order of timers that are due at one instant.

use super::*;

#[test]
fn timers_of_one_instant_are_claimed_in_record_order() {
    let mut bench = Bench::new();
    let ids = ["k", "c", "x", "a", "m", "b", "z", "d", "y"];
    for text in ids {
        let schedule = Schedule::new(id(text), When::After(Millis::from_secs(5)));
        let schedule = Box::new(schedule);
        bench.apply(Operation::Schedule { schedule, if_exists: IfExists::Fail });
        bench.sync();
    }
    bench.clock.advance(Millis::from_secs(5));
    let claimed: Vec<String> =
        bench.claim().iter().map(|firing| firing.id.as_str().to_owned()).collect();
    assert_eq!(claimed, ids, "one read for all, and first come, first served");
}
