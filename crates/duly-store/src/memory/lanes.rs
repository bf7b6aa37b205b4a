//! The lane of a timer.
//!
//! 1. A timer with its own destination belongs to the lane of that destination.
//! 2. A timer without one belongs to the lane of the namespace's destination at the time of the claim.
//! 3. The first [`ORIGINS_MAX`] origins of timers get lanes of their own, and keep them while the namespace
//!    exists. Timers to later origins share the overflow lane.
//! 4. The namespace's own destination never overflows.

use duly_core::{Destination, Timer, destination::LaneKey};

use super::{
    clock::ClockReading,
    namespace_state::{LiveTimer, NamespaceState},
};
use crate::claim::ORIGINS_MAX;

impl NamespaceState {
    /// Gives a lane to the origin of a timer's destination, while there are lanes left.
    pub(super) fn add_origin(&mut self, destination: Option<&Destination>) {
        if let Some(destination @ Destination::Http(_)) = destination
            && self.origins.len() < ORIGINS_MAX
        {
            self.origins.insert(destination.lane_key());
        }
    }

    /// Returns the present lane of a timer.
    pub(super) fn lane_of(&self, timer: &Timer) -> LaneKey {
        match &timer.spec.destination {
            None => self.settings.destination.lane_key(),
            Some(Destination::Pull) => LaneKey::Pull,
            Some(http @ Destination::Http(_)) => {
                let key = http.lane_key();
                if self.origins.contains(&key) { key } else { LaneKey::Overflow }
            }
        }
    }

    /// Returns `true` if the namespace grants claims.
    pub(super) fn grants_claims(&self) -> bool {
        !self.paused && !self.is_dead_full()
    }

    /// Returns `true` if the namespace has reached its limit of dead letters.
    pub(super) fn is_dead_full(&self) -> bool {
        self.dead.len() as u64 >= self.settings.limits.max_dead
    }

    /// Returns the claimable timers of a lane.
    pub(super) fn claimable<'a>(
        &'a self,
        key: &'a LaneKey,
        now: ClockReading,
    ) -> impl Iterator<Item = &'a LiveTimer> {
        let live = self.live.values();
        live.filter(move |live| live.is_claimable(now) && self.lane_of(&live.timer) == *key)
    }
}
