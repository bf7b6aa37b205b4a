//! Giving files back: what nothing has pointed at since before the older kept checkpoint began.
//!
//! One rule for all cases. A cancellation is durable, and in both checkpoints, before the record that
//! it cancelled goes; a location that moved is in both before the old copy goes; a segment is behind
//! both replay points. While a backup is copied nothing goes. A segment of the right length becomes a
//! spare, if not too many wait. Of the others the name goes first, then the room, in parts. Runs of which
//! a part is still pointed at get holes ([`super::punch`]).
//! A file that the rewriter is at waits for the end of its job: until then no other comes into its slot.

use std::sync::Arc;

use crate::{
    disk::{self, Disk, room},
    files::FileId,
    journal::{self, Naming},
    runs,
};

use super::Engine;

impl Engine {
    /// Removes what can go, in the background, and has what can go of other files punched out.
    pub(super) fn reclaim(&mut self) {
        self.puncher.begin();
        self.busy = true;
        let Some(oldest) = self.checkpoints.oldest() else {
            return;
        };
        if self.checkpoints.is_reclaiming || self.backups.is_held() || self.numbers.is_looking() {
            return;
        }
        let is_behind = |id: FileId| match id {
            FileId::Segment(sequence) => sequence < oldest.sequence,
            FileId::Run(_) => true,
        };
        let gone: Vec<(u16, FileId)> = self
            .files
            .reclaimable(oldest.number)
            .into_iter()
            .filter_map(|slot| Some((slot, self.files.get(slot)?.id)))
            .filter(|(slot, id)| is_behind(*id) && !self.rewriter.is_at(*slot))
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
                // They are tried again after the next checkpoint.
                tracing::warn!(%error, "files that nothing needs could not be removed");
                return;
            }
        };
        let mut without_name = Vec::new();
        for (slot, _) in gone {
            let file = self.files.remove(*slot);
            without_name.extend(file.filter(|_| nameless.contains(slot)));
        }
        if !without_name.is_empty() {
            self.in_background(move || without_name.iter().for_each(room::give_back), |_, ()| {});
        }
    }
}

/// Removes files, or keeps them as spares; answers the slots of those whose room is to go.
fn remove(
    disk: &dyn Disk,
    naming: &Naming,
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
        if room::remove_name(disk, &name)?.is_some() {
            nameless.push(*slot);
        }
    }
    journal::sync_names(disk, naming)?;
    disk.sync_dir(runs::FILES.dir)?;
    Ok(nameless)
}
