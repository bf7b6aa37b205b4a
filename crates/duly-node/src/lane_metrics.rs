//! Counts the lanes for the metrics.
//!
//! Every firing needs the lock of the lanes. So the count runs in slices, with pauses between them.
//! After each slice the lock goes to a waiting thread first. So the count holds the lock for a small
//! part of the time, for any number of remembered lanes.

use std::{sync::Arc, time::Duration};

use parking_lot::MutexGuard;

use crate::{
    LaneLoad,
    lanes::{LaneCount, LaneListing, Lanes},
    phase::Phase,
    recorder::Recorder,
    state::Shared,
};

/// Time from one count to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Pause between two slices of one count.
const SLICE_PAUSE: Duration = Duration::from_millis(2);

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut count = LaneCount::default();
    while shared.phases.now() == Phase::Running {
        let counts = with_fair_lock(&shared, |lanes| lanes.count(&mut count));
        let pause = match counts {
            Some(counts) => {
                Recorder::lanes(&counts);
                let (diverted, breakers) = {
                    let lanes = shared.pools.webhooks();
                    (lanes.diverted(), lanes.fallback_breakers())
                };
                Recorder::fallbacks(diverted, breakers);
                count = LaneCount::default();
                EVERY
            }
            None => SLICE_PAUSE,
        };
        shared.phases.sleep(pause).await;
    }
}

/// Returns the lanes of a namespace, as [`Lanes::list`] finds them.
pub(crate) fn list(shared: &Shared, mut listing: LaneListing) -> Vec<LaneLoad> {
    let now = shared.clock.boot();
    while with_fair_lock(shared, |lanes| lanes.list(&mut listing, now)).is_some() {}
    listing.done()
}

/// Runs one slice under the lock, then passes the lock to a waiting thread. Otherwise the next slice
/// would get it first.
fn with_fair_lock<T>(shared: &Shared, slice: impl FnOnce(&Lanes) -> T) -> T {
    let lanes = shared.pools.webhooks();
    let result = slice(&lanes);
    MutexGuard::unlock_fair(lanes);
    result
}
