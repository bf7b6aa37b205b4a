//! Waits until the files of a store stop changing.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{error::Result, usage::disk_bytes};

/// Time between two measurements.
const PAUSE: Duration = Duration::from_millis(500);
/// Time without a change after which the files count as settled; a fifth of the longest wait if
/// that is less.
const STILL: Duration = Duration::from_secs(5);

/// Result of the wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled {
    /// Bytes of the folder at the end.
    pub(super) bytes: u64,
    /// Time from the start of the wait to the last change.
    pub(super) after: Duration,
    /// `true`: the files have stopped changing.
    pub(super) is_still: bool,
}

/// Waits until a folder's bytes stay the same, at most `seconds_max` seconds.
pub(super) fn wait(folder: &Path, seconds_max: u32) -> Result<Settled> {
    let longest = Duration::from_secs(seconds_max.into());
    let still = STILL.min(longest / 5);
    let began = Instant::now();
    let mut settled =
        Settled { bytes: disk_bytes(folder)?, after: Duration::ZERO, is_still: false };
    loop {
        thread::sleep(PAUSE.min(still));
        let (bytes, at) = (disk_bytes(folder)?, began.elapsed());
        if bytes != settled.bytes {
            settled = Settled { bytes, after: at, is_still: false };
        } else if at >= settled.after + still {
            settled.is_still = true;
        }
        if settled.is_still || at >= longest {
            return Ok(settled);
        }
    }
}
