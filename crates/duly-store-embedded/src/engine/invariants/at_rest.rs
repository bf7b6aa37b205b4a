//! The check of a store at rest: loads the state that a startup would load, without opening the
//! store.
//!
//! 1. It runs the same code as a startup ([`Engine::load`]), which writes nothing.
//! 2. The reader of the files asks, record by record, whether the state points at it
//!    (`StateAtRest::check_record`).
//! 3. The records of the entries that were not met are then read one by one (`StateAtRest::strays`).
//!
//! Used by `duly store check` alone. An engine that was loaded in this way runs no step.

use std::sync::Arc;

use duly_core::env::Clock;
use rand::{SeedableRng, rngs::StdRng};
use rustc_hash::FxHashMap;

use crate::{
    check::Holding,
    disk::Disk,
    effect::Effect,
    files::FileId,
    format::{ALIGN, record::Decoded},
    index::{Entry, Key},
    journal::recovery::RecoveredJournal,
    manifest::Manifest,
    open::{OpenError, OpenProgress},
    options::Options,
};

use super::super::Engine;

/// The loaded state of a store at rest.
#[derive(Debug)]
pub(crate) struct StateAtRest {
    engine: Engine,
    /// Result of the replay.
    pub(crate) found: RecoveredJournal,
    /// Number of records read so far that an entry points at, by slot.
    checked: FxHashMap<u16, u64>,
    /// Number of timers whose latest dead letter was read, by namespace.
    dead_letters_checked: FxHashMap<u32, u64>,
}

/// Relation of a record to the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RecordStatus {
    /// No entry points at it.
    Dead,
    /// An entry points at it.
    Live,
    /// An entry points at it and disagrees with it.
    Disagrees(String),
}

/// An entry whose record is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StrayEntry {
    pub(crate) file: String,
    pub(crate) offset: u64,
    pub(crate) what: String,
}

/// The three indexes whose entries keep a record alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordIndex {
    Pending,
    Tombstone,
    DeadLetter,
}

impl StateAtRest {
    /// Loads the state. Writes nothing.
    pub(crate) fn load(
        disk: Arc<dyn Disk>,
        manifest: &Manifest,
        clock: Arc<dyn Clock>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Self, OpenError> {
        let random = StdRng::seed_from_u64(0);
        let mut engine = Engine::empty(disk, Options::default(), clock, random, manifest);
        let found = engine.load(manifest, progress)?;
        Ok(Self {
            engine,
            found,
            checked: FxHashMap::default(),
            dead_letters_checked: FxHashMap::default(),
        })
    }

    /// Returns the number of the checkpoint that was loaded.
    pub(crate) fn checkpoint(&self) -> Option<u64> {
        self.engine.checkpoints.kept.back().map(|kept| kept.number)
    }

    /// Returns `true` if the checkpoint is kept; others are left-overs.
    pub(crate) fn keeps_checkpoint(&self, number: u64) -> bool {
        self.engine.checkpoints.kept.iter().any(|kept| kept.number == number)
    }

    /// Returns `true` if the state knows the file; others are left-overs.
    pub(crate) fn has_file(&self, id: FileId) -> bool {
        self.engine.files.slot_of(id).is_some()
    }

    /// Returns the number of records of a file that the state points at.
    pub(crate) fn live(&self, id: FileId) -> u64 {
        let slot = self.engine.files.slot_of(id);
        slot.and_then(|slot| self.engine.files.counts(slot)).map_or(0, |counts| counts.live)
    }

    /// Compares the record at `offset` of a file with the state, and counts it.
    pub(crate) fn check_record(
        &mut self,
        id: FileId,
        offset: u64,
        decoded: &Decoded,
    ) -> RecordStatus {
        let Some(slot) = self.engine.files.slot_of(id) else {
            return RecordStatus::Dead;
        };
        let Some((of, key, entry, at_ms)) = self.entry_for(decoded) else {
            return RecordStatus::Dead;
        };
        let location = entry.location();
        if (location.slot(), location.unit() * ALIGN) != (slot, offset) {
            return RecordStatus::Dead;
        }
        *self.checked.entry(slot).or_default() += 1;
        if of == RecordIndex::DeadLetter {
            let latest = self.engine.namespaces.get(key.namespace());
            let latest = latest.and_then(|namespace| namespace.dead_letters.latest(key));
            if latest.is_some_and(|(_, latest)| latest == location) {
                *self.dead_letters_checked.entry(key.namespace()).or_default() += 1;
            }
        }
        let index_ms = entry.claimable().at_ms;
        if index_ms == at_ms {
            return RecordStatus::Live;
        }
        RecordStatus::Disagrees(format!(
            "the index has time {index_ms} for this record, whose own is {at_ms}"
        ))
    }

    /// Returns the entry of a record, if the state has one, and the time that the entry should have.
    fn entry_for(&self, decoded: &Decoded) -> Option<(RecordIndex, Key, Entry, u64)> {
        let number = decoded.namespace;
        let namespace = self.engine.namespaces.get(number)?;
        let hash_key = self.engine.hash_key;
        match Effect::of(hash_key, number, &decoded.record) {
            Effect::Pending(pending) => {
                let entry = namespace.live.get(pending.key)?;
                Some((RecordIndex::Pending, pending.key, entry, pending.claimable.at_ms))
            }
            Effect::Redriven(redriven) => {
                let pending = redriven.pending;
                let entry = namespace.live.get(pending.key)?;
                Some((RecordIndex::Pending, pending.key, entry, pending.claimable.at_ms))
            }
            Effect::Ended { key, ends_ms, .. } => Some((
                RecordIndex::Tombstone,
                key,
                namespace.tombstones.index().get(key)?,
                ends_ms?,
            )),
            Effect::Dead { key, due_ms, firing, .. } => {
                let delivery = firing.delivery_id(namespace.name.as_str());
                let entry = namespace.dead_letters.entry(hash_key, number, delivery)?;
                Some((RecordIndex::DeadLetter, key, entry, due_ms))
            }
            _ => None,
        }
    }

    /// Returns the entries whose records were not met, once all files were read.
    pub(crate) fn strays(&self) -> Vec<StrayEntry> {
        let mut strays = Vec::new();
        let is_short = |slot: u16| {
            let live = self.engine.files.counts(slot).map_or(0, |counts| counts.live);
            self.checked.get(&slot).copied().unwrap_or(0) != live
        };
        let short: Vec<u16> = (0..=u16::MAX).filter(|slot| is_short(*slot)).collect();
        for (number, namespace) in self.engine.namespaces.iter() {
            let kinds = [
                (RecordIndex::Pending, &namespace.live),
                (RecordIndex::Tombstone, namespace.tombstones.index()),
                (RecordIndex::DeadLetter, namespace.dead_letters.by_delivery()),
            ];
            if !short.is_empty() {
                for (of, index) in kinds {
                    for entry in index.entries() {
                        if short.binary_search(&entry.location().slot()).is_ok() {
                            strays.extend(self.describe_stray(number, of, entry));
                        }
                    }
                }
            }
            let checked = self.dead_letters_checked.get(&number).copied().unwrap_or(0);
            if checked != namespace.dead_letters.by_timer().len() as u64 {
                for entry in namespace.dead_letters.by_timer().entries() {
                    strays.extend(self.describe_stray_by_timer(number, entry));
                }
            }
        }
        strays
    }

    /// Describes the fault of an entry whose record is not its own; `None` if it is.
    fn describe_stray(&self, number: u32, of: RecordIndex, entry: Entry) -> Option<StrayEntry> {
        let location = entry.location();
        let wrong = match self.engine.read(location) {
            Err(error) => error.to_string(),
            Ok(decoded) => match self.entry_for(&decoded) {
                Some((kind, _, known, _)) if kind == of && known.location() == location => {
                    return None;
                }
                _ => "another record is there".to_owned(),
            },
        };
        Some(self.stray_at(number, entry, of.name(), &wrong))
    }

    /// Describes the fault of the dead letter that an entry names as the latest of its timer; `None` if
    /// there is none. A dead letter that does not exist is no fault: it was dropped while its timer was
    /// unknown.
    fn describe_stray_by_timer(&self, number: u32, entry: Entry) -> Option<StrayEntry> {
        let (key, letter) = (entry.key(number), entry.named(number));
        let letter = self.engine.namespaces.get(number)?.dead_letters.by_delivery().get(letter)?;
        let wrong = match self.engine.read(letter.location()) {
            Err(error) => error.to_string(),
            Ok(decoded) => match self.entry_for(&decoded) {
                Some((RecordIndex::DeadLetter, of, known, _))
                    if of == key && known.location() == letter.location() =>
                {
                    return None;
                }
                _ => "another record is there".to_owned(),
            },
        };
        Some(self.stray_at(number, letter, "the latest dead letter of a timer", &wrong))
    }

    fn stray_at(&self, number: u32, entry: Entry, what: &str, wrong: &str) -> StrayEntry {
        let location = entry.location();
        let file = self.engine.files.get(location.slot());
        let file = file.map_or_else(|| format!("slot {}", location.slot()), |file| file.id.name());
        let name = self.engine.namespaces.get(number).map_or("", |ns| ns.name.as_str());
        StrayEntry {
            file,
            offset: location.unit() * ALIGN,
            what: format!("{what} in namespace {name:?} should be here, but: {wrong}"),
        }
    }

    /// Returns the number of timers, tombstones and dead letters of each namespace, by name.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        let names = self.engine.namespaces.names_after(None);
        let held = names.filter_map(|(name, number)| {
            let namespace = self.engine.namespaces.get(number)?;
            Some(Holding {
                name: name.to_string(),
                paused: namespace.paused,
                pending: namespace.live.len() as u64,
                tombstones: namespace.tombstones.len(),
                dead: namespace.dead(),
            })
        });
        held.collect()
    }

    /// Describes the invariants that are broken, except those of files, whose records are read one by
    /// one: with the name of the namespace and the place.
    pub(crate) fn broken_invariants(&self) -> Vec<String> {
        let broken = self.engine.broken_invariants();
        let broken = broken.iter().filter_map(|broken| {
            let namespace = self.engine.namespaces.get(broken.namespace()?)?;
            let (text, place) = (broken.text(), self.engine.place_of_broken(broken));
            Some(format!("{text}, in namespace {:?}: {place}", namespace.name.as_str()))
        });
        broken.collect()
    }
}

impl RecordIndex {
    const fn name(self) -> &'static str {
        match self {
            Self::Pending => "a pending timer",
            Self::Tombstone => "the tombstone of an ended timer",
            Self::DeadLetter => "a dead letter",
        }
    }
}
