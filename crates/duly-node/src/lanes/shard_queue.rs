//! The queue of the shards that want slots of the same lane: start-time fair queueing.
//!
//! All shards of a lane share one receiver. So slots are shared by the number of firings that wait:
//!
//! 1. Of two shards that always wait, the one with three times as many firings gets three times as many
//!    slots, and neither is much later than the other.
//! 2. The place of a shard is a number (the *start tag*). It grows by the part of the shard's firings
//!    that was served; the lowest number is served first.
//! 3. A new shard gets the number of the first shard, so it does not overtake it.
//! 4. A slot is reserved for an earlier shard for at most [`RESERVED_FOR`]. So a shard whose store does
//!    not answer delays no other.
//!
//! P. Goyal, H. Vin, H. Cheng: "Start-time fair queuing" (1996).

use std::time::Duration;

/// Time for which a slot stays reserved for a shard with an earlier place.
pub(super) const RESERVED_FOR: Duration = Duration::from_millis(20);
/// Increase of the place of a shard whose firings were all served.
const WHOLE: u64 = 1 << 20;

/// A shard's place in the queue of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct QueuePlace {
    /// The start tag; the lowest is served first.
    number: u64,
    /// Time at which a later shard first left a slot to this one since it was last planned.
    reserved_at: Option<Duration>,
}

impl QueuePlace {
    /// Returns the place after `got` of `wanted` firings were served.
    pub(super) fn after(self, got: usize, wanted: usize) -> Self {
        let part = WHOLE.saturating_mul(got as u64) / (wanted as u64).max(1);
        Self { number: self.number.saturating_add(part), reserved_at: None }
    }
}

/// Returns a shard's place, and how many of the lane's `free` slots it may take. That is its part of
/// them by the demand of all shards, without those that are reserved for earlier shards.
///
/// `own` is the shard's place if it is queued already, and `demand` its demand. `others` has the place
/// and the demand of each other queued shard.
pub(super) fn allowed_slots(
    own: Option<QueuePlace>,
    demand: usize,
    free: usize,
    others: &mut [(&mut QueuePlace, usize)],
    now: Duration,
) -> (QueuePlace, usize) {
    let first = others.iter().map(|(place, _)| place.number).min().unwrap_or(0);
    let own = own.unwrap_or(QueuePlace { number: first, reserved_at: None });
    let all = others.iter().fold(demand, |all, (_, wanted)| all.saturating_add(*wanted));
    if all <= free {
        return (own, free);
    }
    let part = |wanted: usize| free.saturating_mul(wanted).div_ceil(all);
    let mut left = 0;
    for (place, wanted) in others {
        if place.number < own.number && now < *place.reserved_at.get_or_insert(now) + RESERVED_FOR {
            left += part(*wanted);
        }
    }
    (own, free.saturating_sub(left).min(part(demand)))
}

#[cfg(test)]
mod tests;
