//! Checks the files of a store one after the other, each from its start to its end.

use crate::{
    checkpoint::{self, CheckpointReader},
    engine::invariants::at_rest::{RecordStatus, StateAtRest},
    files::FileId,
    format::{
        record::{Decoded, Record},
        sorted_run,
    },
    journal::{
        recovery::{self, SegmentContents},
        segment_name,
    },
    numbered::damaged,
    open::Result,
    sorted_runs,
};

use super::{
    Check, Counts,
    report::{CHECKPOINTS, FilesOf},
};

/// The meaning of damage of which the state says nothing else.
const OLD: &str = "records that are still needed are checked separately: see the other findings";
/// The meaning of damage in a checkpoint.
const CHECKPOINT: &str =
    "the store opens while the other checkpoint is intact, and writes a new one";

impl Check<'_> {
    /// Reads every checkpoint to its end.
    pub(super) fn checkpoints(&mut self) -> Result<()> {
        let mut numbers = self.listed(checkpoint::FILES.list(self.disk.as_ref()))?;
        numbers.reverse();
        let names = numbers.iter().map(|number| checkpoint::FILES.name(*number));
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
        Ok(reader.end().entries)
    }

    /// Reads every sorted run and every segment to its end, and compares each record with the state.
    pub(super) fn data_files(&mut self) -> Result<()> {
        let runs = self.listed(sorted_runs::FILES.list(self.disk.as_ref()))?;
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
                self.note(damaged(&segment_name(*last), before.end, &what), OLD)?;
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
                let mut counter = RecordCounter::new(file, self.state.as_mut());
                let wrong =
                    sorted_runs::walk(&run, &mut |at, decoded| counter.record(at, &decoded));
                let counter = counter.end();
                self.add_counts(file, counter)?;
                match wrong {
                    Ok(wrong) => {
                        for (offset, what) in wrong {
                            self.note(damaged(&file.name(), offset, &what), OLD)?;
                        }
                    }
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
        let mut counter = RecordCounter::new(file, self.state.as_mut());
        let (disk, manifest) = (self.disk.as_ref(), &self.manifest);
        let mut each = |at, decoded: Decoded| counter.record(at, &decoded);
        let read = recovery::read_segment(disk, manifest, sequence, &mut each);
        let counter = counter.end();
        self.add_counts(file, counter)?;
        let mut contents = match read {
            Ok(Some(contents)) => contents,
            // Such a file was made for a roll that a crash cut off. The next start removes it.
            Ok(None) => {
                self.report_progress("runs and segments", bytes);
                return Ok(None);
            }
            Err(error) => {
                self.note(error, OLD)?;
                self.report.count("segments", &FilesOf { bytes, live, ..FilesOf::default() });
                self.report_progress("runs and segments", bytes);
                return Ok(None);
            }
        };
        for error in std::mem::take(&mut contents.damage) {
            self.note(error, OLD)?;
        }
        self.report.frames += contents.frames;
        let records = contents.records;
        self.report.count("segments", &FilesOf { bytes, records, live, ..FilesOf::default() });
        self.report_progress("runs and segments", bytes);
        Ok(Some(contents))
    }

    /// Adds the counts of a file to the report, and notes its disagreements.
    fn add_counts(
        &mut self,
        file: FileId,
        (counts, wrong): (Counts, Vec<sorted_runs::RecordFault>),
    ) -> Result<()> {
        self.report.records.add(&counts);
        for (offset, what) in wrong {
            let means = "a timer may fire at the wrong time: restore a backup";
            self.note(damaged(&file.name(), offset, &what), means)?;
        }
        Ok(())
    }

    fn live(&self, file: FileId) -> u64 {
        self.state.as_ref().map_or(0, |state| state.live(file))
    }

    /// Returns the numbers in a directory. A name that Duly does not give becomes a finding.
    pub(super) fn listed(&mut self, listed: Result<Vec<u64>>) -> Result<Vec<u64>> {
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
}

/// Counts the records of one file, and compares them with the state.
struct RecordCounter<'a> {
    file: FileId,
    state: Option<&'a mut StateAtRest>,
    counts: Counts,
    wrong: Vec<sorted_runs::RecordFault>,
}

impl<'a> RecordCounter<'a> {
    fn new(file: FileId, state: Option<&'a mut StateAtRest>) -> Self {
        Self { file, state, counts: Counts::default(), wrong: Vec::new() }
    }

    /// Returns the counts, and the records that disagree with the state.
    fn end(self) -> (Counts, Vec<sorted_runs::RecordFault>) {
        (self.counts, self.wrong)
    }

    fn record(&mut self, offset: u64, decoded: &Decoded) {
        *self.counts.of(&decoded.record) += 1;
        let standing =
            self.state.as_mut().map(|state| state.check_record(self.file, offset, decoded));
        if let Some(RecordStatus::Disagrees(what)) = standing {
            self.wrong.push((offset, what));
        }
    }
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

    const fn add(&mut self, other: &Self) {
        self.pending += other.pending;
        self.dead += other.dead;
        self.ended += other.ended;
        self.leases += other.leases;
        self.other += other.other;
    }
}
