//! Step that makes dead letters, then redrives one half and purges the other.

use std::path::PathBuf;

use duly_core::{Settings, limits::Limits};
use duly_store::{Command, Store as _};
use serde::{Deserialize, Serialize};

use super::tell;
use crate::{
    engine::{
        consumer::{Consumer, Then},
        ingest, rows,
        scene::{AHEAD, Due, Scene, Setup},
        writer::{Expected, Writer},
    },
    error::{Error, Result},
    progress::Progress,
    usage::{Span, Spent, disk_bytes, resident_bytes},
};

/// Parameters of the step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct DeadStep {
    /// Parent of the store's folder.
    pub(in crate::engine) folder: PathBuf,
    /// Number of dead letters.
    pub(in crate::engine) letters: u32,
    pub(in crate::engine) batch: u32,
    pub(in crate::engine) in_flight: u32,
    pub(in crate::engine) payload_bytes: u32,
}

/// Result of the step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct Letters {
    pub(in crate::engine) made: Work,
    pub(in crate::engine) redriven: Work,
    pub(in crate::engine) purged: Work,
    /// Memory of the whole process when all timers are dead letters.
    pub(in crate::engine) resident_bytes: u64,
    pub(in crate::engine) index_bytes: u64,
    /// Bytes of the folder at the same time.
    pub(in crate::engine) disk_bytes: u64,
    /// Bytes of the folder when all dead letters are redriven or purged.
    pub(in crate::engine) disk_after_bytes: u64,
}

/// Cost of one kind of work.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct Work {
    pub(in crate::engine) items: u64,
    pub(in crate::engine) elapsed_s: f64,
    pub(in crate::engine) cpu_s: f64,
    /// Items per second of the disk alone.
    pub(in crate::engine) floor_per_second: f64,
}

impl DeadStep {
    pub(super) fn carry_out(self) -> Result<()> {
        let mut setup = Setup::new(Due::AtOnce, self.payload_bytes);
        let limits = Limits { max_dead: u64::MAX, ..Limits::default() };
        setup.settings = Settings { limits, ..Settings::default() };
        let scene = Scene::fresh(&self.folder, &setup)?;
        ingest::fill(&scene, self.letters, self.batch, self.in_flight)?;
        let made = self.make(&scene)?;
        let found = scene.store().health();
        let (resident_bytes, disk_bytes_then) = (resident_bytes(), disk_bytes(scene.path())?);
        let half = self.letters / 2;
        let workload = &scene.workload;
        let redrives = self.batches(0..half, |n| workload.redrive(n));
        let redriven = self.send(&scene, redrives, Expected::Changed, half.into())?;
        let purges = self.batches(half..self.letters, |n| workload.purge(n));
        let rest = u64::from(self.letters - half);
        let purged = self.send(&scene, purges, Expected::Purged, rest)?;
        let stats = scene.stats(&scene.namespaces[0])?;
        Error::unless_equal("dead letters", 0, stats.dead)?;
        Error::unless_equal("pending timers", half.into(), stats.pending())?;
        tell(&Letters {
            made,
            redriven,
            purged,
            resident_bytes,
            index_bytes: found.index_bytes,
            disk_bytes: disk_bytes_then,
            disk_after_bytes: disk_bytes(scene.path())?,
        })?;
        scene.remove()
    }

    /// Claims every timer and settles it with `dead`.
    fn make(&self, scene: &Scene) -> Result<Work> {
        let letters = u64::from(self.letters);
        let namespace = &scene.namespaces[0];
        let mut consumer =
            Consumer::new(scene.store(), namespace, self.batch, self.in_flight, Then::Dead);
        let span = Span::begin();
        scene.leap(AHEAD);
        consumer.take(|| letters, Progress::new("made dead", letters))?;
        let spent = span.end();
        Error::unless_equal("settlements", letters, consumer.settled)?;
        Error::unless_equal("dead letters", letters, scene.stats(namespace)?.dead)?;
        self.work(letters, &spent)
    }

    fn batches(
        &self,
        numbers: std::ops::Range<u32>,
        command: impl Fn(u32) -> Command,
    ) -> impl Iterator<Item = Vec<Command>> {
        let mut numbers = numbers;
        let batch = self.batch as usize;
        std::iter::from_fn(move || {
            let commands: Vec<_> = numbers.by_ref().take(batch).map(&command).collect();
            (!commands.is_empty()).then_some(commands)
        })
    }

    fn send(
        &self,
        scene: &Scene,
        batches: impl Iterator<Item = Vec<Command>>,
        expected: Expected,
        items: u64,
    ) -> Result<Work> {
        let writer = Writer { store: scene.store(), in_flight: self.in_flight };
        let span = Span::begin();
        let sent = writer.send(batches, expected, Progress::new("taken away", items))?;
        let spent = span.end();
        Error::unless_equal("outcomes", items, sent.items)?;
        self.work(items, &spent)
    }

    fn work(&self, items: u64, spent: &Spent) -> Result<Work> {
        Ok(Work {
            items,
            elapsed_s: spent.elapsed.as_secs_f64(),
            cpu_s: spent.process.as_secs_f64(),
            floor_per_second: rows::disk_alone(&self.folder, items, spent)?,
        })
    }
}
