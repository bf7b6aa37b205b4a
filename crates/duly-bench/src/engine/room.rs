//! Estimate of the disk space that the rows need. It is checked before anything is written, because
//! a full disk would end the run after long work.

use super::{Name, Options};
use crate::{
    error::{Error, Result},
    scratch::{Scratch, free_and_all_bytes},
};

/// Journal bytes of a timer without its payload.
const OVERHEAD_BYTES: u64 = 112;
/// Assumed timers scheduled per second while lists are read.
const LISTS_RATE: u64 = 1_000_000;
/// Bytes of segments that are made ahead, and of checkpoints.
const BASE_BYTES: u64 = 1 << 30;
/// Free bytes below which the store accepts no timers.
const KEPT_FREE_BYTES: u64 = 2 << 30;
/// Free share of the disk, in percent, below which the store accepts no timers.
const KEPT_FREE_PERCENT: u64 = 5;

/// Returns an error if the disk has too little space for the rows.
pub(super) fn check(options: &Options, scratch: &Scratch) -> Result<()> {
    let (free, all) = free_and_all_bytes(scratch.path())?;
    let kept = KEPT_FREE_BYTES.max(all / 100 * KEPT_FREE_PERCENT);
    let needed = written_bytes(options) + kept;
    if free < needed && !options.allow_low_disk {
        return Err(Error::LowDisk { path: options.parent(), needed, free });
    }
    Ok(())
}

/// Estimates the most bytes on the disk at once. Rows run one after another, and each removes its
/// files.
fn written_bytes(options: &Options) -> u64 {
    use clap::ValueEnum as _;
    let each = u64::from(options.payload_bytes) + OVERHEAD_BYTES;
    let rows = Name::value_variants().iter().filter(|name| options.wants(**name));
    let most = rows.map(|name| {
        let timers = match name {
            Name::Dead => options.dead(),
            Name::Hot | Name::HotClaim => options.timers.saturating_add(options.hot()),
            _ => options.timers,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "an estimate"
        )]
        let bytes = ((u64::from(timers) * each) as f64 * name.writes_each()) as u64;
        let more = match name {
            Name::Latency => u64::from(options.rate) * u64::from(options.seconds) * each,
            Name::Lists => LISTS_RATE * u64::from(options.seconds) * each,
            _ => 0,
        };
        bytes + more
    });
    most.max().unwrap_or(0) + BASE_BYTES
}
