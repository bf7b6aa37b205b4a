//! Calls of the disk that hang: they give no error, and the store says that it waits.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use duly_core::{NamespaceName, Settings};
use duly_store::{
    Store as _,
    namespaces::{Put, Secrets},
};
use duly_store_embedded::{
    EmbeddedStore, Options, SystemClock,
    disk::{Disk, Operation, SimDisk},
};
use futures::executor::block_on;

use crate::faulty::{FaultKind, FaultyDisk, HANG, Rule};

fn put(store: &EmbeddedStore, name: &str) -> duly_store::Result<()> {
    let put = Put::Replace { settings: Box::new(Settings::default()), secrets: Secrets::Set };
    block_on(store.put_namespace(NamespaceName::new(name).expect("a name"), put)).map(drop)
}

/// Hangs the next operation of this kind on the journal, and returns what the health said meanwhile.
fn stalls_while(operation: Operation) -> Vec<String> {
    let disk = FaultyDisk::new(SimDisk::new(1));
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options { min_free_bytes: 0, min_free_percent: 0, ..Options::default() };
    let store =
        EmbeddedStore::open(on, options, Arc::new(SystemClock), &mut |_| {}).expect("opened");
    put(&store, "before").expect("written");
    assert_eq!(store.health().stalls, Vec::<String>::new());
    let (name, fault_kind) = ("journal", FaultKind::Hangs);
    disk.fail(Rule { operation, name, fault_kind, after: 0, times: 1 });
    let stalls = thread::scope(|scope| {
        let change = scope.spawn(|| put(&store, "during"));
        let began = Instant::now();
        let mut stalls = Vec::new();
        while stalls.is_empty() && began.elapsed() < HANG {
            thread::sleep(Duration::from_millis(50));
            let asked = Instant::now();
            stalls = store.health().stalls;
            assert!(asked.elapsed() < Duration::from_secs(1), "the health does not hang");
        }
        change.join().expect("no panic").expect("written");
        stalls
    });
    put(&store, "after").expect("written");
    assert_eq!(store.health().stalls, Vec::<String>::new(), "{operation}");
    stalls
}

#[test]
fn a_hanging_sync_is_reported() {
    let stalls = stalls_while(Operation::Sync);
    assert!(stalls.len() == 1 && stalls[0].contains("a sync of the journal"), "{stalls:?}");
}

#[test]
fn a_hanging_write_is_reported() {
    let stalls = stalls_while(Operation::Write);
    assert!(stalls.len() == 1 && stalls[0].contains("at one step"), "{stalls:?}");
}
