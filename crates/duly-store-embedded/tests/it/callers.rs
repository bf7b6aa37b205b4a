//! Callers that leave, and an engine that ends: no caller waits for ever, and nothing stays leased.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use duly_core::{Millis, Settings, env::Clock};
use duly_store::{
    Error, Namespaces, Store, Timers,
    conformance::ManualClock,
    namespaces::{Put, Secrets},
};
use duly_store_embedded::{
    EmbeddedStore, Options,
    disk::{Disk, SimDisk},
};

use crate::{
    harness::{Shell, open, options},
    steps::{SHARD, apply, claim_request, name, schedule, wait},
};

fn put(store: &dyn Store, namespace: &str, settings: Settings) -> Result<(), Error> {
    let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
    wait(store.put_namespace(name(namespace), put)).map(drop)
}

#[test]
fn p3_an_unreceived_claim_is_handed_back() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let store = open(Shell::Threads, &disk, &clock, 7);
    put(&store, "shop", Settings::default()).unwrap();
    apply(&store, "shop", vec![schedule("a", 0, 10)]).unwrap();
    let left = store.claim(SHARD, claim_request("shop", 10));
    // This call returns after the claim, so the claim has its reply now.
    wait(store.stats(SHARD, name("shop"))).unwrap();
    drop(left);
    // A firing that was handed back can be claimed when that is durable, which this durable call waits
    // for.
    put(&store, "shop", Settings::default()).unwrap();
    let claimed = wait(store.claim(SHARD, claim_request("shop", 10))).unwrap();
    assert_eq!(claimed.firings.len(), 1);
    assert_eq!(claimed.firings[0].attempt, 1, "what nobody saw does not count");
}

/// A clock that can be made to panic, and with it the thread that reads it.
#[derive(Debug, Clone, Default)]
struct Mine {
    clock: ManualClock,
    armed: Arc<AtomicBool>,
}

impl Clock for Mine {
    fn wall(&self) -> Duration {
        self.clock.wall()
    }

    fn boot(&self) -> Duration {
        assert!(!self.armed.load(Ordering::Relaxed), "planted");
        self.clock.boot()
    }
}

#[test]
fn callers_of_an_engine_that_panicked_are_told() {
    let (disk, clock) = (SimDisk::new(1), Mine::default());
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let store =
        EmbeddedStore::open(disk, options(7), Arc::new(clock.clone()), &mut |_| {}).unwrap();
    put(&store, "shop", Settings::default()).unwrap();
    assert!(store.health().not_ready.is_empty());
    clock.armed.store(true, Ordering::Relaxed);
    let caught = put(&store, "shop", Settings::default());
    assert!(matches!(caught, Err(Error::InDoubt { .. } | Error::Unavailable { .. })), "{caught:?}");
    // This thread reads the clock too: what the engine had begun counts as stalled.
    clock.armed.store(false, Ordering::Relaxed);
    store.close();
    let later = put(&store, "shop", Settings::default());
    assert!(matches!(later, Err(Error::Unavailable { .. })), "{later:?}");
    let health = store.health();
    assert!(health.not_ready.iter().any(|why| why.contains("restart")), "{health:?}");
}

#[test]
fn p10_namespaces_past_the_memory_of_the_index_are_refused() {
    let (disk, clock) = (SimDisk::new(1), ManualClock::default());
    let options =
        Options { index_memory_max_bytes: 1 << 20, namespaces_max: 100_000, ..options(6) };
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let by: Arc<dyn Clock> = Arc::new(clock.clone());
    let store = EmbeddedStore::open_inline(on, options, by).unwrap();
    let mut made = 0;
    let refusal = loop {
        match put(&store, &format!("n-{made}"), Settings::default()) {
            Ok(()) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 10_000, "there is a limit");
        clock.advance(Millis::from_ms(100));
    };
    assert_eq!(refusal.code().as_str(), "resource_exhausted");
    assert!(made > 100, "{made}: {refusal}");
    // Existing namespaces stay usable.
    put(&store, "n-0", Settings::default()).unwrap();
    store.close();
    drop(store);
    let store = open(Shell::Inline, &disk, &clock, 6);
    let all = wait(store.list_namespaces(None, 10_000)).unwrap();
    assert_eq!(all.len(), made);
}
