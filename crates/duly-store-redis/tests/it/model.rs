//! The store and the reference under the same random operations, with an invariant check of the keys in
//! Redis at the end.

use std::sync::Arc;

use duly_store::conformance::{
    MemoryHarness,
    model::{Disturbance, compare},
    rounds,
};

use parking_lot::Mutex;

use crate::{audit::audit, harness::RedisHarness, in_order::InOrder, server::Server};

fn seeds(all: u64) -> u64 {
    let given = std::env::var("DULY_MODEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    given.unwrap_or_else(|| rounds(all))
}

fn agrees(seeds: std::ops::Range<u64>, steps: usize, disturb: Disturbance) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    for seed in seeds {
        let server = Arc::new(Mutex::new(Server::start(&[])));
        let port = server.lock().port();
        let subject: Arc<Mutex<Server>> = Arc::clone(&server);
        let (reference, subject) =
            (InOrder(MemoryHarness::new(seed)), InOrder(RedisHarness::on(subject)));
        let compared = runtime.block_on(compare(&reference, &subject, seed, steps, disturb));
        if let Err(difference) = compared {
            panic!("{difference}");
        }
        assert_eq!(audit(port), Vec::<String>::new(), "seed {seed}");
    }
}

#[test]
fn random_operations_agree_with_the_reference() {
    agrees(0..seeds(6), 300, Disturbance::Nothing);
}

#[test]
fn random_operations_agree_over_restarts() {
    agrees(0..seeds(4), 200, Disturbance::Restarts);
}
