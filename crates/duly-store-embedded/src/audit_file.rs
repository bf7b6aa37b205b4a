//! The file of the audit log: what administrators have done.
//!
//! Such calls are few. So the whole log, which is bounded, is written with each batch of entries. A backup does
//! not contain it. A damaged file stops nothing: it is logged, and the log begins again.

use std::sync::Arc;

use duly_core::{Millis, env::Clock};
use duly_store::{AuditEntries, AuditEntry, AuditId, Error};
use parking_lot::Mutex;

use crate::{
    disk::{self, Disk},
    json_file::JsonFile,
    shell::Progress,
};

/// Name of the file.
pub(crate) const NAME: &str = "AUDIT";
/// Name of the file until it is durable.
pub(crate) const TEMPORARY: &str = "AUDIT.tmp";
const FILE: JsonFile = JsonFile { name: NAME, temporary: TEMPORARY, magic: "duly audit 1 " };

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
        match FILE.load::<Vec<(String, String)>>(disk.as_ref())? {
            None => {}
            Some(Ok(lines)) => {
                let read = lines.into_iter().filter_map(|(id, line)| {
                    Some(AuditEntry { id: id.parse::<AuditId>().ok()?, line })
                });
                entries.append(read, clock.now());
            }
            Some(Err(damage)) => tracing::error!(
                %damage,
                "file AUDIT is damaged; the audit log in the store begins again"
            ),
        }
        let (entries, changing) = (Mutex::new(entries), Mutex::new(()));
        Ok(Self { disk, clock, entries, changing, progress })
    }

    /// Returns at most `limit` entries before an id, the newest first.
    pub(crate) fn page(&self, before: Option<AuditId>, limit: usize) -> Vec<AuditEntry> {
        self.entries.lock().page(before, limit)
    }

    /// Adds entries, durably.
    pub(crate) fn append(&self, added: Vec<AuditEntry>) -> duly_store::Result<()> {
        let _changing = self.changing.lock();
        let _working = self.progress.working(&self.progress.audit);
        let mut next = self.entries.lock().clone();
        next.append(added, self.clock.now());
        let lines: Vec<_> = next.iter().map(|entry| (entry.id.to_string(), entry.line)).collect();
        FILE.save(self.disk.as_ref(), &lines).map_err(|error| Error::Unavailable {
            reason: format!("the audit log could not be written: {error}"),
            retry_after: Millis::from_secs(1),
        })?;
        *self.entries.lock() = next;
        Ok(())
    }
}

/// Returns the damage of the file, if there is any.
pub(crate) fn damage(disk: &dyn Disk) -> disk::Result<Option<String>> {
    Ok(FILE.load::<Vec<(String, String)>>(disk)?.and_then(Result::err))
}

#[cfg(test)]
mod tests {
    use duly_core::env::Clock as _;

    use super::*;
    use crate::{SystemClock, disk::RealDisk};

    #[test]
    fn entries_survive_and_damage_stops_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::open_or_create(directory.path()).unwrap());
        let open = || {
            let disk = Arc::clone(&disk);
            AuditFile::open(disk, Arc::new(SystemClock), Arc::default()).unwrap()
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
        std::fs::write(directory.path().join(NAME), "duly audit 1 00000000\n[]").unwrap();
        assert!(open().page(None, 10).is_empty());
        open().append(vec![entry(3)]).unwrap();
        assert_eq!(open().page(None, 10).len(), 1);
    }
}
