//! Step that fills a store and keeps it open for requests: its memory, its idle CPU, and an ingest
//! during which the parent kills it.

use std::{
    io::{self, BufRead as _},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use duly_store::Store as _;
use futures::executor::block_on;
use serde::{Deserialize, Serialize};

use super::tell;
use crate::{
    engine::{
        ingest,
        scene::{Due, SHARD, Scene, Setup},
        writer::Expected,
    },
    error::{Error, Result},
    usage::{DiskBytes, process_cpu, resident_bytes, resident_peak_bytes},
};

/// Parameters of the step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct FillStep {
    /// Parent of the store's folder.
    pub(in crate::engine) folder: PathBuf,
    pub(in crate::engine) timers: u32,
    pub(in crate::engine) batch: u32,
    pub(in crate::engine) in_flight: u32,
    pub(in crate::engine) payload_bytes: u32,
}

/// A request after the fill.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::engine) enum Request {
    /// Asks for the present [`Usage`].
    Usage,
    /// Asks for [`Idle`], measured over `seconds`.
    Idle { seconds: u32 },
    /// Starts an ingest that runs until the process is killed, with an [`Acked`] reply after each
    /// batch.
    Ingest,
}

/// Resources that the process uses.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::engine) struct Usage {
    pub(in crate::engine) resident_bytes: u64,
    pub(in crate::engine) resident_peak_bytes: u64,
    pub(in crate::engine) written_bytes: u64,
}

/// Result of the fill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::engine) struct Filled {
    pub(in crate::engine) usage: Usage,
    /// Memory before the store was opened.
    pub(in crate::engine) base_bytes: u64,
    pub(in crate::engine) index_bytes: u64,
    pub(in crate::engine) calendar_bytes: u64,
    /// Bytes appended to the journal.
    pub(in crate::engine) journal_bytes: u64,
    /// Bytes written to the disk during the fill.
    pub(in crate::engine) written_bytes: u64,
    /// Bytes of one timer that the store must keep.
    pub(in crate::engine) logical_bytes_each: u64,
}

/// CPU of a process that gets no requests.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::engine) struct Idle {
    pub(in crate::engine) cpu_s: f64,
    pub(in crate::engine) elapsed_s: f64,
}

/// Number of acknowledged timers of the ingest.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(in crate::engine) struct Acked(pub(in crate::engine) u64);

impl Usage {
    fn now() -> Self {
        Self {
            resident_bytes: resident_bytes(),
            resident_peak_bytes: resident_peak_bytes(),
            written_bytes: DiskBytes::of_process().written,
        }
    }
}

impl FillStep {
    pub(super) fn carry_out(self) -> Result<()> {
        let base_bytes = resident_bytes();
        let scene = Scene::fresh(&self.folder, &Setup::new(Due::Spread, self.payload_bytes))?;
        if self.timers > 0 {
            let (_, spent) = ingest::fill(&scene, self.timers, self.batch, self.in_flight)?;
            let usage = Usage::now();
            let health = scene.store().health();
            tell(&Filled {
                usage,
                base_bytes,
                index_bytes: health.index_bytes,
                calendar_bytes: health.calendar_bytes,
                journal_bytes: spent.committed_bytes,
                written_bytes: spent.disk.written,
                logical_bytes_each: scene.workload.logical_bytes_each(),
            })?;
        }
        for line in io::stdin().lock().lines() {
            let line = line.map_err(Error::io("read from", "stdin"))?;
            let request = serde_json::from_str(&line).map_err(|error| Error::Unexpected {
                expected: "a request".to_owned(),
                found: error.to_string(),
            })?;
            match request {
                Request::Usage => tell(&Usage::now())?,
                Request::Idle { seconds } => tell(&idle(seconds))?,
                Request::Ingest => self.ingest(&scene)?,
            }
        }
        Ok(())
    }

    /// Schedules more timers until the process is killed.
    fn ingest(&self, scene: &Scene) -> Result<()> {
        let mut batches = ingest::batches(&scene.workload, self.timers..u32::MAX, self.batch);
        let mut under_way = std::collections::VecDeque::new();
        let mut acked = 0;
        loop {
            while under_way.len() < self.in_flight as usize
                && let Some(batch) = batches.next()
            {
                under_way.push_back(scene.store().apply(SHARD, batch));
            }
            let Some(answer) = under_way.pop_front() else {
                return Ok(());
            };
            acked += Expected::Created.of_all(&block_on(answer)?)?;
            tell(&Acked(acked))?;
        }
    }
}

fn idle(seconds: u32) -> Idle {
    let (began, before) = (Instant::now(), process_cpu());
    thread::sleep(Duration::from_secs(seconds.into()));
    Idle {
        cpu_s: process_cpu().saturating_sub(before).as_secs_f64(),
        elapsed_s: began.elapsed().as_secs_f64(),
    }
}
