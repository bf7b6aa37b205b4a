//! Settings of a namespace as a few fields for the scripts, beside the packed blob for Rust.

use duly_core::{Settings, destination::LaneKey};
use duly_record::packed::{Result, Unreadable, encode_settings};

/// The largest integer that Lua represents exactly; in effect no limit.
pub(crate) const LUA_MAX: u64 = 1 << 53;

/// Returns a lane's key as the scripts know it: `P`, `V`, or `O` and the receiver.
pub(crate) fn lane_name(key: &LaneKey) -> String {
    match key {
        LaneKey::Pull => "P".to_owned(),
        LaneKey::Overflow => "V".to_owned(),
        LaneKey::Receiver(receiver) => format!("O{receiver}"),
    }
}

/// Parses the key of a lane that a script named.
pub(crate) fn lane_key(name: &str) -> Result<LaneKey> {
    match (name, name.strip_prefix('O')) {
        ("P", _) => Ok(LaneKey::Pull),
        ("V", _) => Ok(LaneKey::Overflow),
        (_, Some(receiver)) => Ok(LaneKey::Receiver(receiver.into())),
        _ => Err(Unreadable::Impossible(format!("there is no lane {name:?}"))),
    }
}

/// Returns the fields that scripts read of the settings, in one of `shards` shards: name and value,
/// empty for none.
///
/// Limits are split: the quotas of `max_pending` and `max_dead` add up to the limit and move between the
/// shards (`quota.rs`). Those of `max_retained` are rounded up and stay. `schedule_per_second` is not
/// split: the coordinator shard keeps it whole (`rate.rs`). Values above [`LUA_MAX`] become [`LUA_MAX`].
pub(crate) fn fields(settings: &Settings, shard: u16, shards: u16) -> Vec<(&'static str, Vec<u8>)> {
    let limits = &settings.limits;
    let text = |value: u64| value.min(LUA_MAX).to_string().into_bytes();
    let (shard, shards) = (u64::from(shard), u64::from(shards.max(1)));
    let share = |limit: u64| even_split(limit.min(LUA_MAX), shard, shards);
    let rate = limits.schedule_per_second.map(u64::from);
    vec![
        ("settings", encode_settings(settings)),
        ("dest", lane_name(&settings.destination.lane_key()).into_bytes()),
        ("lease", text(settings.lease.ms())),
        ("retention", text(settings.retention.ms())),
        ("max_payload", text(limits.max_payload_bytes)),
        ("max_delay", limits.max_delay.map_or_else(Vec::new, |delay| text(delay.ms()))),
        ("a_pending", limits.max_pending.map_or_else(Vec::new, |max| text(share(max)))),
        ("a_dead", text(share(limits.max_dead))),
        ("max_pending", limits.max_pending.map_or_else(Vec::new, text)),
        ("max_dead", text(limits.max_dead)),
        ("a_retained", text(limits.max_retained.div_ceil(shards))),
        ("rate", rate.map_or_else(Vec::new, text)),
    ]
}

/// Returns the even split of a limit for one shard. With a larger limit no shard gets less.
pub(crate) const fn even_split(limit: u64, shard: u64, shards: u64) -> u64 {
    limit / shards + (shard < limit % shards) as u64
}
