//! Startup: opens the manifest, loads the state, prepares the journal, and ends the leases of nodes that
//! are gone.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    thread,
    time::Duration,
};

use duly_core::env::Clock;
use duly_wheel::Calendar;
use rand::RngCore;
use rustc_hash::FxHashMap;

use crate::{
    access_file,
    clock::{Times, ms},
    disk::Disk,
    files::{FileId, Files},
    format::{
        self,
        record::{NamespaceRecord, Record},
    },
    journal::{Journal, RollError, recovery},
    manifest::{self, Manifest},
    numbered::{CHECKPOINTS, DIRS, SEGMENTS, SORTED_RUNS, damaged},
    open::{OpenError, OpenProgress, OpenReport},
    options::Options,
};

use super::{Engine, NotWritten, background_work::Pace, space::Space, terminal::Terminal};

/// Pauses before another try to write the manifest.
const MANIFEST_PAUSES: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(100), Duration::from_millis(400)];

impl Engine {
    /// Opens the store on `disk`, which the caller has locked. Nothing is written until everything was
    /// read without a fault.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<(Self, OpenReport), OpenError> {
        let mut random = Self::random_from(options.random_seed);
        let kept = Manifest::read_both(disk.as_ref())?;
        let is_new = kept.is_none();
        if let Some((file, reason)) = kept.as_ref().and_then(|kept| kept.fault.as_ref()) {
            tracing::warn!(
                file,
                reason,
                "one of the two manifest files is damaged; using the other one, and this start \
                 rewrites both: check the disk"
            );
        }
        let wall_ms = ms(clock.wall());
        let mut manifest = kept.map(|kept| kept.manifest).unwrap_or_else(|| Manifest {
            version: format::VERSION,
            reader_min: format::READER_MIN,
            features: format::FEATURES,
            store: random_u128(&mut random),
            hash_key: random_u128(&mut random),
            epoch: 0,
            created_at_ms: wall_ms,
        });
        let mut engine = Self::empty(disk, options, clock, random, &manifest);
        let report = engine.recover(&mut manifest, is_new, progress)?;
        Ok((engine, report))
    }

    /// Creates an engine that has read nothing.
    pub(super) fn empty(
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        random: rand::rngs::StdRng,
        manifest: &Manifest,
    ) -> Self {
        let anchor = (ms(clock.wall()), ms(clock.boot()));
        let journal = Journal::new(Arc::clone(&disk), manifest, options.segment_bytes);
        Self {
            now: Times::read(clock.as_ref(), anchor),
            files: Files::new(options.chunk_bytes),
            options,
            disk,
            clock,
            random,
            manifest: *manifest,
            hash_key: manifest.hash_key,
            seed: manifest.frame_seed(),
            anchor,
            journal,
            checkpoints: super::checkpoint::Checkpoints::default(),
            stopping: super::stop::Stopping::default(),
            rewriter: super::rewrite::Rewriter::default(),
            resume_not_before_ms: 0,
            journal_grew_ms: 0,
            puncher: super::punch::Puncher::default(),
            backups: super::backup::Backups::default(),
            auditor: super::audit::Auditor::new(anchor.1),
            outbox: super::background_work::Outbox::default(),
            pace: Pace::Unlimited,
            leases: super::Leases::default(),
            namespaces: super::Namespaces::default(),
            near_horizon: super::near_horizon::NearHorizon::default(),
            refills: super::refill::Refills::default(),
            async_counts: super::async_count::AsyncCounts::default(),
            step_back: super::step_back::StepBack::default(),
            lease_ends: Calendar::new(),
            expiries: Calendar::new(),
            tombstone_passes: super::tombstones::TombstonePasses::default(),
            awaiting_durability: VecDeque::new(),
            retries_awaiting_durability: FxHashMap::default(),
            popped: Vec::new(),
            reclamation: super::namespace_reclamation::Reclamation::default(),
            namespace_numbers: super::namespace_numbers::NamespaceNumbers::default(),
            space: Space::default(),
            failed_rolls: super::roll::FailedRolls::default(),
            stall: super::stall::Stall::default(),
            terminal_error: None,
            terminal: Terminal::default(),
            deferred_retries: BTreeSet::new(),
            unreadable: super::unreadable::UnreadableTimers::default(),
            retry_due_max_ms: 0,
            steady_seen_ms: 0,
            last_wall_ms: 0,
            clock_watch: super::ClockWatch::default(),
            replaying: true,
            replay_lsn: 0,
            missing_files: Vec::new(),
            retries_that_expire: Vec::new(),
            busy: false,
            wake: false,
            announced_ms: None,
        }
    }

    fn recover(
        &mut self,
        manifest: &mut Manifest,
        is_new: bool,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<OpenReport, OpenError> {
        let found = self.load(manifest, progress)?;
        self.continue_steady_clock();
        let disk = Arc::clone(&self.disk);
        let (tail, frames, records) = (found.tail, found.frames, found.records);
        if let Some(warning) = tail.warning() {
            tracing::warn!("{warning}");
        }

        // Everything up to here only reads; from here on the disk is written.
        let begins_journal = found.segments.is_empty();
        if begins_journal {
            manifest.epoch = manifest::EPOCH_BEFORE_JOURNAL - 1;
        }
        manifest.begin_epoch();
        for dir in DIRS {
            disk.make_dir(dir)?;
        }
        self.write_manifest(manifest)?;
        if let Some(unused) = found.unused {
            // Its number is reused.
            if let Some(slot) = self.files.slot_of(FileId::Segment(unused)) {
                self.files.remove(slot);
            }
            disk.remove(&SEGMENTS.name(unused))?;
        }
        // If a process ended between the naming of a segment and the sync of the directory, the name is
        // visible but a power loss would undo it.
        disk.sync_dir(SEGMENTS.dir)?;
        let epoch = u32::try_from(manifest.epoch + u64::from(begins_journal)).map_err(|_| {
            damaged(manifest::NAME, manifest::EPOCH_AT, "the epoch is past its range")
        })?;
        if let Some(last) = found.segments.last() {
            last.make_durable()?;
        }
        self.remove_left_overs()?;
        let slot = found.segments.last().map_or(0, |last| last.slot);
        self.journal.adopt(epoch, found, slot);
        if begins_journal {
            self.journal.roll(&mut self.files).map_err(|error| match error {
                RollError::Again(error)
                | RollError::Unsynced(error)
                | RollError::Terminal(error) => error,
            })?;
            // From now on, a store without segments has lost them.
            manifest.begin_epoch();
            self.write_manifest(manifest)?;
        }
        self.replaying = false;
        self.namespaces.drop_empty_lanes();
        self.reclaim_all_namespaces();
        self.reclaim();
        let released = self.release_nodes();
        let is_restored = access_file::is_restored(disk.as_ref())?;
        let paused = if is_restored { self.pause_all()? } else { 0 };
        self.check_writable()?;
        // If there is no space, the frame stays in memory, and the store opens and waits for space.
        if let Ok(Some(mark)) = self.write_frame() {
            match mark.file.sync_data() {
                Ok(()) => self.synced(mark.lsn, mark.position),
                Err(error) => drop(self.sync_failed(&error)),
            }
        }
        self.check_writable()?;
        if is_restored && !self.is_stalled() {
            access_file::note_restore(disk.as_ref())?;
            disk.remove(manifest::RESTORED)?;
            disk.sync_dir("")?;
        }
        self.begin_step();
        self.check_writable()?;
        let epoch = manifest.epoch;
        Ok(OpenReport { is_new, tail, frames, records, released, paused, epoch })
    }

    /// Replaces the manifest. Tries again from the start if an error may pass.
    fn write_manifest(&self, manifest: &Manifest) -> Result<(), OpenError> {
        let mut pauses = MANIFEST_PAUSES.iter();
        loop {
            match manifest.write(self.disk.as_ref()) {
                Err(error) if error.may_pass() => {
                    let Some(pause) = pauses.next() else {
                        return Err(error.into());
                    };
                    tracing::warn!(%error, ?pause, "manifest write failed, will retry");
                    thread::sleep(*pause);
                }
                written => return Ok(written?),
            }
        }
    }

    /// Fails the startup if the store has ended.
    fn check_writable(&self) -> Result<(), OpenError> {
        match &self.terminal_error {
            None => Ok(()),
            Some(reason) => Err(OpenError::Unwritable(reason.clone())),
        }
    }

    /// Makes the steady clock continue from its value at the last frame, if the wall clock is behind
    /// that: the wall clock was ahead and was corrected. Retries wait by the steady clock, and would
    /// otherwise wait again for as long as the wall clock was wrong. Without retries and leases the
    /// steady clock starts at the wall clock.
    fn continue_steady_clock(&mut self) {
        let waits = |(_, namespace): (u32, &super::namespaces::Namespace)| {
            namespace.retrying + namespace.in_flight > 0
        };
        if self.namespaces.iter().any(waits) {
            self.anchor.0 = self.anchor.0.max(self.steady_seen_ms);
            self.now = Times::read(self.clock.as_ref(), self.anchor);
        }
    }

    /// Pauses every namespace of a store that was restored from a backup. Timers that were overdue in it,
    /// or have fired since it was made, must not fire before an operator has checked them.
    fn pause_all(&mut self) -> Result<u64, OpenError> {
        let running = self.namespaces.iter().filter(|(_, namespace)| {
            !namespace.record.paused || namespace.record.resumes_at.is_some()
        });
        let mut running: Vec<_> =
            running.map(|(number, namespace)| (number, namespace.record.clone())).collect();
        running.sort_unstable_by_key(|(number, _)| *number);
        let count = running.len() as u64;
        for (number, record) in running {
            let updated_at = self.now.wall();
            let record = NamespaceRecord { paused: true, resumes_at: None, updated_at, ..record };
            self.write(number, &Record::Namespace(Box::new(record))).map_err(|stop| {
                OpenError::Unwritable(match stop {
                    NotWritten::Refused(refusal) => refusal.to_string(),
                    NotWritten::Unread(error) | NotWritten::NotNow(error) => error.to_string(),
                    NotWritten::Terminal => self.terminal_error.clone().unwrap_or_default(),
                })
            })?;
        }
        tracing::warn!(
            namespaces = count,
            "the store was restored from a backup and every namespace is paused: check which \
             timers are due, then run `duly resume --all`, or `duly namespace resume` for one \
             namespace"
        );
        Ok(count)
    }

    /// Removes the left-overs of interrupted writers: temporary files, and sorted runs, segments and
    /// checkpoints that nothing names.
    fn remove_left_overs(&mut self) -> Result<(), OpenError> {
        let disk = Arc::clone(&self.disk);
        let disk = disk.as_ref();
        for files in [SORTED_RUNS, CHECKPOINTS] {
            files.remove_temporaries(disk)?;
        }
        let ids = SORTED_RUNS.list(disk)?;
        self.rewriter.latest_run = ids.last().copied().unwrap_or(0);
        self.rewriter.is_wanted = true;
        for id in ids {
            if self.files.slot_of(FileId::SortedRun(id)).is_none() {
                disk.remove(&SORTED_RUNS.name(id))?;
            }
        }
        for sequence in recovery::all_sequences(disk)? {
            if self.files.slot_of(FileId::Segment(sequence)).is_none() {
                disk.remove(&SEGMENTS.name(sequence))?;
            }
        }
        let kept = |number: &u64| self.checkpoints.kept.iter().any(|kept| kept.number == *number);
        for number in CHECKPOINTS.list(disk)?.iter().filter(|number| !kept(number)) {
            disk.remove(&CHECKPOINTS.name(*number))?;
        }
        Ok(())
    }

    /// Resets the engine after a checkpoint that could not be loaded.
    pub(super) fn reset(&mut self) {
        let (disk, clock) = (Arc::clone(&self.disk), Arc::clone(&self.clock));
        let (options, random, manifest) =
            (self.options.clone(), self.random.clone(), self.manifest);
        let latest = self.checkpoints.latest;
        *self = Self::empty(disk, options, clock, random, &manifest);
        self.checkpoints.latest = latest;
        self.files.checkpoint_begins(latest);
    }

    /// Ends the leases of nodes: every node of an embedded store ended with its process.
    fn release_nodes(&mut self) -> u64 {
        let held = (0..super::leases::PARTS)
            .flat_map(|part| self.leases.keys_where(part, |lease| lease.granted.node.is_some()));
        let held: Vec<_> = held.collect();
        for key in &held {
            self.end_lease(*key, duly_core::settle::LeaseLoss::Restarted);
        }
        held.len() as u64
    }
}

fn random_u128(random: &mut impl RngCore) -> u128 {
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}
