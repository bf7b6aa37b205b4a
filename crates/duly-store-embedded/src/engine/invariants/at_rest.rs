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
use serde::Serialize;

use crate::{
    disk::Disk,
    effect::Effect,
    files::FileId,
    format::{ALIGN, record::Decoded, sorted_run::RunKind},
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

/// The contents of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// Name of the namespace.
    pub name: String,
    /// `true`: the namespace is paused.
    pub paused: bool,
    /// Pending timers.
    pub pending: u64,
    /// Tombstones of ended timers.
    #[serde(rename = "retained")]
    pub tombstones: u64,
    /// Dead letters.
    pub dead: u64,
}

/// An entry whose record is not at its place.
#[derive(Debug)]
pub(crate) struct Stray {
    /// File that the entry points into, relative to the data directory.
    pub(crate) file: String,
    /// Byte in the file.
    pub(crate) offset: u64,
    /// The fault.
    pub(crate) what: String,
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

    /// Compares the record at `offset` of a file with the state, and counts it if an entry points at it.
    /// Returns the disagreement of that entry.
    pub(crate) fn check_record(
        &mut self,
        id: FileId,
        offset: u64,
        decoded: &Decoded,
    ) -> Option<String> {
        let slot = self.engine.files.slot_of(id)?;
        let (of, key, entry, at_ms) = self.entry_for(decoded)?;
        let location = entry.location();
        if (location.slot(), location.unit() * ALIGN) != (slot, offset) {
            return None;
        }
        *self.checked.entry(slot).or_default() += 1;
        if of == RunKind::DeadLetters {
            let latest = self.engine.namespaces.get(key.namespace());
            let latest = latest.and_then(|namespace| namespace.dead_letters.latest(key));
            if latest.is_some_and(|(_, latest)| latest == location) {
                *self.dead_letters_checked.entry(key.namespace()).or_default() += 1;
            }
        }
        let index_ms = entry.claimable().at_ms;
        (index_ms != at_ms)
            .then(|| format!("the index has time {index_ms} for this record, whose own is {at_ms}"))
    }

    /// Returns the entry of a record, if the state has one, and the time that the entry should have.
    fn entry_for(&self, decoded: &Decoded) -> Option<(RunKind, Key, Entry, u64)> {
        let effect = Effect::of(self.engine.hash_key, decoded.namespace, &decoded.record);
        let (kind, key, entry) = self.engine.entry_of(decoded.namespace, &effect)?;
        let at_ms = match effect {
            Effect::Pending(pending) => pending.claimable.at_ms,
            Effect::Redriven(redriven) => redriven.pending.claimable.at_ms,
            // A build that stored the end of the retention alone may have written the entry, under
            // another retention.
            Effect::Ended { ends_ms, .. } => entry.claimable().at_ms.min(ends_ms?),
            Effect::Dead { due_ms, .. } => due_ms,
            _ => return None,
        };
        Some((kind, key, entry, at_ms))
    }

    /// Returns the entries whose records were not met, once all files were read.
    pub(crate) fn strays(&self) -> Vec<Stray> {
        let mut strays = Vec::new();
        let is_short = |slot: u16| {
            let live = self.engine.files.counts(slot).map_or(0, |counts| counts.live);
            self.checked.get(&slot).copied().unwrap_or(0) != live
        };
        let short: Vec<u16> = (0..=u16::MAX).filter(|slot| is_short(*slot)).collect();
        for (number, namespace) in self.engine.namespaces.iter() {
            let kinds = [
                (RunKind::Pending, &namespace.live),
                (RunKind::Tombstones, &namespace.tombstones.index),
                (RunKind::DeadLetters, &namespace.dead_letters.by_delivery),
            ];
            if !short.is_empty() {
                for (of, index) in kinds {
                    for entry in index.entries() {
                        if short.binary_search(&entry.location().slot()).is_ok() {
                            let is_own = |kind, _| kind == of;
                            strays.extend(self.stray_at(number, entry, name_of(of), is_own));
                        }
                    }
                }
            }
            let checked = self.dead_letters_checked.get(&number).copied().unwrap_or(0);
            if checked != namespace.dead_letters.by_timer.len() as u64 {
                for entry in namespace.dead_letters.by_timer.entries() {
                    strays.extend(self.describe_stray_by_timer(number, entry));
                }
            }
        }
        strays
    }

    /// Describes the fault of the dead letter that an entry names as the latest of its timer; `None` if
    /// there is none. A dead letter that does not exist is no fault: it was dropped while its timer was
    /// unknown.
    fn describe_stray_by_timer(&self, number: u32, entry: Entry) -> Option<Stray> {
        let (key, letter) = (entry.key(number), entry.named(number));
        let letter = self.engine.namespaces.get(number)?.dead_letters.by_delivery.get(letter)?;
        let is_own = |kind, of| kind == RunKind::DeadLetters && of == key;
        self.stray_at(number, letter, "the latest dead letter of a timer", is_own)
    }

    /// Describes the fault of an entry whose record is not its own; `None` if it is.
    fn stray_at(
        &self,
        number: u32,
        entry: Entry,
        what: &str,
        is_own: impl Fn(RunKind, Key) -> bool,
    ) -> Option<Stray> {
        let location = entry.location();
        let wrong = match self.engine.read(location) {
            Err(error) => error.to_string(),
            Ok(decoded) => match self.entry_for(&decoded) {
                Some((kind, key, known, _))
                    if is_own(kind, key) && known.location() == location =>
                {
                    return None;
                }
                _ => "another record is there".to_owned(),
            },
        };
        let file = self.engine.files.get(location.slot());
        let file = file.map_or_else(|| format!("slot {}", location.slot()), |file| file.id.name());
        let name = self.engine.namespaces.get(number).map_or("", |ns| ns.record.name.as_str());
        Some(Stray {
            file,
            offset: location.unit() * ALIGN,
            what: format!("{what} in namespace {name:?} should be here, but: {wrong}"),
        })
    }

    /// Returns the number of timers, tombstones and dead letters of each namespace, by name.
    pub(crate) fn holdings(&self) -> Vec<Holding> {
        let names = self.engine.namespaces.names_after(None);
        let held = names.filter_map(|(name, number)| {
            let namespace = self.engine.namespaces.get(number)?;
            Some(Holding {
                name: name.to_string(),
                paused: namespace.record.paused,
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
            Some(format!("{text}, in namespace {:?}: {place}", namespace.record.name.as_str()))
        });
        broken.collect()
    }
}

/// Returns the text of a record that keeps an entry of this kind.
const fn name_of(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Pending => "a pending timer",
        RunKind::Tombstones => "the tombstone of an ended timer",
        RunKind::DeadLetters => "a dead letter",
    }
}
