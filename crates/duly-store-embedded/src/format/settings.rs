//! Body of a namespace's record: name, times, totals, then its settings as tagged fields.

use std::sync::Arc;

use duly_core::totals::Totals;
use duly_core::{
    Millis, NamespaceName, Settings,
    limits::Limits,
    namespace::{Fallback, SigningSecret},
};

use super::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
    record::NamespaceRecord,
    timer,
};

const DESTINATION: u8 = 1;
const RETRY: u8 = 2;
const LEASE: u8 = 3;
const RETENTION: u8 = 4;
const WEIGHT: u8 = 5;
const SECRET: u8 = 6;
const LIMITS: u8 = 7;
const FALLBACK: u8 = 8;
const RESUMES_AT: u8 = 9;
const IMPLICIT: u8 = 10;

pub(super) fn encode_namespace(w: &mut FieldWriter<'_>, namespace: &NamespaceRecord) {
    w.text(namespace.name.as_str());
    w.u8(u8::from(namespace.paused));
    w.time(namespace.created_at);
    w.time(namespace.updated_at);
    let totals = &namespace.totals;
    for total in [
        totals.scheduled,
        totals.fired,
        totals.delivered,
        totals.failed,
        totals.cancelled,
        totals.rescheduled,
        totals.dead,
    ] {
        w.u64(total);
    }
    let settings = &namespace.settings;
    w.field(DESTINATION, |w| timer::encode_destination(w, &settings.destination));
    w.field(RETRY, |w| timer::encode_retry(w, &settings.retry));
    w.field(LEASE, |w| w.u64(settings.lease.ms()));
    w.field(RETENTION, |w| w.u64(settings.retention.ms()));
    w.field(WEIGHT, |w| w.u32(settings.weight));
    for secret in &settings.signing_secrets {
        w.field(SECRET, |w| w.raw(secret.reveal().as_bytes()));
    }
    w.field(LIMITS, |w| encode_limits(w, &settings.limits));
    w.optional(FALLBACK, settings.fallback.as_ref(), encode_fallback);
    w.optional(RESUMES_AT, namespace.resumes_at, |w, at| w.time(at));
    if namespace.implicit {
        w.field(IMPLICIT, |_| {});
    }
    w.end();
}

pub(crate) fn decode_namespace(r: &mut FieldReader<'_>) -> Result<NamespaceRecord, DecodeError> {
    let name = NamespaceName::new(r.text()?)?;
    let paused = r.u8()? != 0;
    let (created_at, updated_at) = (r.time()?, r.time()?);
    let totals = Totals {
        scheduled: r.u64()?,
        fired: r.u64()?,
        delivered: r.u64()?,
        failed: r.u64()?,
        cancelled: r.u64()?,
        rescheduled: r.u64()?,
        dead: r.u64()?,
    };
    let mut settings = Settings::default();
    let (mut resumes_at, mut implicit) = (None, false);
    while let Some((tag, mut field)) = r.field()? {
        match tag {
            DESTINATION => settings.destination = timer::decode_destination(&mut field)?,
            RETRY => settings.retry = timer::decode_retry(&mut field)?,
            LEASE => settings.lease = field.millis()?,
            RETENTION => settings.retention = field.millis()?,
            WEIGHT => settings.weight = field.u32()?,
            SECRET => {
                settings.signing_secrets.push(SigningSecret::new(&timer::utf8(field.rest())?)?);
            }
            LIMITS => settings.limits = decode_limits(&mut field)?,
            RESUMES_AT => resumes_at = Some(field.time()?),
            IMPLICIT => implicit = true,
            FALLBACK => settings.fallback = Some(decode_fallback(&mut field)?),
            other => return Err(timer::unknown_tag(other)),
        }
    }
    Ok(NamespaceRecord {
        name,
        settings: Arc::new(settings),
        paused,
        resumes_at,
        implicit,
        created_at,
        updated_at,
        totals,
    })
}

fn encode_fallback(w: &mut FieldWriter<'_>, fallback: &Fallback) {
    w.u32(fallback.after_attempts);
    w.u64(fallback.after_open.ms());
    timer::encode_destination(w, &fallback.destination);
}

fn decode_fallback(r: &mut FieldReader<'_>) -> Result<Fallback, DecodeError> {
    let (after_attempts, after_open) = (r.u32()?, r.millis()?);
    let destination = timer::decode_destination(r)?;
    if destination.is_pull() {
        return Err(DecodeError::Impossible("consumers as a fallback".into()));
    }
    Ok(Fallback { destination, after_attempts, after_open })
}

/// Encodes limits; `None` is written as the largest number.
fn encode_limits(w: &mut FieldWriter<'_>, limits: &Limits) {
    w.u32(limits.schedule_per_second.unwrap_or(u32::MAX));
    w.u32(limits.deliver_per_second.unwrap_or(u32::MAX));
    w.u32(limits.max_in_flight);
    w.u64(limits.max_pending.unwrap_or(u64::MAX));
    w.u64(limits.max_payload_bytes);
    w.u64(limits.max_delay.map_or(u64::MAX, Millis::ms));
    w.u64(limits.max_dead);
    w.u64(limits.max_retained);
}

fn decode_limits(r: &mut FieldReader<'_>) -> Result<Limits, DecodeError> {
    let (schedule, deliver) = (r.u32()?, r.u32()?);
    let max_in_flight = r.u32()?;
    let max_pending = r.u64()?;
    let max_payload_bytes = r.u64()?;
    let max_delay = r.u64()?;
    Ok(Limits {
        schedule_per_second: (schedule != u32::MAX).then_some(schedule),
        deliver_per_second: (deliver != u32::MAX).then_some(deliver),
        max_in_flight,
        max_pending: (max_pending != u64::MAX).then_some(max_pending),
        max_payload_bytes,
        max_delay: (max_delay != u64::MAX).then(|| Millis::from_ms(max_delay)),
        max_dead: r.u64()?,
        max_retained: r.u64()?,
    })
}
