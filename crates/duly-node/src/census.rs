//! Counts the lanes for the metrics.
//!
//! Every firing needs the lock of the lanes. So they are counted in slices, with the lock handed to
//! whoever waits for it after each, and pauses between them: however many are remembered, counting
//! takes little of it.

use std::{sync::Arc, time::Duration};

use parking_lot::MutexGuard;

use crate::{
    LaneLoad,
    lanes::{Count, Lanes, Listing},
    phase::Phase,
    record::Recorder,
    state::Shared,
};

/// Time from one count to the next.
const EVERY: Duration = Duration::from_secs(1);
/// Pause between two slices of one.
const SLICE_PAUSE: Duration = Duration::from_millis(2);

/// The loop; ends when the node drains.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut count = Count::default();
    while shared.phases.now() == Phase::Running {
        let census = look(&shared, |lanes| lanes.count(&mut count));
        let pause = match census {
            Some(census) => {
                Recorder::lanes(&census);
                let (diverted, breakers) = {
                    let lanes = shared.lanes.lock();
                    (lanes.diverted(), lanes.fallback_breakers())
                };
                Recorder::fallbacks(diverted, breakers);
                count = Count::default();
                EVERY
            }
            None => SLICE_PAUSE,
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.phases.reached(Phase::Draining) => return,
        }
    }
}

/// The lanes of a namespace, as [`Lanes::list`] finds them.
pub(crate) fn list(shared: &Shared, mut listing: Listing) -> Vec<LaneLoad> {
    let now = shared.clock.boot();
    while look(shared, |lanes| lanes.list(&mut listing, now)).is_some() {}
    listing.done()
}

/// One look under the lock, which then goes to whoever waits for it: the next look would come before
/// them otherwise.
fn look<T>(shared: &Shared, look: impl FnOnce(&Lanes) -> T) -> T {
    let lanes = shared.lanes.lock();
    let seen = look(&lanes);
    MutexGuard::unlock_fair(lanes);
    seen
}
