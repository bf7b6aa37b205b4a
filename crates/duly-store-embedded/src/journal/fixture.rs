//! A small journal on a simulated disk, for the tests of everything that reads one.

use std::sync::Arc;

use duly_core::totals::Totals;
use duly_core::{
    Incarnation, NamespaceName, Payload, Schedule, Settings, Timer, TimerId, Timestamp,
    payload::Form, schedule::When,
};

use crate::{
    disk::{Disk, SimDisk},
    effect::Effect,
    files::{DataFile, FileId, Files, ReadError},
    format::{
        ALIGN,
        record::{self, Cause, Decoded, NamespaceRecord, Record},
    },
    index::Location,
    manifest::Manifest,
    numbered::SEGMENTS,
    open::Result,
    options::SEGMENT_BYTES_MIN,
};

use super::{Journal, SyncMark, recovery};

/// Number of the namespace that the records belong to.
pub(crate) const NAMESPACE: u32 = 1;
/// Name of the first segment.
pub(crate) const FIRST: &str = "journal/0000000000000001.log";

/// A journal with its disk, manifest and files.
pub(crate) struct Fixture {
    pub(crate) disk: SimDisk,
    pub(crate) manifest: Manifest,
    pub(crate) journal: Journal,
    pub(crate) files: Files,
}

/// The records that were read back, and the result of recovery.
#[derive(Debug)]
pub(crate) struct Reread {
    pub(crate) records: Vec<(Location, Decoded)>,
    pub(crate) found: recovery::RecoveredJournal,
}

impl Reread {
    /// Returns the ids of the timers, in order.
    pub(crate) fn ids(&self) -> Vec<&str> {
        self.records.iter().filter_map(|(_, decoded)| id_of(&decoded.record)).collect()
    }
}

pub(crate) fn manifest() -> Manifest {
    Manifest {
        version: 1,
        reader_min: 1,
        features: 0,
        store: 0x000D_0117_570E,
        hash_key: 0x0BAD_5EED,
        epoch: 1,
        created_at_ms: 1_900_000_000_000,
    }
}

/// A pending timer with a payload of zeros.
pub(crate) fn pending(id: &str, payload_bytes: usize) -> Record {
    pending_with(id, vec![0; payload_bytes])
}

pub(crate) fn pending_with(id: &str, payload: Vec<u8>) -> Record {
    let id = TimerId::new(id).expect("an id");
    let due_at = Timestamp::saturating_from_unix_ms(1_900_000_060_000);
    let mut schedule = Schedule::new(id, When::At(due_at));
    if !payload.is_empty() {
        schedule.spec.payload = Some(Payload { form: Form::Binary, bytes: payload.into() });
    }
    let now = Timestamp::saturating_from_unix_ms(1_900_000_000_000);
    let timer = Timer::new(schedule, now, Incarnation(7)).expect("before 2200");
    Record::Pending(Cause::Created, Box::new(timer))
}

pub(crate) fn namespace(name: &str) -> Record {
    Record::Namespace(Box::new(NamespaceRecord {
        name: NamespaceName::new(name).expect("a name"),
        settings: Arc::new(Settings::default()),
        paused: false,
        resumes_at: None,
        implicit: false,
        created_at: Timestamp::saturating_from_unix_ms(1_900_000_000_000),
        updated_at: Timestamp::saturating_from_unix_ms(1_900_000_000_000),
        totals: Totals::default(),
    }))
}

pub(crate) fn id_of(record: &Record) -> Option<&str> {
    match record {
        Record::Pending(_, timer) => Some(timer.id.as_str()),
        _ => None,
    }
}

/// Reads a disk as a start and a check do, record by record and skimmed, and compares the results.
pub(crate) fn reread(disk: &SimDisk, manifest: &Manifest) -> Result<Reread> {
    let mut records = Vec::new();
    let mut each = |location, decoded| {
        records.push((location, decoded));
        Ok(())
    };
    let read = recovery::tests::recover_records(disk, manifest, None, &mut each, &mut |_| {});
    let mut replayed: Vec<recovery::Replayed> = Vec::new();
    let mut each_batch = |batch| {
        replayed.extend(batch);
        Ok(())
    };
    let skimmed = recovery::recover(disk, manifest, None, &mut each_batch, &mut |_| {});
    // Records that were passed on before a refusal count too.
    assert_eq!(replayed.len(), records.len());
    for (replayed, (location, Decoded { namespace, record })) in replayed.iter().zip(&records) {
        assert_eq!((replayed.location, replayed.namespace), (*location, *namespace));
        assert_eq!(replayed.effect, Effect::of(manifest.hash_key, *namespace, record));
    }
    let answer = |read: &Result<_>| match read {
        Ok(found) => text_of(found),
        Err(error) => error.to_string(),
    };
    assert_eq!(answer(&read), answer(&skimmed), "one walk, one answer");
    Ok(Reread { records, found: read? })
}

/// Returns the result of recovery as text.
fn text_of(found: &recovery::RecoveredJournal) -> String {
    let segments: Vec<_> = found
        .segments
        .iter()
        .map(|found| (found.sequence, found.slot, found.length, found.end, found.unsure_from))
        .collect();
    let recovery::RecoveredJournal {
        segments: _,
        next_lsn,
        steady_ms,
        unused,
        tail,
        frames,
        bytes,
        records,
    } = found;
    format!("{segments:?} {next_lsn} {steady_ms:?} {unused:?} {tail:?} {frames} {bytes} {records}")
}

impl Fixture {
    /// Makes an empty journal in its first epoch.
    pub(crate) fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed);
        disk.make_dir(SEGMENTS.dir).expect("made");
        disk.sync_dir("").expect("synced");
        let manifest = manifest();
        let mut journal = Self::journal_on(&disk, &manifest);
        journal.adopt(1, recovery::RecoveredJournal::nothing(), 0);
        let mut files = Files::default();
        journal.roll(&mut files).expect("the first segment");
        Self { disk, manifest, journal, files }
    }

    /// Begins the next segment.
    pub(crate) fn roll(&mut self) -> Result<(), crate::disk::Error> {
        self.journal.roll(&mut self.files).map_err(|error| match error {
            super::RollError::Again(error)
            | super::RollError::Unsynced(error)
            | super::RollError::Terminal(error) => error,
        })
    }

    pub(crate) fn is_durable(&self, location: Location) -> bool {
        let FileId::Segment(sequence) = self.files.get(location.slot()).expect("a file").id else {
            unreachable!("a journal has segments only")
        };
        self.journal.is_durable(sequence, location.unit() * ALIGN)
    }

    /// Reads a record back.
    pub(crate) fn read(&self, location: Location) -> Result<Decoded, ReadError> {
        match self.journal.under_construction(location) {
            Some(bytes) => Ok(record::decode(bytes).expect("what is appended can be read")),
            None => self.files.read(location),
        }
    }

    fn journal_on(disk: &SimDisk, manifest: &Manifest) -> Journal {
        Journal::new(Arc::new(disk.clone()), manifest, SEGMENT_BYTES_MIN)
    }

    /// Opens what is on `disk` in the next epoch, as the engine does.
    pub(crate) fn reopen(self, disk: SimDisk) -> (Self, Vec<(Location, Decoded)>) {
        let Reread { records, found } = reread(&disk, &self.manifest).expect("it opens");
        let mut manifest = self.manifest;
        manifest.begin_epoch();
        let mut journal = Self::journal_on(&disk, &manifest);
        if let Some(unused) = &found.unused {
            disk.remove(&SEGMENTS.name(*unused)).expect("removed");
        }
        let mut files = Files::default();
        let mut slot = 0;
        for segment in &found.segments {
            let file = Arc::clone(&segment.file);
            let file = DataFile::segment(segment.sequence, file, segment.length);
            slot = files.add(file).expect("a slot");
            assert_eq!(slot, segment.slot, "slots come in order");
        }
        journal.adopt(u32::try_from(manifest.epoch).expect("small"), found, slot);
        (Self { disk, manifest, journal, files }, records)
    }

    pub(crate) fn append(&mut self, record: &Record) -> Location {
        self.journal.append(NAMESPACE, record).expect("there is room")
    }

    /// Writes the frame under construction without syncing it.
    pub(crate) fn commit(&mut self) -> SyncMark {
        self.journal.commit(0).expect("written").expect("something was appended")
    }

    /// Writes the frame under construction and makes it durable.
    pub(crate) fn sync(&mut self) {
        let mark = self.commit();
        mark.file.sync_data().expect("synced");
        self.journal.synced(mark.lsn, mark.position);
    }

    /// Writes a closing frame and makes it durable.
    pub(crate) fn close(&mut self) {
        let mark = self.journal.write_closing_frame(0).expect("written").expect("it is wanted");
        mark.file.sync_data().expect("synced");
        self.journal.synced(mark.lsn, mark.position);
    }

    /// Writes one timer in a durable frame of its own. Returns the start and the end of the frame.
    pub(crate) fn frame(&mut self, id: &str, payload_bytes: usize) -> (u64, u64) {
        let from = self.journal.end;
        self.append(&pending(id, payload_bytes));
        self.sync();
        (from, self.journal.end)
    }

    pub(crate) fn read_id(&self, location: Location) -> String {
        let decoded = self.read(location).expect("it reads back");
        id_of(&decoded.record).expect("a timer").to_owned()
    }
}
