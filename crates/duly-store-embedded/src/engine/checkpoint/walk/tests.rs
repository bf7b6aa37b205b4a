use std::sync::Arc;

use duly_core::DeliveryId;
use duly_store::{conformance::ManualClock, namespaces::Put};

use super::*;
use crate::{
    disk::SimDisk,
    engine::dead_letters::{NewDeadLetter, key_of},
    index::{Key, Location},
    options::Options,
};

/// Most entries of one table.
const TABLE_LEN_MAX: usize = 2_048;
const LETTERS: u32 = 20_000;
/// Letters of each timer.
const EACH: u32 = 4;

fn engine_with_letters() -> Engine {
    let options = Options { random_seed: Some(1), ..Options::default() };
    let (disk, clock) = (Arc::new(SimDisk::new(1)), Arc::new(ManualClock::default()));
    let (mut engine, _) = Engine::open(disk, options, clock, &mut |_| {}).expect("it opens");
    let name = NamespaceName::new("shop").expect("a name");
    engine.put_namespace(&name, Put::IfAbsent(Box::default())).expect("room");
    engine.commit().expect("a healthy disk");
    let number = engine.namespaces.number_of(&name).expect("it was made");
    let hash_key = engine.hash_key;
    engine.namespaces.with(number, |namespace| {
        for i in 0..LETTERS {
            namespace.dead_letters.put(NewDeadLetter {
                letter: key_of(hash_key, number, DeliveryId::from_u128(i.into())),
                timer: Key::of(hash_key, number, &format!("t{}", i / EACH)),
                due_ms: 1_000,
                dead_lettered_ms: u64::from(i),
                location: Location::new(0, 0, 64),
            });
        }
    });
    engine
}

#[test]
fn no_step_copies_more_letters_than_a_few_tables_hold() {
    let mut engine = engine_with_letters();
    engine.begin_checkpoint();
    let most = TABLES_PER_STEP * TABLE_LEN_MAX * (layout::ENTRY_BYTES + 40 * EACH as usize) + 4_096;
    let (mut steps, mut before) = (0, 0);
    loop {
        engine.walk_step();
        let taking = engine.checkpoints.taking.as_ref().expect("it is under way");
        let copied = taking.pieces_bytes - before;
        assert!(copied <= most, "{copied} bytes in one step");
        (steps, before) = (steps + 1, taking.pieces_bytes);
        if matches!(taking.place, WalkPlace::Ended) {
            break;
        }
    }
    assert!(before >= LETTERS as usize * layout::ENTRY_BYTES, "{before} bytes of letters");
    assert!(steps > 10, "{steps} steps");
}
