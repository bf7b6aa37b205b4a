//! Calls of the disk that hang: they give no error, and the store says that it waits.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use duly_core::{
    NamespaceName, Settings, Timestamp,
    access::{Actions, ApiKey, KeyId, NamespacePattern, PresentedKey},
    env::Clock as _,
};
use duly_store::{
    AccessChange, AccessRecords, AuditEntry, AuditId, ChangeOrigin, Store as _,
    namespaces::{Put, Secrets},
};
use duly_store_embedded::{
    EmbeddedStore, Options, SystemClock,
    disk::{Disk, Operation, SimDisk},
};
use futures::executor::block_on;

use crate::faulty::{FaultKind, FaultyDisk, HANG, Rule};

fn put(store: &EmbeddedStore, number: u8) -> duly_store::Result<()> {
    let name = format!("n{number}");
    let put = Put::Replace { settings: Box::new(Settings::default()), secrets: Secrets::Set };
    block_on(store.put_namespace(NamespaceName::new(&name).expect("a name"), put)).map(drop)
}

/// Adds a key.
fn add_key(store: &EmbeddedStore, digit: u8) -> duly_store::Result<()> {
    let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
    let rights = (Actions::all(), vec![NamespacePattern::all()]);
    let created = (Timestamp::MIN, "offline".to_owned());
    let put = AccessChange::Put(Box::new(ApiKey::new(&presented, "k".to_owned(), rights, created)));
    let seen = keys(store).map_or(0, |records| records.version);
    block_on(store.change_access(seen, put, ChangeOrigin::Call)).map(drop)
}

fn keys(store: &EmbeddedStore) -> Option<AccessRecords> {
    block_on(store.read_access(u64::MAX)).expect("keys are read from memory")
}

/// Hangs the next operation of this kind on files with this name during the change, and returns what the
/// health said meanwhile.
fn stalls_while(
    (operation, name): (Operation, &'static str),
    change: fn(&EmbeddedStore, u8) -> duly_store::Result<()>,
) -> Vec<String> {
    let disk = FaultyDisk::new(SimDisk::new(1));
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options { min_free_bytes: 0, min_free_percent: 0, ..Options::default() };
    let store =
        EmbeddedStore::open(on, options, Arc::new(SystemClock), &mut |_| {}).expect("opened");
    change(&store, 1).expect("written");
    assert_eq!(store.health().stalls, Vec::<String>::new());
    let fault_kind = FaultKind::Hangs;
    disk.fail(Rule { operation, name, fault_kind, after: 0, times: 1 });
    let stalls = thread::scope(|scope| {
        let change = scope.spawn(|| change(&store, 2));
        let began = Instant::now();
        let mut stalls = Vec::new();
        while stalls.is_empty() && began.elapsed() < HANG {
            thread::sleep(Duration::from_millis(50));
            let asked = Instant::now();
            stalls = store.health().stalls;
            keys(&store);
            let page = block_on(store.read_audit(None, 1)).expect("read from memory");
            assert_eq!(page, []);
            assert!(asked.elapsed() < Duration::from_secs(1), "no reader waits for the disk");
        }
        change.join().expect("no panic").expect("written");
        stalls
    });
    change(&store, 3).expect("written");
    assert_eq!(store.health().stalls, Vec::<String>::new(), "{operation}");
    stalls
}

#[test]
fn a_hanging_sync_is_reported() {
    let stalls = stalls_while((Operation::Sync, "journal"), put);
    assert!(stalls.len() == 1 && stalls[0].contains("a sync of the journal"), "{stalls:?}");
}

#[test]
fn a_hanging_write_is_reported() {
    let stalls = stalls_while((Operation::Write, "journal"), put);
    assert!(stalls.len() == 1 && stalls[0].contains("at one step"), "{stalls:?}");
}

#[test]
fn a_hanging_sync_of_the_keys_is_reported_and_delays_no_reader() {
    let stalls = stalls_while((Operation::Sync, "KEYS"), add_key);
    assert!(stalls.len() == 1 && stalls[0].contains("a change of the keys"), "{stalls:?}");
}

#[test]
fn a_hanging_audit_log_delays_no_reader() {
    let disk = FaultyDisk::new(SimDisk::new(1));
    let on: Arc<dyn Disk> = Arc::new(disk.clone());
    let options = Options { min_free_bytes: 0, min_free_percent: 0, ..Options::default() };
    let store =
        EmbeddedStore::open(on, options, Arc::new(SystemClock), &mut |_| {}).expect("opened");
    let (operation, fault_kind) = (Operation::Sync, FaultKind::Hangs);
    disk.fail(Rule { operation, name: "AUDIT", fault_kind, after: 0, times: 1 });
    let entry = AuditEntry { id: AuditId::new(SystemClock.now(), 1), line: "{}".to_owned() };
    let appended = store.append_audit(vec![entry]);
    thread::sleep(Duration::from_millis(200));
    let asked = Instant::now();
    assert_eq!(block_on(store.read_audit(None, 1)).expect("read from memory"), []);
    assert!(asked.elapsed() < Duration::from_secs(1), "no reader waits for the disk");
    block_on(appended).expect("written");
    assert_eq!(block_on(store.read_audit(None, 1)).expect("read from memory").len(), 1);
}
