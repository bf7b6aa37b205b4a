//! Opening: manifest, journal, calendars, and the leases of nodes that are gone.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use duly_core::{Invalid, env::Clock};
use duly_wheel::Calendar;
use rand::RngCore;
use rustc_hash::FxHashMap;

use crate::{
    clock::{Times, ms},
    disk::Disk,
    effect::Effect,
    format,
    journal::{DIR, Journal, recovery},
    manifest::{self, Manifest},
    open::{OpenError, OpenReport},
    options::Options,
};

use super::{Engine, space::Space};

impl Engine {
    /// Opens the store on `disk`, which the caller has locked. Nothing is written until all of it
    /// has been read and found good.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: &mut dyn FnMut(recovery::Progress),
    ) -> Result<(Self, OpenReport), OpenError> {
        let mut random = Self::random_from(options.random_seed);
        let found = Manifest::read(disk.as_ref())?;
        let is_new = found.is_none();
        let wall_ms = ms(clock.wall());
        let mut manifest = found.unwrap_or_else(|| Manifest {
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

    fn empty(
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
            options,
            disk,
            clock,
            random,
            hash_key: manifest.hash_key,
            anchor,
            journal,
            leases: super::Leases::default(),
            namespaces: super::Namespaces::default(),
            near: super::near::Near::new(),
            refills: super::refill::Refills::default(),
            lease_ends: Calendar::new(),
            expiries: Calendar::new(),
            stub_passes: super::stubs::Passes::default(),
            unpublished: VecDeque::new(),
            unpublished_retries: FxHashMap::default(),
            popped: Vec::new(),
            graves: super::graves::Graves::default(),
            space: Space::default(),
            poisoned: None,
            held_back: BTreeSet::new(),
            retry_due_max_ms: 0,
            last_wall_ms: 0,
            replaying: true,
            replayed_letters: FxHashMap::default(),
            busy: false,
            wake: false,
            announced_ms: None,
        }
    }

    fn recover(
        &mut self,
        manifest: &mut Manifest,
        is_new: bool,
        progress: &mut dyn FnMut(recovery::Progress),
    ) -> Result<OpenReport, OpenError> {
        let disk = Arc::clone(&self.disk);
        let mut each = |location, decoded: format::record::Decoded| {
            let number = decoded.namespace;
            let effect = Effect::of(self.hash_key, number, &decoded.record);
            self.absorb(location, number, effect);
            Ok(())
        };
        let found = recovery::recover_records(disk.as_ref(), manifest, &mut each, progress)?;
        let (torn, frames, records) = (found.torn, found.frames, found.records);

        let table_bytes = self.namespaces.table_bytes();
        if table_bytes > self.options.namespaces_bytes_max() {
            let allowed =
                format!("at least {}: twice the settings of all namespaces", table_bytes * 2);
            let segment_bytes = self.options.segment_bytes;
            let invalid = Invalid::new("store.segment_bytes", segment_bytes, allowed);
            return Err(OpenError::Options(invalid));
        }
        // From here on things are written.
        let begins_journal = found.segments.is_empty();
        if begins_journal {
            manifest.epoch = manifest::EPOCH_BEFORE_JOURNAL - 1;
        }
        manifest.begin_epoch();
        disk.make_dir(DIR)?;
        manifest.write(disk.as_ref())?;
        if let Some(unused) = &found.unused {
            disk.remove(unused)?;
        }
        // A process that ended between naming a segment and syncing the name leaves a name that
        // everybody sees and a power loss takes back.
        disk.sync_dir(DIR)?;
        let epoch = u32::try_from(manifest.epoch + u64::from(begins_journal)).map_err(|_| {
            OpenError::Damaged {
                file: crate::manifest::NAME.into(),
                offset: crate::manifest::EPOCH_AT,
                what: "the epoch is past its range".into(),
            }
        })?;
        if let Some(last) = found.segments.last() {
            last.make_durable()?;
        }
        self.journal.adopt(epoch, found);
        if begins_journal {
            self.journal.roll()?;
            // From now on a store without segments has lost them.
            manifest.begin_epoch();
            manifest.write(disk.as_ref())?;
        }
        if self.journal.is_active_empty() {
            // A crash came between the roll and the table of namespaces.
            self.append_namespaces()
                .map_err(|refusal| OpenError::Unwritable(refusal.to_string()))?;
        }
        self.replaying = false;
        self.replayed_letters = FxHashMap::default();
        self.count_out_all();
        let released = self.release_nodes();
        let mark = self.journal.commit()?;
        if let Some(mark) = mark {
            mark.file.sync_data()?;
            self.synced(mark.lsn, mark.position);
        }
        self.begin_step();
        if self.poisoned.is_some() {
            return Err(OpenError::Unwritable(self.poisoned.clone().unwrap_or_default()));
        }
        Ok(OpenReport { is_new, torn_tail: torn, frames, records, released, epoch: manifest.epoch })
    }

    /// Ends the leases of nodes: every node of an embedded store ended with its process.
    fn release_nodes(&mut self) -> u64 {
        let held = self.leases.keys_where(|_, lease| lease.node.is_some());
        for key in &held {
            self.end_lease(*key, "the server stopped before a verdict");
        }
        held.len() as u64
    }
}

fn random_u128(random: &mut impl RngCore) -> u128 {
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}
