//! The line of the shards that want slots of the same lane: start-time fair queueing.
//!
//! All shards of a lane are one queue to its receiver, so slots go where firings wait: of two shards
//! that wait all the time, the one with three times as many firings gets three times as many slots,
//! and none is much later than the other. A shard stands further back by the part of its firings that
//! was served. One that comes new stands beside the first, not before it.
//!
//! A slot is left to a shard before another only for [`CALLED_FOR`]: a shard whose store does not
//! answer holds up no other. P. Goyal, H. Vin, H. Cheng: "Start-time fair queuing" (1996).

use std::time::Duration;

/// How long a slot is left to a shard that stands further in front.
pub(super) const CALLED_FOR: Duration = Duration::from_millis(20);
/// The way back of a shard whose firings were all served.
const WHOLE: u64 = 1 << 20;

/// A shard's place in the line of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// Lower is earlier.
    number: u64,
    /// When a shard further back first left a slot to this one since it was last planned.
    called_at: Option<Duration>,
}

impl Place {
    /// Returns the place after `got` of `wanted` firings were served.
    pub(super) fn after(self, got: usize, wanted: usize) -> Self {
        let part = WHOLE.saturating_mul(got as u64) / (wanted as u64).max(1);
        Self { number: self.number.saturating_add(part), called_at: None }
    }
}

/// Returns a shard's place, and how many of the lane's `free` slots it may have: its part of them, by
/// what all shards want, without those that are left to shards before it.
///
/// `own` is its place if it stands in line already, `demand` what it wants; `others` are the places of
/// the others in line, with what they want.
pub(super) fn turn(
    own: Option<Place>,
    demand: usize,
    free: usize,
    others: &mut [(&mut Place, usize)],
    now: Duration,
) -> (Place, usize) {
    let first = others.iter().map(|(place, _)| place.number).min().unwrap_or(0);
    let own = own.unwrap_or(Place { number: first, called_at: None });
    let all = others.iter().fold(demand, |all, (_, wanted)| all.saturating_add(*wanted));
    if all <= free {
        return (own, free);
    }
    let part = |wanted: usize| free.saturating_mul(wanted).div_ceil(all);
    let mut left = 0;
    for (place, wanted) in others {
        if place.number < own.number && now < *place.called_at.get_or_insert(now) + CALLED_FOR {
            left += part(*wanted);
        }
    }
    (own, free.saturating_sub(left).min(part(demand)))
}

#[cfg(test)]
mod tests;
