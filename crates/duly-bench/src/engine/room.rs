//! How much room the rows take on the disk: looked at before anything is written, because an hour's
//! work that ends in a full disk is no figure.

use super::{Name, Options};
use crate::{
    error::{Error, Result},
    scratch::{Scratch, free_and_all_bytes},
};

/// Journal bytes of a timer beside its payload.
const OVERHEAD_BYTES: u64 = 112;
/// Schedules a second that go on while lists are read.
const LISTS_RATE: u64 = 1_000_000;
/// Segments that are made ahead, and checkpoints.
const BASE_BYTES: u64 = 1 << 30;
/// The store takes no timers below this.
const KEPT_FREE_BYTES: u64 = 2 << 30;
/// Nor below this share of the disk, in percent.
const KEPT_FREE_PERCENT: u64 = 5;

/// Refuses rows for which the disk has too little room.
pub(super) fn check(options: &Options, scratch: &Scratch) -> Result<()> {
    let (free, all) = free_and_all_bytes(scratch.path())?;
    let kept = KEPT_FREE_BYTES.max(all / 100 * KEPT_FREE_PERCENT);
    let needed = written_bytes(options) + kept;
    if free < needed && !options.allow_low_disk {
        return Err(Error::LowDisk { path: options.parent(), needed, free });
    }
    Ok(())
}

/// About the most that is on the disk at once; rows follow each other, and each clears up.
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
