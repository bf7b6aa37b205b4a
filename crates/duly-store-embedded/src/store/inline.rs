//! Runs calls without a thread: each is written and synced before it returns.

use duly_store::{Error, Result};
use tokio::sync::watch;

use crate::engine::Engine;

/// Runs a call on the engine, and everything that follows from it.
pub(super) fn run_inline<T>(
    engine: &mut Engine,
    wakeups: &watch::Sender<u64>,
    work: impl FnOnce(&mut Engine) -> Result<T>,
) -> Result<T> {
    if engine.is_stalled() {
        engine.begin_step();
        // Without space the store is not usable; the next check returns that.
        write_durably(engine).ok();
    }
    engine.check_usable()?;
    settle_down(engine)?;
    let result = work(engine);
    write_durably(engine).map_err(|error| match error {
        // The frame stays in memory, with the changes of this call, and is written when there is space.
        Error::Unavailable { reason, .. } => Error::InDoubt { reason },
        error => error,
    })?;
    settle_down(engine)?;
    if engine.take_wake() {
        wakeups.send_modify(|count| *count += 1);
    }
    result
}

/// Runs steps until there is nothing more to do without waiting, background work included.
pub(super) fn settle_down(engine: &mut Engine) -> Result<()> {
    loop {
        engine.begin_step();
        write_durably(engine)?;
        let work = engine.take_work();
        if work.is_empty() && !engine.is_busy() {
            return Ok(());
        }
        for work in work {
            work()(engine);
        }
    }
}

/// Writes and syncs the appended records.
pub(super) fn write_durably(engine: &mut Engine) -> Result<()> {
    if let Some(mark) = engine.commit()? {
        if let Err(error) = mark.file.sync_data() {
            return Err(engine.sync_failed(&error));
        }
        engine.synced(mark.lsn, mark.position);
    }
    Ok(())
}
