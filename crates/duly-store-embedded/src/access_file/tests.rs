use std::{path::Path, sync::Arc};

use duly_core::{
    Timestamp,
    access::{Actions, AdminLogin, ApiKey, KeyId, NamespacePattern, PresentedKey},
};
use duly_store::{AccessStore, RestoreState, Store as _};
use futures::executor::block_on;

use super::*;
use crate::{
    EmbeddedStore, Options, SystemClock, backup,
    disk::{Fault, SimDisk},
};

fn admin(digit: u8) -> ApiKey {
    let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
    let rights = (Actions::all(), vec![NamespacePattern::all()]);
    ApiKey::new(
        &presented,
        format!("admin {digit}"),
        rights,
        (Timestamp::MIN, "offline".to_owned()),
    )
}

pub(crate) fn put(digit: u8) -> AccessChange {
    AccessChange::Put(Box::new(admin(digit)))
}

fn offline(change: AccessChange) -> impl FnOnce(&AccessRecords) -> Result<AccessRecords, Invalid> {
    move |records| records.changed(change, ChangeOrigin::Offline, Timestamp::MIN)
}

fn open(disk: &SimDisk) -> Result<EmbeddedStore, OpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    EmbeddedStore::open_inline(disk, Options::default(), Arc::new(SystemClock))
}

fn version(store: &EmbeddedStore) -> u64 {
    block_on(store.read_access(u64::MAX)).unwrap().unwrap().version
}

#[test]
fn p1_keys_survive_a_crash_at_every_operation() {
    for at in 1.. {
        let disk = SimDisk::new(at);
        let store = open(&disk).unwrap();
        block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY)))
            .unwrap()
            .unwrap();
        disk.plan(Fault::CrashAtOp(at));
        let changed = block_on(store.change_access(1, put(2), ChangeOrigin::Call(AdminLogin::ANY)));
        let is_over = !disk.is_down();
        drop(store);
        let store = open(&disk.crash()).unwrap();
        let records = block_on(store.read_access(u64::MAX)).unwrap().unwrap();
        let count = records.keys.len();
        assert!((1..=2).contains(&count) && records.version == count as u64, "{at}: {records:?}");
        assert!(changed.is_err() || count == 2, "{at}");
        if is_over {
            assert!(at > 4);
            return;
        }
    }
}

#[test]
fn a_crash_within_the_first_change_never_admits_everyone_again() {
    for at in 1.. {
        let disk = SimDisk::new(at);
        let store = open(&disk).unwrap();
        disk.plan(Fault::CrashAtOp(at));
        let changed = block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY)));
        let is_over = !disk.is_down();
        drop(store);
        let store = open(&disk.crash()).unwrap();
        let records = block_on(store.read_access(u64::MAX)).unwrap().unwrap();
        assert!(changed.is_err() || records.are_required() && records.keys.len() == 1, "{at}");
        if is_over {
            return;
        }
    }
}

#[test]
fn a_full_disk_changes_no_key() {
    let disk = SimDisk::new(7);
    let store = open(&disk).unwrap();
    block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY))).unwrap().unwrap();
    disk.plan(Fault::NoSpaceAtWrite(1));
    let error =
        block_on(store.change_access(1, put(2), ChangeOrigin::Call(AdminLogin::ANY))).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(version(&store), 1);
    block_on(store.change_access(1, put(2), ChangeOrigin::Call(AdminLogin::ANY))).unwrap().unwrap();
    // The copy has the change, and the file refuses it: it is undone in both.
    disk.plan(Fault::ErrorAtSync(2));
    let error =
        block_on(store.change_access(2, put(3), ChangeOrigin::Call(AdminLogin::ANY))).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(version(&store), 2);
    drop(store);
    assert_eq!(version(&open(&disk.crash()).unwrap()), 2);
}

#[test]
fn a_first_key_that_fails_requires_no_key() {
    // The syncs of both files of the keys with their names, of both files of the manifest, and of the keys again.
    for at in 1..=8 {
        let disk = SimDisk::new(at);
        let store = open(&disk).unwrap();
        disk.plan(Fault::ErrorAtSync(at));
        let error = block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY)))
            .unwrap_err();
        assert!(matches!(error, Error::Unavailable { .. }), "{at}: {error}");
        assert_eq!(block_on(store.read_access(u64::MAX)).unwrap().unwrap().version, 0, "{at}");
        drop(store);
        let disk = disk.crash();
        assert_eq!(Manifest::read(&disk).unwrap().unwrap().features & format::KEYS, 0, "{at}");
        let store = open(&disk).unwrap();
        block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY)))
            .unwrap()
            .unwrap();
    }
}

#[test]
fn a_change_that_is_not_undone_is_in_doubt() {
    for seed in 0..8 {
        let disk = SimDisk::new(seed);
        let store = open(&disk).unwrap();
        block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY)))
            .unwrap()
            .unwrap();
        // The copy may have the change, and cannot be written again.
        disk.plan(Fault::ErrorAtSync(1));
        disk.plan(Fault::NoSpaceAtWrite(3));
        let error = block_on(store.change_access(1, put(2), ChangeOrigin::Call(AdminLogin::ANY)))
            .unwrap_err();
        assert!(matches!(error, Error::InDoubt { .. }), "{seed}: {error}");
    }
}

/// Returns a closed store with two keys.
fn with_two_keys() -> SimDisk {
    let disk = SimDisk::new(7);
    let store = open(&disk).unwrap();
    block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY))).unwrap().unwrap();
    block_on(store.change_access(1, put(2), ChangeOrigin::Call(AdminLogin::ANY))).unwrap().unwrap();
    drop(store);
    disk
}

fn records(store: &EmbeddedStore) -> AccessRecords {
    block_on(store.read_access(u64::MAX)).unwrap().unwrap()
}

#[test]
fn one_damaged_file_loses_no_key() {
    let length = with_two_keys().read_file(NAME).len() as u64;
    for name in [NAME, COPY] {
        for at in (0..length).step_by(1_501).map(Some).chain([None]) {
            let disk = with_two_keys();
            match at {
                Some(at) => disk.corrupt(name, at, 1),
                None => disk.remove(name).unwrap(),
            }
            let found = records(&open(&disk).unwrap());
            assert_eq!((found.keys.len(), found.damage), (2, None), "{name} at {at:?}");
            assert_eq!(disk.read_file(NAME), disk.read_file(COPY), "{name} at {at:?}");
        }
    }
}

#[test]
fn a_damaged_pair_admits_no_caller_and_stops_no_timer() {
    let disk = with_two_keys();
    [NAME, COPY].iter().for_each(|name| disk.corrupt(name, 40, 1));
    let store = open(&disk).unwrap();
    let found = records(&store);
    let damage = found.damage.unwrap();
    for part in ["KEYS: ", "KEYS.copy: ", "duly key create", "all tenants"] {
        assert!(damage.contains(part), "{damage} lacks {part}");
    }
    assert!(found.version > 0 && found.keys.is_empty());
    let error =
        block_on(store.change_access(1, put(3), ChangeOrigin::Call(AdminLogin::ANY))).unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert_eq!(store.health().not_ready, Vec::<String>::new());
    drop(store);
    // Removed files are no better.
    [NAME, COPY].iter().for_each(|name| disk.remove(name).unwrap());
    let found = records(&open(&disk).unwrap());
    let damage = found.damage.as_deref().unwrap();
    assert!(damage.contains("missing") && damage.contains("duly key create"), "{damage}");
    assert!(found.are_required() && found.keys.is_empty());
}

#[test]
fn p10_a_key_is_revoked_without_a_free_byte_or_inode() {
    let disk = with_two_keys();
    let store = open(&disk).unwrap();
    disk.set_free_bytes(0);
    disk.set_free_inodes(0);
    let disabled = ApiKey { disabled: true, ..admin(2) };
    let change = AccessChange::Put(Box::new(disabled));
    let changed = block_on(store.change_access(2, change, ChangeOrigin::Call(AdminLogin::ANY)))
        .unwrap()
        .unwrap();
    assert!(changed.keys[&admin(2).id].disabled);
    let change = AccessChange::Delete(admin(2).id);
    block_on(store.change_access(3, change, ChangeOrigin::Call(AdminLogin::ANY))).unwrap().unwrap();
    drop(store);
    assert_eq!(records(&open(&disk.crash()).unwrap()).keys.len(), 1);
}

/// A change of a directory with one damaged file, cut off at each operation of the disk: the other file is never the one
/// that is written while it is the only whole one.
#[test]
fn p1_one_damaged_file_and_a_crash_lose_no_key() {
    let whole = with_two_keys();
    for (name, at) in [NAME, COPY].into_iter().flat_map(|name| (1..12).map(move |at| (name, at))) {
        let disk = whole.crash();
        disk.corrupt(name, 60, 1);
        disk.plan(Fault::CrashAtOp(at));
        let found = read(&disk).unwrap();
        let changed = found.changed(put(3), ChangeOrigin::Offline, Timestamp::MIN).unwrap();
        write(&disk, &changed).ok();
        let found = read(&disk.crash()).unwrap();
        assert!((2..=3).contains(&found.keys.len()), "{name} {at}");
    }
}

/// The room of one file grew, and the disk was full for the other one.
#[test]
fn p10_a_key_is_revoked_after_growth_that_was_half_done() {
    let disk = with_two_keys();
    let store = open(&disk).unwrap();
    let mut seen = 2;
    let grown = loop {
        let digit = u8::try_from(seen + 1).unwrap();
        let before = disk.read_file(COPY).len();
        disk.plan(Fault::NoSpaceAtWrite(2));
        let changed =
            block_on(store.change_access(seen, put(digit), ChangeOrigin::Call(AdminLogin::ANY)));
        if disk.read_file(COPY).len() > before && changed.is_err() {
            break seen;
        }
        seen = version(&store);
        if changed.is_err() {
            disk.plan(Fault::NoSpaceAtWrite(u64::MAX));
            block_on(store.change_access(seen, put(digit), ChangeOrigin::Call(AdminLogin::ANY)))
                .unwrap()
                .unwrap();
            seen += 1;
        }
    };
    disk.set_free_bytes(0);
    disk.set_free_inodes(0);
    disk.plan(Fault::NoSpaceAtWrite(u64::MAX));
    let change = AccessChange::Delete(admin(2).id);
    block_on(store.change_access(grown, change, ChangeOrigin::Call(AdminLogin::ANY)))
        .unwrap()
        .unwrap();
}

/// A file from an earlier time, as one that was put back from a backup, does not bring a revoked key back.
#[test]
fn an_older_file_undoes_no_change() {
    let whole = with_two_keys();
    let older = whole.read_file(NAME);
    let store = open(&whole).unwrap();
    let change = AccessChange::Delete(admin(2).id);
    block_on(store.change_access(2, change, ChangeOrigin::Call(AdminLogin::ANY))).unwrap().unwrap();
    drop(store);
    for name in [NAME, COPY] {
        let disk = whole.crash();
        let file = disk.open(name).unwrap();
        file.write_at(0, &older).and_then(|()| file.sync_all()).unwrap();
        let manifest = Manifest::read(&disk).unwrap().unwrap();
        let (faults, has_whole) = faults(&disk, &manifest).unwrap();
        assert!(has_whole && faults.len() == 1 && faults[0].0 == name, "{faults:?}");
        assert!(faults[0].1.contains("older"), "{faults:?}");
        assert_eq!(records(&open(&disk).unwrap()).keys.len(), 1, "{name}");
        assert_eq!(disk.read_file(NAME), disk.read_file(COPY), "{name}");
    }
}

#[test]
fn files_of_an_older_build_are_read_and_written_twice() {
    let disk = with_two_keys();
    let found = read(&disk).unwrap();
    disk.remove(COPY).unwrap();
    disk::replace(&disk, [TEMPORARY, NAME], &PAIR.encode(&found, 0)).unwrap();
    assert_eq!(PAIR.heal::<AccessRecords>(&disk).unwrap(), [], "no line says to check the disk");
    let store = open(&disk).unwrap();
    assert_eq!(records(&store).keys.len(), 2);
    drop(store);
    disk.remove(NAME).unwrap();
    assert_eq!(records(&open(&disk).unwrap()).keys.len(), 2, "the copy has them too");
}

#[test]
fn changes_name_the_version_that_they_are_based_on() {
    let disk = SimDisk::new(7);
    let store = open(&disk).unwrap();
    let first = block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY)))
        .unwrap()
        .unwrap();
    assert_eq!(
        block_on(store.change_access(0, put(2), ChangeOrigin::Call(AdminLogin::ANY))).unwrap(),
        None
    );
    assert_eq!(block_on(store.read_access(first.version)).unwrap(), None);
    let delete = AccessChange::Delete(admin(1).id);
    let error =
        block_on(store.change_access(1, delete, ChangeOrigin::Call(AdminLogin::ANY))).unwrap_err();
    assert!(error.to_string().contains("admin"), "{error}");
    assert_eq!(version(&store), 1);
}

#[test]
fn older_builds_refuse_a_store_with_keys() {
    let disk = SimDisk::new(7);
    let store = open(&disk).unwrap();
    let features = |disk: &SimDisk| Manifest::read(disk).unwrap().unwrap().features;
    assert_eq!(features(&disk) & format::KEYS, 0);
    block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY))).unwrap();
    assert_eq!(features(&disk), format::KNOWN_FEATURES);
    drop(store);
    drop(open(&disk).unwrap());
    assert_eq!(features(&disk), format::KNOWN_FEATURES);
}

#[test]
fn restored_keys_admit_no_one_until_they_are_confirmed() {
    let root = tempfile::tempdir().unwrap();
    let [data, copy, back, again] =
        ["data", "copy", "back", "again"].map(|name| root.path().join(name));
    let open = |path: &Path| {
        EmbeddedStore::open_dir(path, Options::default(), Arc::new(SystemClock)).unwrap()
    };
    let restore_state =
        |store: &EmbeddedStore| block_on(store.read_access(u64::MAX)).unwrap().unwrap().restore;
    let store = open(&data);
    block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY))).unwrap();
    store.backup(&copy, &mut |_| {}).unwrap();
    store.close();
    drop(store);
    for path in [&back, &again] {
        backup::restore(&copy, path, &mut |_| {}).unwrap();
        assert_eq!(
            edit(path, |records| Ok(records.clone())).unwrap().restore,
            RestoreState::Unconfirmed
        );
    }
    let store = open(&back);
    assert_eq!((version(&store), restore_state(&store)), (2, RestoreState::Unconfirmed));
    drop(store);
    // A file of the backup, put back by itself, is older.
    for name in [NAME, COPY] {
        std::fs::copy(copy.join(name), back.join(name)).unwrap();
        assert_eq!(restore_state(&open(&back)), RestoreState::Unconfirmed, "{name}");
    }
    confirm(&back).unwrap();
    assert_eq!(restore_state(&open(&back)), RestoreState::None);
    // Before the first start, too.
    confirm(&again).unwrap();
    assert_eq!(restore_state(&open(&again)), RestoreState::None);
}

#[test]
fn keys_of_a_backup_in_place_of_a_damaged_pair_wait() {
    let root = tempfile::tempdir().unwrap();
    let [data, copy] = ["data", "copy"].map(|name| root.path().join(name));
    let open =
        || EmbeddedStore::open_dir(&data, Options::default(), Arc::new(SystemClock)).unwrap();
    let store = open();
    block_on(store.change_access(0, put(1), ChangeOrigin::Call(AdminLogin::ANY))).unwrap();
    block_on(store.change_access(1, put(2), ChangeOrigin::Call(AdminLogin::ANY))).unwrap();
    store.backup(&copy, &mut |_| {}).unwrap();
    // Beside a whole file of the same version, the file of the backup changes nothing.
    drop(store);
    for name in [NAME, COPY] {
        std::fs::copy(copy.join(name), data.join(name)).unwrap();
        assert_eq!(records(&open()).restore, RestoreState::None, "{name}");
    }
    let store = open();
    block_on(store.change_access(
        2,
        AccessChange::Delete(admin(2).id),
        ChangeOrigin::Call(AdminLogin::ANY),
    ))
    .unwrap();
    drop(store);
    for is_damaged in [true, false] {
        for name in [NAME, COPY] {
            if is_damaged {
                std::fs::write(data.join(name), "damage").unwrap();
            } else {
                std::fs::remove_file(data.join(name)).unwrap();
            }
        }
        let found = records(&open());
        assert!(found.are_required() && found.keys.is_empty(), "{found:?}");
        // As the page of errors says.
        std::fs::copy(copy.join(NAME), data.join(NAME)).unwrap();
        std::fs::remove_file(data.join(COPY)).ok();
        let found = records(&open());
        assert_eq!((found.restore, found.keys.len()), (RestoreState::Unconfirmed, 2));
    }
    confirm(&data).unwrap();
    assert_eq!(records(&open()).restore, RestoreState::None);
}

#[test]
fn offline_changes_need_a_store_that_no_server_uses() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    assert!(edit(&data, offline(put(1))).is_err());
    let open =
        || EmbeddedStore::open_dir(&data, Options::default(), Arc::new(SystemClock)).unwrap();
    let store = open();
    let error = edit(&data, offline(put(1))).unwrap_err().to_string();
    assert!(error.contains("another"), "{error}");
    drop(store);
    edit(&data, offline(put(1))).unwrap();
    assert_eq!(version(&open()), 1);
    // A new administrator in place of files that were removed.
    [NAME, COPY].iter().for_each(|name| std::fs::remove_file(data.join(name)).unwrap());
    edit(&data, offline(put(2))).unwrap();
    let found = records(&open());
    assert_eq!((found.damage.as_deref(), found.keys.len()), (None, 1));
}
