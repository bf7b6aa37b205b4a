//! Which lane a timer belongs to.
//!
//! A timer with a destination of its own belongs to that destination's lane; one without follows
//! the namespace's destination as it is at the time of the claim. The first
//! [`ORIGINS_MAX`] origins that timers name get lanes of their own and keep them while the
//! namespace lives; timers to later ones share the overflow lane. The namespace's own destination
//! never overflows.

use duly_core::{Destination, Timer, destination::LaneKey};

use super::{
    clock::Now,
    space::{Live, Space},
};
use crate::claim::ORIGINS_MAX;

impl Space {
    /// Gives the origin that a timer names a lane, while there are lanes left.
    pub(super) fn learn_origin(&mut self, destination: Option<&Destination>) {
        if let Some(destination @ Destination::Http(_)) = destination
            && self.origins.len() < ORIGINS_MAX
        {
            self.origins.insert(destination.lane_key());
        }
    }

    /// The lane of a timer now.
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

    /// Whether claims are granted here at all.
    pub(super) fn grants(&self) -> bool {
        !self.paused && !self.is_dead_full()
    }

    /// Whether it has as many dead letters as it may have.
    pub(super) fn is_dead_full(&self) -> bool {
        self.dead.len() as u64 >= self.settings.limits.max_dead
    }

    /// Claimable timers of a lane.
    pub(super) fn claimable<'a>(
        &'a self,
        key: &'a LaneKey,
        now: Now,
    ) -> impl Iterator<Item = &'a Live> {
        let live = self.live.values();
        live.filter(move |live| live.is_claimable(now) && self.lane_of(&live.timer) == *key)
    }
}
