//! The writing of surviving records into sorted runs, in the order in which they will be removed.
//!
//! It happens in the background. The result is the places of the records in the new runs, and the job's
//! memory.

use std::sync::Arc;

use crate::{
    disk::{self, Disk},
    format::{self, run},
    manifest::Manifest,
    open::Result,
    runs::{self, Pushed, Run},
};

use super::{super::work::Pace, Buffers, Job, Move, Survivor};

/// Parameters of the new runs.
pub(super) struct Make {
    pub(super) first_run: u64,
    pub(super) manifest: Manifest,
    pub(super) pace: Pace,
    pub(super) now_ms: u64,
    pub(super) chunk_bytes: u64,
}

/// Runs that were written.
pub(super) struct Written {
    ids: Vec<u64>,
    pub(super) runs: Vec<Run>,
    pub(super) buffers: Buffers,
}

/// Writes the survivors of a job into runs. On failure it removes those that it wrote.
pub(super) fn write(disk: &Arc<dyn Disk>, job: Job, make: &Make) -> Result<Written> {
    let mut written = Written { ids: Vec::new(), runs: Vec::new(), buffers: job.buffers };
    match write_all(disk, make, &mut written) {
        Ok(()) => Ok(written),
        Err(error) => {
            for id in &written.ids {
                // The next startup removes a file that cannot be removed now.
                disk.remove(&runs::FILES.name(*id)).ok();
            }
            Err(error)
        }
    }
}

fn write_all(disk: &Arc<dyn Disk>, make: &Make, written: &mut Written) -> Result<()> {
    let Make { first_run, manifest, pace, now_ms, chunk_bytes } = make;
    let Buffers { survivors, bytes, moves, .. } = &mut written.buffers;
    survivors.sort_unstable_by_key(|survivor| {
        (survivor.kind as u8, run::hour_of(survivor.time_ms), survivor.namespace, survivor.time_ms)
    });
    let mut writer: Option<(run::Kind, runs::Writer)> = None;
    for survivor in survivors.drain(..) {
        let record = &bytes[survivor.start..survivor.end];
        loop {
            if writer.as_ref().is_none_or(|(kind, _)| *kind != survivor.kind) {
                finish(disk, writer.take(), &written.ids)?;
                let id = first_run + written.ids.len() as u64;
                let header = header(id, survivor.kind, manifest, *now_ms);
                let (seed, throttle) = (manifest.frame_seed(), pace.throttle());
                let next = runs::Writer::create(Arc::clone(disk), &header, seed, throttle)?;
                written.ids.push(id);
                writer = Some((survivor.kind, next.with_chunk_bytes(*chunk_bytes)));
            }
            let Some((_, open)) = &mut writer else {
                unreachable!("it was made above");
            };
            match open.push(survivor.namespace, survivor.time_ms, record)? {
                Pushed::At(unit) => {
                    let Survivor { kind, key, firing, old, .. } = survivor;
                    let (run, bytes) = (written.ids.len() - 1, record.len() as u64);
                    moves.push(Move { kind, key, firing, old, run, unit, bytes });
                    break;
                }
                Pushed::Full => finish(disk, writer.take(), &written.ids)?,
            }
        }
    }
    bytes.clear();
    finish(disk, writer.take(), &written.ids)?;
    for id in &written.ids {
        written.runs.push(runs::open(disk.as_ref(), *id, manifest)?);
    }
    Ok(())
}

fn header(id: u64, kind: run::Kind, manifest: &Manifest, now_ms: u64) -> run::Header {
    run::Header { version: format::VERSION, store: manifest.store, id, kind, created_at_ms: now_ms }
}

fn finish(
    disk: &Arc<dyn Disk>,
    writer: Option<(run::Kind, runs::Writer)>,
    ids: &[u64],
) -> disk::Result<()> {
    if let (Some((_, writer)), Some(id)) = (writer, ids.last()) {
        writer.finish()?;
        runs::publish(disk.as_ref(), *id)?;
    }
    Ok(())
}
