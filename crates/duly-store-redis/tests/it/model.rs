//! The store and the reference under the same random operations.

use duly_store::conformance::{
    MemoryHarness,
    model::{Disturb, compare},
};

use crate::{harness::RedisHarness, in_order::InOrder};

fn seeds(usual: u64) -> u64 {
    std::env::var("DULY_MODEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(usual)
}

fn agrees(seeds: std::ops::Range<u64>, steps: usize, disturb: Disturb) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for seed in seeds {
        let (reference, subject) =
            (InOrder(MemoryHarness::new(seed)), InOrder(RedisHarness::new()));
        let compared = runtime.block_on(compare(&reference, &subject, seed, steps, disturb));
        if let Err(difference) = compared {
            panic!("{difference}");
        }
    }
}

#[test]
fn random_operations_agree_with_the_reference() {
    agrees(0..seeds(6), 300, Disturb::Nothing);
}

#[test]
fn random_operations_agree_over_restarts() {
    agrees(0..seeds(4), 200, Disturb::Restarts);
}
