//! Settings of a namespace: encoded as a blob for Rust, and as a few fields for the scripts.

use duly_core::{
    Millis, Settings,
    destination::LaneKey,
    limits::Limits,
    namespace::{Fallback, SigningSecret},
};

use crate::record::{
    content::{decode_destination, decode_retry, encode_destination, encode_retry, unknown_field},
    fields::{Reader, Result, Unreadable, Writer},
};

/// The largest integer that Lua represents exactly; in effect no limit.
pub(crate) const LUA_MAX: u64 = 1 << 53;

const DESTINATION: u8 = 1;
const FALLBACK: u8 = 2;
const RETRY: u8 = 3;
const LEASE: u8 = 4;
const RETENTION: u8 = 5;
const WEIGHT: u8 = 6;
const SECRET: u8 = 7;
const SCHEDULE_PER_SECOND: u8 = 8;
const DELIVER_PER_SECOND: u8 = 9;
const MAX_IN_FLIGHT: u8 = 10;
const MAX_PENDING: u8 = 11;
const MAX_PAYLOAD_BYTES: u8 = 12;
const MAX_DELAY: u8 = 13;
const MAX_DEAD: u8 = 14;
const MAX_RETAINED: u8 = 15;

pub(crate) fn encode(settings: &Settings) -> Vec<u8> {
    let mut w = Writer::default();
    w.field(DESTINATION, |w| encode_destination(w, &settings.destination));
    if let Some(fallback) = &settings.fallback {
        w.field(FALLBACK, |w| {
            w.number(u64::from(fallback.after_attempts));
            w.number(fallback.after_open.ms());
            encode_destination(w, &fallback.destination);
        });
    }
    w.field(RETRY, |w| encode_retry(w, &settings.retry));
    let mut number = |tag, value: Option<u64>| {
        if let Some(value) = value {
            w.field(tag, |w| w.number(value));
        }
    };
    let limits = &settings.limits;
    number(LEASE, Some(settings.lease.ms()));
    number(RETENTION, Some(settings.retention.ms()));
    number(WEIGHT, Some(u64::from(settings.weight)));
    number(SCHEDULE_PER_SECOND, limits.schedule_per_second.map(u64::from));
    number(DELIVER_PER_SECOND, limits.deliver_per_second.map(u64::from));
    number(MAX_IN_FLIGHT, Some(u64::from(limits.max_in_flight)));
    number(MAX_PENDING, limits.max_pending);
    number(MAX_PAYLOAD_BYTES, Some(limits.max_payload_bytes));
    number(MAX_DELAY, limits.max_delay.map(Millis::ms));
    number(MAX_DEAD, Some(limits.max_dead));
    number(MAX_RETAINED, Some(limits.max_retained));
    for secret in &settings.signing_secrets {
        w.field(SECRET, |w| w.raw(secret.reveal().as_bytes()));
    }
    w.0
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Settings> {
    let mut settings = Settings { limits: Limits::default(), ..Settings::default() };
    let mut r = Reader(bytes);
    while let Some((tag, mut field)) = r.field()? {
        let limits = &mut settings.limits;
        match tag {
            DESTINATION => settings.destination = decode_destination(&mut field)?,
            FALLBACK => settings.fallback = Some(decode_fallback(&mut field)?),
            RETRY => settings.retry = decode_retry(&mut field)?,
            LEASE => settings.lease = field.millis()?,
            RETENTION => settings.retention = field.millis()?,
            WEIGHT => settings.weight = field.small()?,
            SECRET => settings.signing_secrets.push(SigningSecret::new(&field.rest_text()?)?),
            SCHEDULE_PER_SECOND => limits.schedule_per_second = Some(field.small()?),
            DELIVER_PER_SECOND => limits.deliver_per_second = Some(field.small()?),
            MAX_IN_FLIGHT => limits.max_in_flight = field.small()?,
            MAX_PENDING => limits.max_pending = Some(field.number()?),
            MAX_PAYLOAD_BYTES => limits.max_payload_bytes = field.number()?,
            MAX_DELAY => limits.max_delay = Some(field.millis()?),
            MAX_DEAD => limits.max_dead = field.number()?,
            MAX_RETAINED => limits.max_retained = field.number()?,
            other => return Err(unknown_field(other)),
        }
    }
    Ok(settings)
}

fn decode_fallback(r: &mut Reader<'_>) -> Result<Fallback> {
    let (after_attempts, after_open) = (r.small()?, r.millis()?);
    let destination = decode_destination(r)?;
    if destination.is_pull() {
        return Err(Unreadable::Impossible("consumers as a fallback".to_owned()));
    }
    Ok(Fallback { destination, after_attempts, after_open })
}

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
        ("settings", encode(settings)),
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
