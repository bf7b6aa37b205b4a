//! The file of the audit log: what administrators have done.
//!
//! Such calls are few. So the whole log, which is bounded, is written with each batch of entries, twice
//! (`json_file.rs`), with room for the entries of revocations on a full disk. A backup does not contain it. If both files are damaged nothing stops: it is logged, and the log
//! begins again.

use std::{collections::BTreeMap, sync::Arc};

use duly_core::{Millis, env::Clock};
use duly_store::{AuditEntries, AuditEntry, AuditId, Error};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    disk::{self, Disk},
    json_file::{JsonPair, Versioned},
    progress::Progress,
};

/// Name of the file.
pub(crate) const NAME: &str = "AUDIT";
/// Name of the file until it is durable.
pub(crate) const TEMPORARY: &str = "AUDIT.tmp";
/// Name of the copy.
pub(crate) const COPY: &str = "AUDIT.copy";
/// Room for entries on a full disk: at least 250 of the usual size, such as revocations of keys.
const RESERVE: usize = 256 << 10;
const PAIR: JsonPair = JsonPair {
    name: NAME,
    copy: COPY,
    temporary: TEMPORARY,
    magic: "duly audit 1 ",
    reserve: RESERVE,
};

/// The lines of the log with their ids, the oldest first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Lines(Vec<(String, String)>);

impl Lines {
    fn of(entries: &AuditEntries) -> Self {
        Self(entries.iter().map(|entry| (entry.id.to_string(), entry.line)).collect())
    }
}

/// The version is the id of the newest entry, then the number of entries. After a step of the clock the earlier of the two
/// files may have the higher version, so the entries of both are kept.
impl Versioned for Lines {
    fn version(&self) -> impl Ord + use<> {
        (self.0.last().map(|(id, _)| id.clone()), self.0.len())
    }

    fn merged(self, other: Self) -> Self {
        let all: BTreeMap<_, _> = self.0.into_iter().chain(other.0).collect();
        Self(all.into_iter().collect())
    }
}

/// The audit log of an open store.
#[derive(Debug)]
pub(crate) struct AuditFile {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    /// Held only to read or to replace them: a reader never waits for a change and its disk.
    entries: Mutex<AuditEntries>,
    /// Held during a change.
    changing: Mutex<()>,
    progress: Arc<Progress>,
}

impl AuditFile {
    /// Reads the file.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        progress: Arc<Progress>,
    ) -> disk::Result<Self> {
        let mut entries = AuditEntries::default();
        match PAIR.load::<Lines>(disk.as_ref())?.value {
            None => {}
            Some(Ok(Lines(lines))) => {
                let read = lines.into_iter().filter_map(|(id, line)| {
                    Some(AuditEntry { id: id.parse::<AuditId>().ok()?, line })
                });
                entries.append(read, clock.now());
            }
            Some(Err(damage)) => tracing::error!(
                %damage,
                "both files of the audit log are damaged; the audit log in the store begins again"
            ),
        }
        match PAIR.heal::<Lines>(disk.as_ref()) {
            Ok(faults) => faults.into_iter().for_each(|(file, reason)| {
                tracing::warn!(file, %reason, "file of the audit log written again; check the disk");
            }),
            Err(error) => tracing::warn!(%error, "the audit log could not be written twice"),
        }
        let (entries, changing) = (Mutex::new(entries), Mutex::new(()));
        Ok(Self { disk, clock, entries, changing, progress })
    }

    /// Returns at most `limit` entries before an id, the newest first.
    pub(crate) fn page(&self, before: Option<AuditId>, limit: usize) -> Vec<AuditEntry> {
        self.entries.lock().page(before, limit)
    }

    /// Adds entries, durably. Returns the number of entries that were too many.
    pub(crate) fn append(&self, added: Vec<AuditEntry>) -> duly_store::Result<usize> {
        let _changing = self.changing.lock();
        let _working = self.progress.working(&self.progress.audit);
        let mut next = self.entries.lock().clone();
        let displaced = next.append(added, self.clock.now());
        PAIR.save(self.disk.as_ref(), &Lines::of(&next)).map_err(|error| Error::Unavailable {
            reason: format!("the audit log could not be written: {error}"),
            retry_after: Millis::from_secs(1),
        })?;
        *self.entries.lock() = next;
        Ok(displaced)
    }

    /// Reserves room for entries, as a start of a store with keys does: the first revocation may meet a full disk.
    pub(crate) fn reserve(&self) {
        let lines = Lines::of(&self.entries.lock());
        let reserved = PAIR.lacks_reserve(self.disk.as_ref(), &lines).and_then(|lacks| {
            if lacks { PAIR.save(self.disk.as_ref(), &lines).map(drop) } else { Ok(()) }
        });
        if let Err(error) = reserved {
            tracing::warn!(%error, "no room was reserved for the audit log in the store");
        }
    }
}

/// Returns the faults of the two files, and `true` if one of them is whole.
pub(crate) fn faults(disk: &dyn Disk) -> disk::Result<(Vec<(&'static str, String)>, bool)> {
    let kept = PAIR.load::<Lines>(disk)?;
    let has_whole = matches!(kept.value, Some(Ok(_)));
    Ok((kept.findings(COPY).collect(), has_whole))
}

#[cfg(test)]
mod tests {
    use duly_core::env::Clock as _;

    use duly_store::{AccessStore as _, AuditStore as _};
    use futures::executor::block_on;

    use super::*;
    use crate::{
        EmbeddedStore, Options, SystemClock, access_file,
        disk::{RealDisk, SimDisk},
    };

    #[test]
    fn p10_a_full_disk_keeps_the_entries_of_revocations() {
        let sim = SimDisk::new(1);
        let open = |disk: &SimDisk| {
            let disk: Arc<dyn Disk> = Arc::new(disk.clone());
            EmbeddedStore::open_inline(disk, Options::default(), Arc::new(SystemClock)).unwrap()
        };
        let store = open(&sim);
        let change = access_file::tests::put(1);
        block_on(store.change_access(
            0,
            change,
            access_file::ChangeOrigin::Call(duly_core::access::AdminLogin::ANY),
        ))
        .unwrap();
        drop(store);
        // The key was made offline, so there is no entry yet.
        let store = open(&sim);
        sim.set_free_bytes(0);
        sim.set_free_inodes(0);
        for n in 0..250 {
            let line = format!("{{\"n\":{n},\"rest\":\"{}\"}}", "x".repeat(600));
            let entry = AuditEntry { id: AuditId::new(SystemClock.now(), n), line };
            block_on(store.append_audit(vec![entry])).unwrap();
        }
        drop(store);
        let store = open(&sim.crash());
        assert_eq!(block_on(store.read_audit(None, 1_000)).unwrap().len(), 250);
    }

    #[test]
    fn entries_survive_and_damage_stops_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_or_create(directory.path()).unwrap());
        let open = || {
            let disk = Arc::clone(&disk);
            let clock: Arc<dyn Clock> = Arc::new(SystemClock);
            let progress = Arc::new(Progress::new(Arc::clone(&clock)));
            AuditFile::open(disk, clock, progress).unwrap()
        };
        let entry = |random| AuditEntry {
            id: AuditId::new(SystemClock.now(), random),
            line: format!("{{\"n\":{random}}}"),
        };
        let (first, second) = (entry(1), entry(2));
        open().append(vec![first.clone()]).unwrap();
        open().append(vec![second.clone()]).unwrap();
        let mut found = open().page(None, 10);
        found.sort_by_key(|entry| entry.id);
        assert_eq!(found, [first, second]);
        let damage = |name| {
            std::fs::write(directory.path().join(name), "duly audit 1 00000000\n[]").unwrap();
        };
        for name in [NAME, COPY] {
            damage(name);
            assert_eq!(open().page(None, 10).len(), 2, "{name}");
        }
        // Each file lacks an entry, as after a clock that stepped back.
        for (name, n) in [(NAME, 3), (COPY, 4)] {
            let lines = Lines(vec![(entry(n).id.to_string(), entry(n).line)]);
            std::fs::write(directory.path().join(name), PAIR.encode(&lines, 0)).unwrap();
        }
        assert_eq!(open().page(None, 10).len(), 2);
        damage(NAME);
        assert_eq!(open().page(None, 10).len(), 2, "both are written again");
        [NAME, COPY].into_iter().for_each(damage);
        assert!(open().page(None, 10).is_empty());
        open().append(vec![entry(3)]).unwrap();
        assert_eq!(open().page(None, 10).len(), 1);
    }
}
