//! Removal of files that nothing has pointed at since before the older kept checkpoint began.
//!
//! One rule covers all cases:
//!
//! 1. A cancellation is durable, and in both checkpoints, before the cancelled record is removed.
//! 2. A moved location is in both checkpoints before the old copy is removed.
//! 3. A segment is removed only when it is before both replay points.
//!
//! How files are removed:
//!
//! 1. Nothing is removed while a backup is copied.
//! 2. A segment of the right length becomes a spare, if not too many wait.
//! 3. Of the other files the name is removed first, then the space is freed in parts.
//! 4. Runs that are still in use in part get holes ([`super::punch`]).
//! 5. A file of the rewriter's job waits for the end of the job: until then no other file gets its slot.

use std::sync::Arc;

use crate::{
    disk::{self, Disk, deallocate},
    files::FileId,
    journal::{self, DirSyncLock},
    numbered::SORTED_RUNS,
};

use super::Engine;

impl Engine {
    /// Removes files that nothing needs, in the background, and begins a walk that punches holes into
    /// others.
    pub(super) fn reclaim(&mut self) {
        self.puncher.next = Some(0);
        self.busy = true;
        let Some(oldest) = self.checkpoints.oldest() else {
            return;
        };
        if self.checkpoints.is_reclaiming
            || self.backups.is_held()
            || self.namespace_numbers.is_searching()
        {
            return;
        }
        let is_behind = |id: FileId| match id {
            FileId::Segment(sequence) => sequence < oldest.sequence,
            FileId::SortedRun(_) => true,
        };
        let gone: Vec<(u16, FileId)> = self
            .files
            .reclaimable(oldest.number)
            .into_iter()
            .filter_map(|slot| Some((slot, self.files.get(slot)?.id)))
            .filter(|(slot, id)| is_behind(*id) && !self.rewriter.is_using(*slot))
            .collect();
        if gone.is_empty() {
            return;
        }
        self.checkpoints.is_reclaiming = true;
        let (disk, naming) = (Arc::clone(&self.disk), self.journal.naming());
        let segment_bytes = self.options.segment_bytes;
        self.in_background(
            move || {
                let removed = remove(disk.as_ref(), &naming, &gone, segment_bytes);
                (gone, removed)
            },
            |engine, (gone, removed)| engine.reclaimed(&gone, removed),
        );
    }

    fn reclaimed(&mut self, gone: &[(u16, FileId)], removed: disk::Result<Vec<u16>>) {
        self.checkpoints.is_reclaiming = false;
        let nameless = match removed {
            Ok(nameless) => nameless,
            Err(error) => {
                // The files are tried again after the next checkpoint.
                tracing::warn!(
                    %error,
                    "unneeded files could not be removed, will retry after the next checkpoint"
                );
                return;
            }
        };
        let mut without_name = Vec::new();
        for (slot, _) in gone {
            let file = self.files.remove(*slot);
            without_name.extend(file.filter(|_| nameless.contains(slot)));
        }
        if !without_name.is_empty() {
            self.in_background(
                move || without_name.iter().for_each(deallocate::deallocate_file),
                |_, ()| {},
            );
        }
    }
}

/// Removes files, or keeps them as spares. Returns the slots of those whose space is still to be freed.
fn remove(
    disk: &dyn Disk,
    naming: &DirSyncLock,
    gone: &[(u16, FileId)],
    segment_bytes: u64,
) -> disk::Result<Vec<u16>> {
    let mut nameless = Vec::new();
    for (slot, id) in gone {
        let name = id.name();
        if matches!(id, FileId::Segment(_)) && journal::recycle(disk, naming, &name, segment_bytes)?
        {
            continue;
        }
        if deallocate::remove_name(disk, &name)?.is_some() {
            nameless.push(*slot);
        }
    }
    journal::sync_names(disk, naming)?;
    disk.sync_dir(SORTED_RUNS.dir)?;
    Ok(nameless)
}
