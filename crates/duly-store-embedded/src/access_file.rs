//! The file of the keys of callers and of the tenants.
//!
//! ```text
//! duly keys 1 <CRC-32C of the rest, 8 hexadecimal digits>\n
//! <JSON of duly_store::AccessRecords>
//! ```
//!
//! Keys are few and change rarely, so they are no records of the journal: each change writes the whole
//! file, which is kept twice (`json_file.rs`). Rules:
//!
//! 1. The manifest has the feature bit 4 (`format::KEYS`) before the first key is durable. Builds without keys
//!    refuse the directory. A file without keys is there before the bit, so no crash looks like files that were removed.
//! 2. The first start of a restored directory notes in the file that its keys need a confirmation, before it
//!    forgets that the directory was restored. That, and the confirmation, is a new version: the file of the
//!    backup, put back by itself, is older. The file of a backup has that note too, for the case that there is no whole file
//!    beside it: put in the place of a damaged pair, it admits no one until it is confirmed.
//! 3. A start writes a damaged, older or missing file again from the other one. If both are damaged or removed, the store opens and
//!    timers are delivered, but no caller is admitted: callers get the cause. An operator puts the file of a backup there, or removes
//!    both and creates a new administrator, and then all other keys and all tenants are gone.

use std::{path::Path, sync::Arc};

use duly_core::{Invalid, Millis, env::Clock};
use duly_store::Error;
pub use duly_store::{AccessChange, AccessRecords, ChangeOrigin, RestoreState};
use parking_lot::Mutex;

use crate::{
    disk::{self, Disk, Lock, RealDisk},
    format,
    json_file::{self, JsonPair, Versioned},
    manifest::{self, Manifest},
    open::OpenError,
    progress::Progress,
};

/// Name of the file.
pub(crate) const NAME: &str = "KEYS";
/// Name of the file until it is durable.
pub(crate) const TEMPORARY: &str = "KEYS.tmp";
/// Name of the copy.
pub(crate) const COPY: &str = "KEYS.copy";
const PAIR: JsonPair =
    JsonPair { name: NAME, copy: COPY, temporary: TEMPORARY, magic: "duly keys 1 ", reserve: 0 };

impl Versioned for AccessRecords {
    fn version(&self) -> impl Ord + use<> {
        self.version
    }

    /// Beside a whole file with the same keys, the note in the file of a backup has no meaning.
    fn merged(self, other: Self) -> Self {
        if other == (Self { restore: RestoreState::None, ..self.clone() }) {
            return other;
        }
        self
    }
}

/// The keys of an open store.
#[derive(Debug)]
pub(crate) struct AccessFile {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    /// Held only to read or to replace the pointer: a reader never waits for a change and its disk.
    records: Mutex<Arc<AccessRecords>>,
    /// Held during a change.
    changing: Mutex<()>,
    progress: Arc<Progress>,
    /// Held as long as a change may write.
    _lock: Lock,
}

impl AccessFile {
    /// Reads the file.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        lock: Lock,
        progress: Arc<Progress>,
    ) -> Result<Self, OpenError> {
        let records = match read(disk.as_ref()) {
            Ok(records) => records,
            Err(error @ OpenError::Keys(_)) => {
                let damage = error.to_string();
                tracing::error!(%damage, "no caller is admitted; timers are delivered");
                AccessRecords { version: 1, damage: Some(damage), ..AccessRecords::default() }
            }
            Err(error) => return Err(error),
        };
        if records.damage.is_none() {
            heal(disk.as_ref());
        }
        if records.restore == RestoreState::Unconfirmed {
            tracing::warn!(
                keys = records.keys.len(),
                "restored keys admit no caller until `duly key confirm` is run"
            );
        }
        let (records, changing) = (Mutex::new(Arc::new(records)), Mutex::new(()));
        Ok(Self { disk, clock, records, changing, progress, _lock: lock })
    }

    /// Returns the records.
    pub(crate) fn records(&self) -> Arc<AccessRecords> {
        Arc::clone(&self.records.lock())
    }

    /// Changes the records, durably. Returns `None` if their version is not `seen`.
    pub(crate) fn change(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> duly_store::Result<Option<AccessRecords>> {
        let _changing = self.changing.lock();
        let _working = self.progress.working(&self.progress.keys);
        let records = self.records();
        if let Some(reason) = records.damage.clone() {
            return Err(Error::Unavailable { reason, retry_after: Millis::from_secs(60) });
        }
        if records.version != seen {
            return Ok(None);
        }
        let changed = records.changed(change, origin, self.clock.now())?;
        let Err(FailedWrite { error, is_undone }) = write(self.disk.as_ref(), &changed) else {
            *self.records.lock() = Arc::new(changed.clone());
            return Ok(Some(changed));
        };
        let reason = format!("the keys could not be written: {error}");
        match read(self.disk.as_ref()) {
            Ok(found) if is_undone && found == *records => {
                let retry_after = Millis::from_secs(1);
                Err(Error::Unavailable { reason, retry_after })
            }
            found => {
                // The file has its name already, and may not be durable.
                if let Ok(found) = found {
                    *self.records.lock() = Arc::new(found);
                }
                Err(Error::InDoubt { reason })
            }
        }
    }
}

/// Changes the keys of a directory that no server has open.
///
/// # Errors
/// When the directory has no store, or a server has it open; when its keys are damaged, or cannot be
/// written; when `edit` refuses.
pub fn edit(
    path: &Path,
    edit: impl FnOnce(&AccessRecords) -> Result<AccessRecords, Invalid>,
) -> Result<AccessRecords, OpenError> {
    let disk = open_closed(path)?;
    let _lock = disk.lock()?;
    let records = match read(&disk) {
        // An operator removed both, to begin with a new administrator.
        Err(OpenError::Keys(_)) if !exists(path) => {
            AccessRecords { version: 1, ..AccessRecords::default() }
        }
        records => records?,
    };
    let changed = edit(&records).map_err(OpenError::Options)?;
    write(&disk, &changed)?;
    Ok(changed)
}

/// Confirms the keys of a directory that was restored from a backup, and that no server has open: they admit
/// callers again.
///
/// # Errors
/// Those of [`edit`].
pub fn confirm(path: &Path) -> Result<AccessRecords, OpenError> {
    let disk = open_closed(path)?;
    let _lock = disk.lock()?;
    let mut records = read(&disk)?;
    records.restore =
        if is_restored(&disk)? { RestoreState::Confirmed } else { RestoreState::None };
    records.version += 1;
    write(&disk, &records)?;
    Ok(records)
}

/// Opens a directory that must hold a store, for changes.
fn open_closed(path: &Path) -> Result<RealDisk, OpenError> {
    let existing = RealDisk::open_existing(path)?;
    Manifest::read(&existing)?.ok_or_else(|| OpenError::NoStore(existing.describe()))?;
    Ok(RealDisk::open_or_create(path)?)
}

/// Notes that restored keys need a confirmation.
pub(crate) fn note_restore(disk: &dyn Disk) -> Result<(), OpenError> {
    let mut records = match read(disk) {
        // They admit no caller, and only an operator can replace them.
        Err(OpenError::Keys(_)) => return Ok(()),
        records => records?,
    };
    records.restore = match records.restore {
        _ if !records.are_required() => return Ok(()),
        RestoreState::Confirmed => RestoreState::None,
        RestoreState::None | RestoreState::Unconfirmed => RestoreState::Unconfirmed,
    };
    records.version += 1;
    Ok(write(disk, &records)?)
}

/// Returns `true` if a data directory has keys.
pub fn exists(path: &Path) -> bool {
    [NAME, COPY].iter().any(|name| path.join(name).exists())
}

/// Returns the faults of the files of the keys, and `true` if one of them is whole.
pub(crate) fn faults(
    disk: &dyn Disk,
    manifest: &Manifest,
) -> disk::Result<(Vec<(&'static str, String)>, bool)> {
    let kept = PAIR.load::<AccessRecords>(disk)?;
    let is_missing = kept.value.is_none() && manifest.features & format::KEYS != 0;
    let missing = is_missing.then(|| (NAME, json_file::MISSING.to_owned()));
    let has_whole = matches!(kept.value, Some(Ok(_)));
    Ok((kept.findings(COPY).chain(missing).collect(), has_whole))
}

/// Writes a damaged, older or missing file again from the other one, if it can.
fn heal(disk: &dyn Disk) {
    match PAIR.heal::<AccessRecords>(disk) {
        Ok(faults) => faults.into_iter().for_each(|(file, reason)| {
            tracing::warn!(file, %reason, "file of the keys written again; check the disk");
        }),
        Err(error) => tracing::warn!(%error, "the keys could not be written twice"),
    }
}

/// Copies the keys into a directory that has no manifest yet, with the note that they need a confirmation. Returns the
/// bytes of the file; `None` if there are no keys.
pub(crate) fn copy(source: &dyn Disk, target: &dyn Disk) -> Result<Option<u64>, OpenError> {
    let manifest = Manifest::read(source)?.ok_or_else(|| OpenError::NoStore(source.describe()))?;
    let Some(mut records) = load(source, &manifest)? else { return Ok(None) };
    if records.are_required() {
        records.restore = RestoreState::Unconfirmed;
    }
    Ok(Some(PAIR.save(target, &records)?))
}

/// Reads the keys of a directory. Those of a restored directory need a confirmation, even if that is not noted
/// yet.
fn read(disk: &dyn Disk) -> Result<AccessRecords, OpenError> {
    let manifest = Manifest::read(disk)?.ok_or_else(|| OpenError::NoStore(disk.describe()))?;
    let Some(mut records) = load(disk, &manifest)? else { return Ok(AccessRecords::default()) };
    if records.restore == RestoreState::None && is_restored(disk)? {
        records.restore = RestoreState::Unconfirmed;
    }
    Ok(records)
}

/// Reads the file; `None` if the store never had one.
fn load(disk: &dyn Disk, manifest: &Manifest) -> Result<Option<AccessRecords>, OpenError> {
    let records = PAIR.load(disk)?.value.transpose().map_err(OpenError::Keys)?;
    if records.is_none() && manifest.features & format::KEYS != 0 {
        return Err(OpenError::Keys(json_file::MISSING.to_owned()));
    }
    Ok(records)
}

/// Returns `true` before the first start of a restored directory.
pub(crate) fn is_restored(disk: &dyn Disk) -> Result<bool, OpenError> {
    Ok(disk.list("")?.iter().any(|name| name == manifest::RESTORED))
}

/// A change that failed.
struct FailedWrite {
    error: OpenError,
    /// Everything is as before, durably.
    is_undone: bool,
}

impl From<FailedWrite> for OpenError {
    fn from(failed: FailedWrite) -> Self {
        failed.error
    }
}

fn write(disk: &dyn Disk, records: &AccessRecords) -> Result<(), FailedWrite> {
    let unchanged = |error| FailedWrite { error, is_undone: true };
    let manifest = Manifest::read(disk).map_err(unchanged)?;
    let manifest = manifest.ok_or_else(|| unchanged(OpenError::NoStore(disk.describe())))?;
    let before = load(disk, &manifest);
    let write = || {
        if records.are_required() && manifest.features & format::KEYS == 0 {
            if matches!(before, Ok(None)) {
                // A kill after the manifest must not look like files that were removed.
                PAIR.save(disk, &AccessRecords::default())?;
            }
            let features = manifest.features | format::KEYS;
            Manifest { features, ..manifest }.write(disk)?;
        }
        PAIR.save(disk, records)
    };
    write().map(drop).map_err(|error| {
        let is_undone = before.and_then(|before| undo(disk, &manifest, before)).is_ok();
        FailedWrite { error: error.into(), is_undone }
    })
}

/// Undoes a change that failed. The copy may have it, although the file refused it; and after a first key that failed
/// no key is required.
fn undo(
    disk: &dyn Disk,
    manifest: &Manifest,
    before: Option<AccessRecords>,
) -> Result<(), OpenError> {
    if manifest.features & format::KEYS == 0 {
        manifest.write(disk)?;
    }
    if let Some(before) = before {
        PAIR.save(disk, &before)?;
    } else {
        for name in [NAME, COPY] {
            disk.remove(name)
                .or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })?;
        }
        disk.sync_dir("")?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
