//! Backups of an open store. A plan pins the files while they are copied on the caller's thread, so that
//! neither the engine nor its background thread waits for a slow disk.

use std::{path::Path, sync::mpsc, thread, time::Duration};

use duly_store::{Backups, Result};

use crate::{
    backup::{self, BackupError, BackupProgress, BackupReport, Target},
    engine::{Engine, backup::BackupPlan},
    shell::{self, Request},
};

use super::{EmbeddedStore, StoreMode, run_inline};

/// Waits before a failed backup is tried again. After the last one the failure is returned.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// Interval at which a wait checks if the store is closed.
const PAUSE_STEP: Duration = Duration::from_millis(50);

impl Backups for EmbeddedStore {
    fn back_up(&self, target: &Path) -> std::result::Result<BackupReport, duly_store::BackupError> {
        Ok(self.backup(target, &mut |_| {})?)
    }
}

impl EmbeddedStore {
    /// Copies the store, as it is at one moment, into a directory that is empty or missing. Other calls
    /// continue; this one blocks its thread until the copy is durable. If a disk fails it tries twice
    /// more, after one second and after four.
    ///
    /// # Errors
    /// Returns the first reason found; nothing is left in the directory, and the store continues.
    pub fn backup(
        &self,
        target: &Path,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> std::result::Result<BackupReport, BackupError> {
        let _only = self.backup.try_lock().ok_or(BackupError::Busy)?;
        let mut pauses = PAUSES.iter();
        loop {
            match self.try_backup(target, progress) {
                Err(error) if error.may_pass() && self.terminal.get().is_none() => {
                    let Some(pause) = pauses.next() else {
                        return Err(error);
                    };
                    tracing::warn!(%error, ?pause, "backup failed, will retry");
                    self.pause(*pause)?;
                }
                done => return done,
            }
        }
    }

    fn try_backup(
        &self,
        target: &Path,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> std::result::Result<BackupReport, BackupError> {
        let target = Target::check(target, self.disk.as_ref())?;
        let pinned = self.pin_files()?;
        backup::copy(&self.disk, &target, &pinned.plan, &|| self.is_closed(), progress)
    }

    fn is_closed(&self) -> bool {
        match &self.mode {
            StoreMode::Threads { shared, .. } => shared.inbox.is_closed(),
            StoreMode::Inline { .. } => false,
        }
    }

    /// Waits, unless the store is closed. A store without threads does not wait, because nothing would
    /// change meanwhile.
    fn pause(&self, mut left: Duration) -> std::result::Result<(), BackupError> {
        while matches!(self.mode, StoreMode::Threads { .. }) && !left.is_zero() {
            if self.is_closed() {
                return Err(BackupError::Closed);
            }
            thread::sleep(PAUSE_STEP);
            left = left.saturating_sub(PAUSE_STEP);
        }
        Ok(())
    }

    /// Waits for a checkpoint and pins its files.
    fn pin_files(&self) -> Result<PinnedPlan<'_>> {
        let (reply, answer) = mpsc::channel();
        match &self.mode {
            StoreMode::Threads { shared, .. } => {
                shared.inbox.push(Request::call(move |engine| match engine.check_usable() {
                    Ok(()) => engine.pin(reply),
                    Err(error) => drop(reply.send(Err(error))),
                }))?;
            }
            StoreMode::Inline { engine, wakeups } => {
                run_inline(&mut engine.lock(), wakeups, move |engine| {
                    engine.pin(reply);
                    Ok(())
                })?;
            }
        }
        let plan = answer.recv().map_err(|_| shell::closed())??;
        Ok(PinnedPlan { store: self, plan })
    }
}

/// A plan of a backup. When it is dropped, its files are unpinned.
struct PinnedPlan<'a> {
    store: &'a EmbeddedStore,
    plan: BackupPlan,
}

impl Drop for PinnedPlan<'_> {
    fn drop(&mut self) {
        match &self.store.mode {
            StoreMode::Threads { shared, .. } => shared.inbox.push_always(Engine::unpin),
            StoreMode::Inline { engine, wakeups } => {
                // A store that has ended does not need to unpin.
                let unpin = |engine: &mut Engine| {
                    engine.unpin();
                    Ok(())
                };
                drop(run_inline(&mut engine.lock(), wakeups, unpin));
            }
        }
    }
}
