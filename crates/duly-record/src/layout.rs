//! The tags of one store's format.

use duly_core::{
    Settings, TimerSpec,
    limits::Limits,
    namespace::SigningSecret,
    schedule::{SlotKey, Tags},
};

use crate::{
    ReadFields, WriteFields,
    values::{
        decode_destination, decode_fallback, decode_headers, decode_limits, decode_retry,
        encode_destination, encode_fallback, encode_headers, encode_limits, encode_retry,
    },
};

/// The tags of one store's format.
#[derive(Debug)]
pub struct Layout {
    /// Tags of the fields of a timer's specification.
    pub spec: SpecTags,
    /// The fields of settings, in the order in which they are written, each with its tag.
    pub settings: &'static [(SettingsField, u8)],
}

/// Tags of the fields of a timer's specification, besides the payload.
#[derive(Debug)]
pub struct SpecTags {
    /// Headers.
    pub headers: u8,
    /// Tags.
    pub tags: u8,
    /// Key by which a broker partitions.
    pub slot_key: u8,
    /// Destination.
    pub destination: u8,
    /// Retry policy.
    pub retry: u8,
    /// Time until it expires.
    pub expire_after: u8,
    /// Trace context.
    pub trace_parent: u8,
}

/// A field of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsField {
    /// The default destination.
    Destination,
    /// The fallback.
    Fallback,
    /// The default retry policy.
    Retry,
    /// The default lease.
    Lease,
    /// The retention.
    Retention,
    /// The weight.
    Weight,
    /// A signing secret; the field is repeated.
    Secret,
    /// All limits, as one value.
    Limits,
    /// The limit of this name.
    SchedulePerSecond,
    /// The limit of this name.
    DeliverPerSecond,
    /// The limit of this name.
    MaxInFlight,
    /// The limit of this name.
    MaxPending,
    /// The limit of this name.
    MaxPayloadBytes,
    /// The limit of this name.
    MaxDelay,
    /// The limit of this name.
    MaxDead,
    /// The limit of this name.
    MaxRetained,
}

impl Layout {
    /// Appends the fields of a specification, besides the payload.
    pub fn encode_spec(&self, w: &mut impl WriteFields, spec: &TimerSpec) {
        let TimerSpec {
            payload: _,
            headers,
            tags,
            slot_key,
            destination,
            retry,
            expire_after,
            trace_parent,
        } = spec;
        let tag = &self.spec;
        let headers = (!headers.is_empty()).then_some(headers);
        w.optional(tag.headers, headers, |w, headers| encode_headers(w, headers));
        let tags = (!tags.is_empty()).then_some(tags.as_slice());
        w.optional(tag.tags, tags, |w, tags| tags.iter().for_each(|tag| w.text(tag)));
        w.optional(tag.slot_key, slot_key.as_ref(), |w, key| w.raw(key.as_str().as_bytes()));
        w.optional(tag.destination, destination.as_ref(), |w, to| encode_destination(w, to));
        w.optional(tag.retry, retry.as_ref(), |w, retry| encode_retry(w, retry));
        w.optional(tag.expire_after, *expire_after, |w, after| w.number(after.ms()));
        w.optional(tag.trace_parent, trace_parent.as_ref(), |w, trace| w.raw(trace.as_bytes()));
    }

    /// Decodes a field of a specification. Returns `false` for a tag of another field.
    ///
    /// # Errors
    /// For bytes that the format does not write.
    pub fn decode_spec<'a, R: ReadFields<'a>>(
        &self,
        tag: u8,
        field: &mut R,
        spec: &mut TimerSpec,
    ) -> Result<bool, R::Error> {
        let known = &self.spec;
        match tag {
            _ if tag == known.headers => spec.headers = decode_headers(field)?,
            _ if tag == known.tags => {
                let mut tags = Vec::new();
                while !field.is_done() {
                    tags.push(field.text()?.to_owned());
                }
                spec.tags = Tags::from_stored(tags);
            }
            _ if tag == known.slot_key => {
                spec.slot_key = Some(SlotKey::from_stored(field.rest_text()?));
            }
            _ if tag == known.destination => spec.destination = Some(decode_destination(field)?),
            _ if tag == known.retry => spec.retry = Some(decode_retry(field)?),
            _ if tag == known.expire_after => spec.expire_after = Some(field.millis()?),
            _ if tag == known.trace_parent => spec.trace_parent = Some(field.rest_text()?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends the fields of settings.
    pub fn encode_settings(&self, w: &mut impl WriteFields, settings: &Settings) {
        let Settings {
            destination,
            fallback,
            retry,
            lease,
            retention,
            weight,
            signing_secrets,
            limits,
        } = settings;
        let Limits {
            schedule_per_second,
            deliver_per_second,
            max_in_flight,
            max_pending,
            max_payload_bytes,
            max_delay,
            max_dead,
            max_retained,
        } = limits;
        for &(field, tag) in self.settings {
            match field {
                SettingsField::Destination => w.field(tag, |w| encode_destination(w, destination)),
                SettingsField::Fallback => {
                    w.optional(tag, fallback.as_ref(), |w, second| encode_fallback(w, second));
                }
                SettingsField::Retry => w.field(tag, |w| encode_retry(w, retry)),
                SettingsField::Lease => w.field(tag, |w| w.number(lease.ms())),
                SettingsField::Retention => w.field(tag, |w| w.number(retention.ms())),
                SettingsField::Weight => w.field(tag, |w| w.count(*weight)),
                SettingsField::Secret => {
                    for secret in signing_secrets {
                        w.field(tag, |w| w.raw(secret.reveal().as_bytes()));
                    }
                }
                SettingsField::Limits => w.field(tag, |w| encode_limits(w, limits)),
                SettingsField::SchedulePerSecond => {
                    w.optional(tag, *schedule_per_second, |w, limit| w.count(limit));
                }
                SettingsField::DeliverPerSecond => {
                    w.optional(tag, *deliver_per_second, |w, limit| w.count(limit));
                }
                SettingsField::MaxInFlight => w.field(tag, |w| w.count(*max_in_flight)),
                SettingsField::MaxPending => {
                    w.optional(tag, *max_pending, |w, limit| w.number(limit));
                }
                SettingsField::MaxPayloadBytes => w.field(tag, |w| w.number(*max_payload_bytes)),
                SettingsField::MaxDelay => {
                    w.optional(tag, *max_delay, |w, limit| w.number(limit.ms()));
                }
                SettingsField::MaxDead => w.field(tag, |w| w.number(*max_dead)),
                SettingsField::MaxRetained => w.field(tag, |w| w.number(*max_retained)),
            }
        }
    }

    /// Decodes a field of settings. Returns `false` for a tag of another field.
    ///
    /// # Errors
    /// For bytes that the format does not write.
    pub fn decode_settings<'a, R: ReadFields<'a>>(
        &self,
        tag: u8,
        r: &mut R,
        settings: &mut Settings,
    ) -> Result<bool, R::Error> {
        let Some((field, _)) = self.settings.iter().find(|(_, known)| *known == tag) else {
            return Ok(false);
        };
        let limits = &mut settings.limits;
        match field {
            SettingsField::Destination => settings.destination = decode_destination(r)?,
            SettingsField::Fallback => settings.fallback = Some(decode_fallback(r)?),
            SettingsField::Retry => settings.retry = decode_retry(r)?,
            SettingsField::Lease => settings.lease = r.millis()?,
            SettingsField::Retention => settings.retention = r.millis()?,
            SettingsField::Weight => settings.weight = r.count()?,
            SettingsField::Secret => {
                settings.signing_secrets.push(SigningSecret::new(&r.rest_text()?)?);
            }
            SettingsField::Limits => *limits = decode_limits(r)?,
            SettingsField::SchedulePerSecond => limits.schedule_per_second = Some(r.count()?),
            SettingsField::DeliverPerSecond => limits.deliver_per_second = Some(r.count()?),
            SettingsField::MaxInFlight => limits.max_in_flight = r.count()?,
            SettingsField::MaxPending => limits.max_pending = Some(r.number()?),
            SettingsField::MaxPayloadBytes => limits.max_payload_bytes = r.number()?,
            SettingsField::MaxDelay => limits.max_delay = Some(r.millis()?),
            SettingsField::MaxDead => limits.max_dead = r.number()?,
            SettingsField::MaxRetained => limits.max_retained = r.number()?,
        }
        Ok(true)
    }
}
