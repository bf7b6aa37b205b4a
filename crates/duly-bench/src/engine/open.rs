//! Closing in order and opening again, with the memory that the store then has.
//!
//! The opening that is measured happens in a process of its own: in this one the allocator still
//! holds what the closed store has freed, which would count as the memory of the opened one.

use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use duly_store::Store as _;
use duly_store_embedded::{EmbeddedStore, Options as StoreOptions, SystemClock};
use serde::{Deserialize, Serialize};

use super::{Bench, Name, rows, scene::Scene};
use crate::{
    error::{Error, Result},
    usage::{Span, resident_gain_bytes},
};

/// What opening a folder took, in a process that does nothing else.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reopened {
    /// Seconds until the store could be used.
    pub open_s: f64,
    /// CPU seconds of all threads until then.
    pub cpu_s: f64,
    /// Resident memory that came with it.
    pub resident_bytes: u64,
    /// Timers that are pending.
    pub pending: u64,
}

/// Opens a store's folder once, measures that and closes it again.
///
/// # Errors
/// Whatever the store has against it.
pub fn reopen(folder: &Path) -> Result<Reopened> {
    resident_gain_bytes();
    let span = Span::begin();
    let store = EmbeddedStore::open_dir(folder, StoreOptions::default(), Arc::new(SystemClock))?;
    let spent = span.end();
    Ok(Reopened {
        open_s: spent.elapsed.as_secs_f64(),
        cpu_s: spent.process.as_secs_f64(),
        resident_bytes: resident_gain_bytes(),
        pending: store.health().pending,
    })
}

/// Closes the scene's store, has it opened by another process, and opens it again.
pub(super) fn measure(bench: &mut Bench<'_>, scene: &mut Scene) -> Result<()> {
    let timers = u64::from(bench.options.timers);
    let closing = Instant::now();
    scene.close();
    let close_s = closing.elapsed().as_secs_f64();
    let reopened = reopen_elsewhere(bench.options.program.as_deref(), scene.path())?;
    Error::unless_equal("pending timers", timers, reopened.pending)?;
    scene.open()?;
    let about = "close and open again in a new process, page cache warm".to_owned();
    bench
        .report
        .row(Name::Open.as_str(), about, timers)
        .add("per_second", "/s", rows::each(timers, 1) / reopened.open_s.max(1e-9))
        .add("cpu", "µs", reopened.cpu_s * 1e6 / rows::each(timers, 1))
        .add("close", "s", close_s)
        .add("open", "s", reopened.open_s)
        .add("resident", "B each", rows::each(reopened.resident_bytes, timers));
    Ok(())
}

fn reopen_elsewhere(program: Option<&Path>, folder: &Path) -> Result<Reopened> {
    let own = || std::env::current_exe().map_err(Error::io("find", "this program"));
    let program = program.map_or_else(own, |program| Ok(program.to_owned()))?;
    let output = Command::new(&program)
        .arg("reopen")
        .arg(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(Error::io("start", &program))?;
    serde_json::from_slice(&output.stdout).map_err(|error| Error::Unexpected {
        expected: "the figures of another process".to_owned(),
        found: format!("{} ({error})", output.status),
    })
}
