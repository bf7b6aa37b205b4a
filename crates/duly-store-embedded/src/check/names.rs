//! Finds names in a data directory that the state does not need: left-overs of a crash, and files that
//! are not Duly's.

use crate::{
    checkpoint,
    disk::LOCK_NAME,
    files::FileId,
    journal::{self, recovery},
    manifest,
    open::Result,
    sorted_runs,
};

use super::{Check, LeftOver};

/// Describes a file that a crash cut off.
const HALF: &str = "incomplete file, from a crash; the next start removes it";
const UNKNOWN: &str = "not a file of Duly; ignored";
const UNNAMED: &str = "no longer needed; the next start removes it";

impl Check<'_> {
    /// Notes every name that is not needed.
    pub(super) fn names(&mut self) -> Result<()> {
        for dir in ["", journal::DIR, sorted_runs::FILES.dir, checkpoint::FILES.dir] {
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
        let runs = sorted_runs::FILES.list(disk).unwrap_or_default();
        let segments = recovery::all_sequences(disk).unwrap_or_default();
        let checkpoints = checkpoint::FILES.list(disk).unwrap_or_default();
        let Some(state) = &self.state else {
            return Ok(());
        };
        let files = runs.into_iter().map(FileId::SortedRun);
        let files = files.chain(segments.into_iter().map(FileId::Segment));
        let files = files.filter(|id| !state.has_file(*id)).map(FileId::name);
        let checkpoints = checkpoints.into_iter().filter(|number| !state.keeps_checkpoint(*number));
        let checkpoints = checkpoints.map(|number| checkpoint::FILES.name(number));
        let unused = state.found.unused.map(journal::segment_name);
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
        journal::DIR,
        sorted_runs::FILES.dir,
        checkpoint::FILES.dir,
        journal::SPARE,
    ];
    let is_numbered = match dir {
        journal::DIR => name.ends_with(".log") || name.ends_with(journal::RECYCLED_SUFFIX),
        _ if dir == sorted_runs::FILES.dir => name.ends_with(sorted_runs::FILES.suffix),
        _ if dir == checkpoint::FILES.dir => name.ends_with(checkpoint::FILES.suffix),
        _ => false,
    };
    if known.contains(&name) || is_numbered {
        return None;
    }
    Some(if name.ends_with(".tmp") { HALF } else { UNKNOWN })
}
