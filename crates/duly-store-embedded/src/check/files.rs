//! Checks the files of a store one after the other, each from its start to its end. Then finds names that
//! the state does not need: left-overs of a crash, and files that are not Duly's.

use std::sync::Arc;

use crate::{
    access_file, audit_file,
    checkpoint::CheckpointReader,
    disk::LOCK_NAME,
    files::FileId,
    format::{
        record::{Decoded, Record},
        sorted_run,
    },
    journal::{
        self,
        recovery::{self, SegmentContents},
    },
    manifest,
    numbered::{self, DIRS, Numbered, SEGMENTS, SORTED_RUNS, damaged},
    open::Result,
    sorted_runs::{self, RecordFault},
};

use super::{
    Check, Counts, LeftOver,
    report::{CHECKPOINTS, FilesOf, MISSING},
};

/// The meaning of damage of which the state says nothing else.
const OLD: &str = "records that are still needed are checked separately: see the other findings";
/// The meaning of an index entry that disagrees with its record.
const DISAGREES: &str = "a timer may fire at the wrong time: restore a backup";
/// The meaning of damage in a checkpoint.
const CHECKPOINT: &str =
    "the store opens while the other checkpoint is intact, and writes a new one";

/// Describes a file that a crash cut off.
const HALF: &str = "incomplete file, from a crash; the next start removes it";
const UNKNOWN: &str = "not a file of Duly; ignored";
const UNNAMED: &str = "no longer needed; the next start removes it";
/// Files that are kept twice: a file and its copy.
const PAIRS: [[&str; 2]; 3] = [
    [manifest::NAME, manifest::COPY],
    [access_file::NAME, access_file::COPY],
    [audit_file::NAME, audit_file::COPY],
];

impl Check<'_> {
    /// Reads every checkpoint to its end.
    pub(super) fn checkpoints(&mut self) -> Result<()> {
        let mut numbers = self.listed(numbered::CHECKPOINTS.list(self.disk.as_ref()))?;
        numbers.reverse();
        let names = numbers.iter().map(|number| numbered::CHECKPOINTS.name(*number));
        let lengths: Vec<u64> = names.map(|name| self.length(&name)).collect();
        (self.done, self.total) = (0, lengths.iter().sum());
        for (number, bytes) in numbers.into_iter().zip(lengths) {
            let records = match self.checkpoint(number) {
                Ok(entries) => entries,
                Err(error) => {
                    self.note(error, CHECKPOINT)?;
                    0
                }
            };
            self.report.count(CHECKPOINTS, &FilesOf { bytes, records, ..FilesOf::default() });
            self.report_progress("checkpoints", bytes);
        }
        Ok(())
    }

    fn checkpoint(&self, number: u64) -> Result<u64> {
        let mut reader = CheckpointReader::open(self.disk.as_ref(), number, &self.manifest)?;
        while reader.next_checked()?.is_some() {}
        Ok(reader.end.entries)
    }

    /// Reads every sorted run and every segment to its end, and compares each record with the state.
    pub(super) fn data_files(&mut self) -> Result<()> {
        let runs = self.listed(SORTED_RUNS.list(self.disk.as_ref()))?;
        let segments = self.listed(recovery::all_sequences(self.disk.as_ref()))?;
        let ids = runs.iter().map(|id| FileId::SortedRun(*id));
        let ids = ids.chain(segments.iter().map(|sequence| FileId::Segment(*sequence)));
        (self.done, self.total) = (0, ids.map(|id| self.length(&id.name())).sum());
        for id in runs {
            self.run(id)?;
        }
        let mut before: Option<(u64, SegmentContents)> = None;
        for sequence in segments {
            let next = self.segment(sequence)?;
            if let (Some((last, before)), Some(next)) = (&before, &next)
                && last + 1 == sequence
                && before.next_lsn != next.base_lsn
            {
                let what = format!(
                    "frame {} should be here: the next segment begins with frame {}",
                    before.next_lsn, next.base_lsn
                );
                self.note(damaged(&SEGMENTS.name(*last), before.end, &what), OLD)?;
            }
            before = next.map(|contents| (sequence, contents));
        }
        Ok(())
    }

    fn run(&mut self, id: u64) -> Result<()> {
        let file = FileId::SortedRun(id);
        let bytes = self.length(&file.name());
        let live = self.live(file);
        let mut kind = "runs";
        let mut records = 0;
        match sorted_runs::open(self.disk.as_ref(), id, &self.manifest) {
            Ok(run) => {
                kind = match run.kind {
                    sorted_run::RunKind::Pending => "runs of pending timers",
                    sorted_run::RunKind::Tombstones => "runs of tombstones",
                    sorted_run::RunKind::DeadLetters => "runs of dead letters",
                };
                records = run.records;
                let mut disagreeing = Vec::new();
                let wrong =
                    sorted_runs::walk(&run, &mut self.record_counter(file, &mut disagreeing));
                self.note_faults(file, disagreeing, DISAGREES)?;
                match wrong {
                    Ok(wrong) => self.note_faults(file, wrong, OLD)?,
                    Err(error) => self.note(error.into(), OLD)?,
                }
            }
            Err(error) => self.note(error, OLD)?,
        }
        self.report.count(kind, &FilesOf { bytes, records, live, ..FilesOf::default() });
        self.report_progress("runs and segments", bytes);
        Ok(())
    }

    fn segment(&mut self, sequence: u64) -> Result<Option<SegmentContents>> {
        let file = FileId::Segment(sequence);
        let (bytes, live) = (self.length(&file.name()), self.live(file));
        let mut disagreeing = Vec::new();
        let (disk, manifest) = (Arc::clone(&self.disk), self.manifest);
        let read = recovery::read_segment(
            disk.as_ref(),
            &manifest,
            sequence,
            &mut self.record_counter(file, &mut disagreeing),
        );
        self.note_faults(file, disagreeing, DISAGREES)?;
        let (mut contents, mut records) = (None, 0);
        match read {
            // Such a file was made for a roll that a crash cut off. The next start removes it.
            Ok(None) => {
                self.report_progress("runs and segments", bytes);
                return Ok(None);
            }
            Ok(Some(mut found)) => {
                for error in std::mem::take(&mut found.damage) {
                    self.note(error, OLD)?;
                }
                self.report.frames += found.frames;
                records = found.records;
                contents = Some(found);
            }
            Err(error) => self.note(error, OLD)?,
        }
        self.report.count("segments", &FilesOf { bytes, records, live, ..FilesOf::default() });
        self.report_progress("runs and segments", bytes);
        Ok(contents)
    }

    /// Returns a function that counts the records of one file, and collects those that disagree with the
    /// state.
    fn record_counter(
        &mut self,
        file: FileId,
        disagreeing: &mut Vec<RecordFault>,
    ) -> impl FnMut(u64, Decoded) {
        let (counts, mut state) = (&mut self.report.records, self.state.as_mut());
        move |offset, decoded| {
            *counts.of(&decoded.record) += 1;
            let state = state.as_mut();
            let what = state.and_then(|state| state.check_record(file, offset, &decoded));
            disagreeing.extend(what.map(|what| (offset, what)));
        }
    }

    fn note_faults(
        &mut self,
        file: FileId,
        faults: Vec<RecordFault>,
        means: &'static str,
    ) -> Result<()> {
        faults
            .iter()
            .try_for_each(|(offset, what)| self.note(damaged(&file.name(), *offset, what), means))
    }

    fn live(&self, file: FileId) -> u64 {
        self.state.as_ref().map_or(0, |state| state.live(file))
    }

    /// Returns the numbers in a directory. A name that Duly does not give becomes a finding.
    fn listed(&mut self, listed: Result<Vec<u64>>) -> Result<Vec<u64>> {
        match listed {
            Ok(numbers) => Ok(numbers),
            Err(error) => {
                self.note(error, "the store does not open until the file is removed")?;
                Ok(Vec::new())
            }
        }
    }

    fn length(&self, name: &str) -> u64 {
        self.disk.open(name).and_then(|file| file.len()).unwrap_or(0)
    }

    /// Notes every name that is not needed, and each copy that is missing. Releases before 0.2 keep no copies, so a missing
    /// copy is no damage.
    pub(super) fn names(&mut self) -> Result<()> {
        let present = self.disk.list("")?;
        let is_there = |name: &str| present.iter().any(|it| it == name);
        let missing = PAIRS.iter().filter(|[file, copy]| is_there(file) && !is_there(copy));
        let missing = missing.map(|[_, copy]| LeftOver { name: (*copy).to_owned(), what: MISSING });
        self.report.left_overs.extend(missing);
        for dir in [""].into_iter().chain(DIRS) {
            for name in self.disk.list(dir)? {
                let name = if dir.is_empty() { name } else { format!("{dir}/{name}") };
                if let Some(what) = left_over(dir, &name) {
                    self.report.left_overs.push(LeftOver { name, what });
                }
            }
        }
        self.unnamed()
    }

    /// Notes complete files that the state does not know.
    fn unnamed(&mut self) -> Result<()> {
        let disk = self.disk.as_ref();
        let runs = SORTED_RUNS.list(disk).unwrap_or_default();
        let segments = recovery::all_sequences(disk).unwrap_or_default();
        let checkpoints = numbered::CHECKPOINTS.list(disk).unwrap_or_default();
        let Some(state) = &self.state else {
            return Ok(());
        };
        let files = runs.into_iter().map(FileId::SortedRun);
        let files = files.chain(segments.into_iter().map(FileId::Segment));
        let files = files.filter(|id| !state.has_file(*id)).map(FileId::name);
        let checkpoints = checkpoints.into_iter().filter(|number| !state.keeps_checkpoint(*number));
        let checkpoints = checkpoints.map(|number| numbered::CHECKPOINTS.name(number));
        let unused = state.found.unused.map(|sequence| SEGMENTS.name(sequence));
        let mut names: Vec<String> = files.chain(checkpoints).chain(unused).collect();
        names.sort_unstable();
        names.dedup();
        let left_overs = names.into_iter().map(|name| LeftOver { name, what: UNNAMED });
        self.report.left_overs.extend(left_overs);
        Ok(())
    }
}

fn left_over(dir: &str, name: &str) -> Option<&'static str> {
    let known = [
        LOCK_NAME,
        manifest::NAME,
        manifest::COPY,
        manifest::RESTORED,
        access_file::NAME,
        access_file::COPY,
        access_file::TEMPORARY,
        audit_file::NAME,
        audit_file::COPY,
        audit_file::TEMPORARY,
        journal::SPARE,
    ];
    let has_suffix = |files: &Numbered| dir == files.dir && name.ends_with(files.suffix);
    let is_numbered = [SEGMENTS, SORTED_RUNS, numbered::CHECKPOINTS].iter().any(has_suffix)
        || (dir == SEGMENTS.dir && name.ends_with(journal::RECYCLED_SUFFIX));
    if known.contains(&name) || DIRS.contains(&name) || is_numbered {
        return None;
    }
    Some(if name.ends_with(".tmp") { HALF } else { UNKNOWN })
}

impl Counts {
    const fn of(&mut self, record: &Record) -> &mut u64 {
        match record {
            Record::Pending(..) => &mut self.pending,
            Record::Dead(..) => &mut self.dead,
            Record::Ended { .. } => &mut self.ended,
            Record::Lease { .. } => &mut self.leases,
            _ => &mut self.other,
        }
    }
}
