//! Backups of an open store: a plan is held while its files are copied on the caller's thread, so
//! that neither the engine nor its background waits for a slow disk.

use std::{path::Path, sync::mpsc};

use duly_store::Result;

use crate::{
    backup::{self, BackupError, BackupProgress, BackupReport, Target},
    engine::{Engine, backup::Plan},
    shell::{self, Answer, Request},
};

use super::{EmbeddedStore, Mode, run_inline};

impl EmbeddedStore {
    /// Copies the store, as it is at one moment, into a directory that is empty or missing. Calls go
    /// on meanwhile; this one blocks its thread until the copy is durable.
    ///
    /// # Errors
    /// One clear reason; nothing is left in the directory.
    pub fn backup(
        &self,
        target: &Path,
        progress: &mut dyn FnMut(BackupProgress),
    ) -> std::result::Result<BackupReport, BackupError> {
        let _only = self.backup.try_lock().ok_or(BackupError::Busy)?;
        let target = Target::check(target, self.disk.as_ref())?;
        let held = self.hold()?;
        let is_closed = || match &self.mode {
            Mode::Threads { shared, .. } => shared.inbox.is_closed(),
            Mode::Inline { .. } => false,
        };
        backup::copy(&self.disk, &target, &held.plan, &is_closed, progress)
    }

    /// Waits for a checkpoint and holds what belongs to it.
    fn hold(&self) -> Result<Held<'_>> {
        let (reply, answer) = mpsc::channel();
        match &self.mode {
            Mode::Threads { shared, .. } => {
                shared.inbox.push(Request::Call(Box::new(move |engine| {
                    match engine.check_usable() {
                        Ok(()) => engine.pin(reply),
                        Err(error) => drop(reply.send(Err(error))),
                    }
                    Answer::Now(Box::new(|_| {}))
                })))?;
            }
            Mode::Inline { engine, wakeups } => {
                run_inline(&mut engine.lock(), wakeups, move |engine| {
                    engine.pin(reply);
                    Ok(())
                })?;
            }
        }
        let plan = answer.recv().map_err(|_| shell::closed())??;
        Ok(Held { store: self, plan })
    }
}

/// A plan of a backup. Dropped, its files may go again.
struct Held<'a> {
    store: &'a EmbeddedStore,
    plan: Plan,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        match &self.store.mode {
            Mode::Threads { shared, .. } => shared.inbox.push_always(Box::new(|engine| {
                engine.unpin();
                Answer::Now(Box::new(|_| {}))
            })),
            Mode::Inline { engine, wakeups } => {
                // A store that has ended gives nothing back.
                let unpin = |engine: &mut Engine| {
                    engine.unpin();
                    Ok(())
                };
                drop(run_inline(&mut engine.lock(), wakeups, unpin));
            }
        }
    }
}
