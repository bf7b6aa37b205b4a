//! The writing of surviving records into sorted runs, in the order in which they will be removed.
//!
//! It happens in the background. The result is the places of the records in the new runs, and the job's
//! memory.

use std::sync::Arc;

use crate::{
    disk::{self, Disk},
    format::{self, sorted_run},
    manifest::Manifest,
    numbered::SORTED_RUNS,
    open::Result,
    sorted_runs::{self, PushResult, SortedRun},
};

use super::{super::background_work::Pace, JobBuffers, RewriteJob, Survivor};

/// Parameters of the new runs.
pub(super) struct RunParameters {
    pub(super) first_run: u64,
    pub(super) manifest: Manifest,
    pub(super) pace: Pace,
    pub(super) now_ms: u64,
    pub(super) chunk_bytes: u64,
}

/// Runs that were written.
pub(super) struct WrittenRuns {
    ids: Vec<u64>,
    pub(super) runs: Vec<SortedRun>,
    pub(super) buffers: JobBuffers,
}

/// Writes the survivors of a job into runs. On failure it removes those that it wrote.
pub(super) fn write(
    disk: &Arc<dyn Disk>,
    job: RewriteJob,
    parameters: &RunParameters,
) -> Result<WrittenRuns> {
    let mut written = WrittenRuns { ids: Vec::new(), runs: Vec::new(), buffers: job.buffers };
    match write_all(disk, parameters, &mut written) {
        Ok(()) => Ok(written),
        Err(error) => {
            for id in &written.ids {
                // The next startup removes a file that cannot be removed now.
                disk.remove(&SORTED_RUNS.name(*id)).ok();
            }
            Err(error)
        }
    }
}

fn write_all(
    disk: &Arc<dyn Disk>,
    parameters: &RunParameters,
    written: &mut WrittenRuns,
) -> Result<()> {
    let RunParameters { first_run, manifest, pace, now_ms, chunk_bytes } = parameters;
    let JobBuffers { survivors, bytes, .. } = &mut written.buffers;
    survivors.sort_unstable_by_key(|survivor| {
        let Survivor { kind, key, time_ms, .. } = survivor;
        (*kind as u8, sorted_run::hour_of(*time_ms), key.namespace(), *time_ms)
    });
    let mut writer: Option<(sorted_run::RunKind, sorted_runs::SortedRunWriter)> = None;
    for survivor in survivors {
        let record = &bytes[survivor.bytes.clone()];
        loop {
            if writer.as_ref().is_none_or(|(kind, _)| *kind != survivor.kind) {
                finish(disk, writer.take(), &written.ids)?;
                let id = first_run + written.ids.len() as u64;
                let header = sorted_run::Header {
                    version: format::VERSION,
                    store: manifest.store,
                    id,
                    kind: survivor.kind,
                    created_at_ms: *now_ms,
                };
                let (seed, throttle) = (manifest.frame_seed(), pace.throttle());
                let next = sorted_runs::SortedRunWriter::create(
                    Arc::clone(disk),
                    &header,
                    seed,
                    throttle,
                )?;
                written.ids.push(id);
                writer = Some((survivor.kind, next.with_chunk_bytes(*chunk_bytes)));
            }
            let Some((_, open)) = &mut writer else {
                unreachable!("it was made above");
            };
            match open.push(survivor.key.namespace(), survivor.time_ms, record)? {
                PushResult::At(unit) => {
                    survivor.new = (written.ids.len() - 1, unit);
                    break;
                }
                PushResult::Full => finish(disk, writer.take(), &written.ids)?,
            }
        }
    }
    bytes.clear();
    finish(disk, writer.take(), &written.ids)?;
    for id in &written.ids {
        written.runs.push(sorted_runs::open(disk.as_ref(), *id, manifest)?);
    }
    Ok(())
}

fn finish(
    disk: &Arc<dyn Disk>,
    writer: Option<(sorted_run::RunKind, sorted_runs::SortedRunWriter)>,
    ids: &[u64],
) -> disk::Result<()> {
    if let (Some((_, writer)), Some(id)) = (writer, ids.last()) {
        writer.finish()?;
        sorted_runs::publish(disk.as_ref(), *id)?;
    }
    Ok(())
}
