//! Checks the files of a store one after the other, each from its start to its end.

use crate::{
    checkpoint::{self, Reader},
    engine::inspect::{Inspection, Standing},
    files::FileId,
    format::{
        record::{Decoded, Record},
        run,
    },
    journal::{
        recovery::{self, Alone},
        segment_name,
    },
    numbered::damaged,
    open::Result,
    runs,
};

use super::{
    Check, Counts,
    report::{CHECKPOINTS, FilesOf},
};

/// The meaning of damage of which the state says nothing else.
const OLD: &str = "what was acknowledged and still counts is looked at by itself: see what else is \
                   said here";
/// The meaning of damage in a checkpoint.
const CHECKPOINT: &str = "while the other checkpoint is whole the store opens, and makes a new one";

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
            self.tell("checkpoints", bytes);
        }
        Ok(())
    }

    fn checkpoint(&self, number: u64) -> Result<u64> {
        let mut reader = Reader::open(self.disk.as_ref(), number, &self.manifest)?;
        while reader.next_checked()?.is_some() {}
        Ok(reader.end().entries)
    }

    /// Reads every sorted run and every segment to its end, and compares each record with the state.
    pub(super) fn data_files(&mut self) -> Result<()> {
        let runs = self.listed(runs::FILES.list(self.disk.as_ref()))?;
        let segments = self.listed(recovery::all_sequences(self.disk.as_ref()))?;
        let ids = runs.iter().map(|id| FileId::Run(*id));
        let ids = ids.chain(segments.iter().map(|sequence| FileId::Segment(*sequence)));
        (self.done, self.total) = (0, ids.map(|id| self.length(&id.name())).sum());
        for id in runs {
            self.run(id)?;
        }
        let mut before: Option<(u64, Alone)> = None;
        for sequence in segments {
            let next = self.segment(sequence)?;
            if let (Some((last, before)), Some(next)) = (&before, &next)
                && last + 1 == sequence
                && before.next_lsn != next.base_lsn
            {
                let what = format!(
                    "frame {} should stand here: the next segment begins with frame {}",
                    before.next_lsn, next.base_lsn
                );
                self.note(damaged(&segment_name(*last), before.end, &what), OLD)?;
            }
            before = next.map(|alone| (sequence, alone));
        }
        Ok(())
    }

    fn run(&mut self, id: u64) -> Result<()> {
        let file = FileId::Run(id);
        let bytes = self.length(&file.name());
        let live = self.live(file);
        let mut kind = "runs";
        let mut records = 0;
        match runs::open(self.disk.as_ref(), id, &self.manifest) {
            Ok(run) => {
                kind = match run.kind {
                    run::Kind::Pending => "runs of pending timers",
                    run::Kind::Tombstones => "runs of tombstones",
                    run::Kind::DeadLetters => "runs of dead letters",
                };
                records = run.records;
                let mut met = Met::new(file, self.state.as_mut());
                let wrong = runs::walk(&run, &mut |at, decoded| met.record(at, &decoded));
                let met = met.end();
                self.took(file, met)?;
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
        self.tell("runs and segments", bytes);
        Ok(())
    }

    fn segment(&mut self, sequence: u64) -> Result<Option<Alone>> {
        let file = FileId::Segment(sequence);
        let (bytes, live) = (self.length(&file.name()), self.live(file));
        let mut met = Met::new(file, self.state.as_mut());
        let (disk, manifest) = (self.disk.as_ref(), &self.manifest);
        let mut each = |at, decoded: Decoded| met.record(at, &decoded);
        let read = recovery::read_alone(disk, manifest, sequence, &mut each);
        let met = met.end();
        self.took(file, met)?;
        let mut alone = match read {
            Ok(Some(alone)) => alone,
            // Such a file was made for a roll that a crash cut off. The next start removes it.
            Ok(None) => {
                self.tell("runs and segments", bytes);
                return Ok(None);
            }
            Err(error) => {
                self.note(error, OLD)?;
                self.report.count("segments", &FilesOf { bytes, live, ..FilesOf::default() });
                self.tell("runs and segments", bytes);
                return Ok(None);
            }
        };
        for error in std::mem::take(&mut alone.damage) {
            self.note(error, OLD)?;
        }
        self.report.frames += alone.frames;
        let records = alone.records;
        self.report.count("segments", &FilesOf { bytes, records, live, ..FilesOf::default() });
        self.tell("runs and segments", bytes);
        Ok(Some(alone))
    }

    /// Adds the counts of a file to the report, and notes its disagreements.
    fn took(&mut self, file: FileId, (counts, wrong): (Counts, Vec<runs::Wrong>)) -> Result<()> {
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
                self.note(error, "the store does not open until it is taken away")?;
                Ok(Vec::new())
            }
        }
    }

    fn length(&self, name: &str) -> u64 {
        self.disk.open(name).and_then(|file| file.len()).unwrap_or(0)
    }
}

/// Counts the records of one file, and compares them with the state.
struct Met<'a> {
    file: FileId,
    state: Option<&'a mut Inspection>,
    counts: Counts,
    wrong: Vec<runs::Wrong>,
}

impl<'a> Met<'a> {
    fn new(file: FileId, state: Option<&'a mut Inspection>) -> Self {
        Self { file, state, counts: Counts::default(), wrong: Vec::new() }
    }

    /// Returns the counts, and the records that disagree with the state.
    fn end(self) -> (Counts, Vec<runs::Wrong>) {
        (self.counts, self.wrong)
    }

    fn record(&mut self, offset: u64, decoded: &Decoded) {
        *self.counts.of(&decoded.record) += 1;
        let standing = self.state.as_mut().map(|state| state.meet(self.file, offset, decoded));
        if let Some(Standing::Disagrees(what)) = standing {
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
