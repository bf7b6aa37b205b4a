//! What a store, a check, a backup and a restore do with a directory.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use duly_core::{State, env::Clock};
use duly_store::{
    AccessRecords, AccessStore, AuditId, AuditStore, Error, ListRequest, Namespaces, RestoreState,
    TimerView, Timers,
    query::{ListState, Position},
};
use duly_store_embedded::{
    EmbeddedStore, Tail,
    backup::restore,
    check::{Report, check, check_disk},
    disk::{Disk, RealDisk, SimDisk},
};

use super::{
    Fault,
    base::{Base, Files, disk_of, put_into, tempdir},
    log::logged,
};
use crate::{
    backup::{at_rest, busy},
    harness::Shell,
    snapshot::Snapshot,
    stage::open,
    steps::{SHARD, name, timer_id, wait},
};

/// The file that marks a backup.
const RESTORED: &str = "RESTORED";

/// The acknowledged content of a store.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Content {
    snapshot: Snapshot,
    keys: Option<AccessRecords>,
    audit: Vec<AuditId>,
}

impl Content {
    pub(super) fn of(store: &EmbeddedStore) -> Self {
        Self { snapshot: at_rest(store), keys: keys(store), audit: audit(store) }
    }
}

/// Returns the keys, but for the mark of a restore and its version.
fn keys(store: &EmbeddedStore) -> Option<AccessRecords> {
    let mut records = wait(store.read_access(u64::MAX)).expect("keys are in memory");
    if let Some(records) = &mut records {
        (records.restore, records.version) = (RestoreState::None, 0);
    }
    records
}

/// Returns `true` if no namespace fires anything.
fn is_paused(store: &EmbeddedStore) -> bool {
    let names = wait(store.list_namespaces(None, 1_000)).expect("they are in memory");
    names.iter().all(|namespace| namespace.paused)
}

fn audit(store: &EmbeddedStore) -> Vec<AuditId> {
    let entries = wait(store.read_audit(None, 100)).expect("it is in memory");
    entries.into_iter().map(|entry| entry.id).collect()
}

/// What a store that opened has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// A call said that the record is damaged.
    reported: Vec<String>,
    /// It is gone, or different.
    silent: Vec<String>,
}

impl Lost {
    fn is_nothing(&self) -> bool {
        self.reported.is_empty() && self.silent.is_empty()
    }

    fn of(store: &EmbeddedStore, expected: &Content) -> Self {
        let mut lost = Self::default();
        for (key, view) in &expected.snapshot.timers {
            if view.state == State::Dead {
                continue;
            }
            match wait(store.get(SHARD, name(&key.0), timer_id(&key.1), u64::MAX)) {
                Ok(Some(found)) if found == *view => {}
                Ok(found) => lost.silent.push(format!("{key:?} is {:?}", found.map(|it| it.state))),
                Err(error) => lost.reported.push(format!("{key:?}: {error}")),
            }
        }
        lost.dead_letters(store, expected);
        for (key, settings) in &expected.snapshot.namespaces {
            let mut found = wait(store.get_namespace(name(key))).expect("it is in memory");
            if let Some(found) = &mut found {
                found.paused = false;
                found.updated_at = found.created_at;
            }
            if found.as_ref() != Some(&settings.0) {
                lost.silent.push(format!("namespace {key}"));
            }
        }
        let keys = keys(store);
        if keys != expected.keys {
            match keys.and_then(|keys| keys.damage) {
                Some(damage) => lost.reported.push(damage),
                None => lost.silent.push("keys".to_owned()),
            }
        }
        if audit(store) != expected.audit {
            lost.silent.push("audit log".to_owned());
        }
        lost
    }

    fn dead_letters(&mut self, store: &EmbeddedStore, expected: &Content) {
        let mut letters = BTreeMap::new();
        for key in expected.snapshot.namespaces.keys() {
            let request = ListRequest {
                limit: 1_000,
                bytes_max: u64::MAX,
                ..ListRequest::new(name(key), ListState::Only(State::Dead))
            };
            loop {
                match wait(store.list(SHARD, request.clone())) {
                    Ok(page) => {
                        letters
                            .extend(page.timers.into_iter().map(|view| (place(key, &view), view)));
                        break;
                    }
                    Err(error @ Error::Damaged(_)) => self.reported.push(error.to_string()),
                    Err(error) => panic!("{error}"),
                }
            }
        }
        for (key, view) in &expected.snapshot.timers {
            if view.state == State::Dead
                && letters.get(&place(&key.0, view)) != Some(view)
                && self.reported.is_empty()
            {
                self.silent.push(format!("{key:?}"));
            }
        }
    }
}

fn place(namespace: &str, view: &TimerView) -> (String, String, u64, u32) {
    let place = Position::of(view);
    (namespace.to_owned(), view.id().to_string(), place.incarnation.0, place.occurrence)
}

/// What was seen of a directory with a fault.
pub(super) struct Observed {
    /// The names that have other bytes than before.
    names: Vec<String>,
    /// A store that was restored fires nothing before an operator resumes it.
    is_paused: bool,
    check: Result<Report, String>,
    /// The refusal, or what the store lacks, and its log.
    pub(super) start: Result<(Lost, Vec<String>), String>,
    /// A backup of the store that opened: the refusal, or what a restore of it lacks, or refuses.
    backup: Option<Result<Result<Lost, String>, String>>,
    restore: Result<Lost, String>,
}

impl Observed {
    pub(super) fn of(base: &Base, expected: &Expected, fault: &Fault) -> Self {
        let files = fault.of(base);
        let check = checked(&files, base);
        let (opened, log) = logged(|| start(&disk_of(&files), base));
        let mut is_paused = true;
        let (start, backup) = match opened {
            Err(refusal) => (Err(refusal), None),
            Ok(store) => {
                let directory = tempdir();
                let target = directory.path().join("backup");
                is_paused = expected.is_paused <= self::is_paused(&store);
                let (lost, more) = logged(|| Lost::of(&store, &expected.started));
                let taken = store.backup(&target, &mut |_| {}).map_err(|error| error.to_string());
                drop(store);
                let backup = taken.map(|_| lost_by_restore(&target, base, &expected.restored));
                (Ok((lost, [log, more].concat())), Some(backup))
            }
        };
        let directory = tempdir();
        put_into(&files, directory.path());
        let restore = lost_by_restore(directory.path(), base, &expected.restored);
        let names = fault.names();
        Self { names, is_paused, check, start, backup, restore }
    }

    /// Returns the promises that do not hold.
    pub(super) fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let mut promise = |holds: bool, what: String| broken.extend((!holds).then_some(what));
        let is_clean = self.check.as_ref().is_ok_and(Report::is_clean);
        match &self.start {
            Err(refusal) => {
                promise(!is_clean, format!("a check is clean, and the start says: {refusal}"));
                promise(self.is_named(refusal), format!("no name: {refusal}"));
            }
            Ok((lost, log)) => {
                promise(!is_clean || lost.is_nothing(), format!("a check is clean: {lost:?}"));
                let is_open = self.check.as_ref().is_ok_and(|report| report.tail != Tail::Closed);
                let is_said = !log.is_empty() || is_open;
                promise(lost.silent.is_empty() || is_said, format!("in silence: {lost:?}"));
                let is_mark = self.names == [RESTORED];
                promise(self.is_paused || is_mark, "the store fires".to_owned());
            }
        }
        if let Some(Ok(Ok(lost))) = &self.backup {
            let reported = self.start.as_ref().is_ok_and(|(lost, _)| !lost.is_nothing());
            promise(lost.is_nothing() || reported, format!("a backup lacks {lost:?}"));
        }
        if let Ok(lost) = &self.restore {
            promise(lost.is_nothing(), format!("a restore lacks {lost:?}"));
        }
        broken
    }

    /// Returns `true` if a message names a file that has other bytes than before, or its directory.
    fn is_named(&self, message: &str) -> bool {
        self.names.iter().any(|name| {
            let (dir, base) = name.split_once('/').unwrap_or(("", name));
            message.contains(base) || message.starts_with(&format!("{dir} is damaged"))
        })
    }
}

fn checked(files: &Files, base: &Base) -> Result<Report, String> {
    let clock: Arc<dyn Clock> = Arc::new(base.clock.clone());
    let disk = disk_of(files);
    let before = disk.ops();
    let report = check_disk(Arc::new(disk.clone()), clock, &mut |_| {});
    assert_eq!(disk.ops(), before, "a check changes nothing");
    report.map_err(|error| error.to_string())
}

fn start(disk: &SimDisk, base: &Base) -> Result<EmbeddedStore, String> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    open(Shell::Inline, disk, &base.clock, busy(5)).map_err(|error| error.to_string())
}

/// Restores a directory. Returns what the restored store lacks, or the refusal.
fn lost_by_restore(from: &Path, base: &Base, expected: &Content) -> Result<Lost, String> {
    Ok(Lost::of(&restored(from, base)?, expected))
}

fn restored(from: &Path, base: &Base) -> Result<EmbeddedStore, String> {
    let directory = tempdir();
    let to = directory.path().join("data");
    restore(from, &to, &mut |_| {}).map_err(|error| error.to_string())?;
    let report = check(&to, &mut |_| {}).map_err(|error| error.to_string())?;
    assert!(report.is_clean(), "a restored store is clean: {report}");
    let disk = RealDisk::open_or_create(&to).expect("a directory");
    open(Shell::Inline, Arc::new(disk), &base.clock, busy(6)).map_err(|error| error.to_string())
}

/// The content of a store without a fault.
pub(super) struct Expected {
    started: Content,
    /// `true`: a start pauses every namespace.
    is_paused: bool,
    restored: Content,
}

impl Base {
    pub(super) fn expected(&self) -> Expected {
        let store = start(&disk_of(&self.files), self).expect("it opens");
        let (started, is_paused) = (Content::of(&store), is_paused(&store));
        let directory = tempdir();
        put_into(&self.files, directory.path());
        let restored = Content::of(&restored(directory.path(), self).expect("it is restored"));
        Expected { started, is_paused, restored }
    }
}
