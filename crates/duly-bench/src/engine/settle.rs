//! Waiting until the files of a store stop changing.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{error::Result, usage::disk_bytes};

/// How often it is looked.
const PAUSE: Duration = Duration::from_millis(500);
/// Unchanged for so long means still, or for a fifth of the longest wait if that is less.
const STILL: Duration = Duration::from_secs(5);

/// Where the disk came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled {
    /// Bytes of the folder at the end.
    pub(super) bytes: u64,
    /// When they last changed, from the beginning of the wait on.
    pub(super) after: Duration,
    /// Whether they had stopped changing.
    pub(super) is_still: bool,
}

/// Waits until a folder's bytes stay the same, at most so long.
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
