//! Settings of a namespace, in and out.

use duly_core::{Invalid, limits::Limits, namespace::SigningSecret};
use duly_proto::v1;
use duly_store::namespaces::Namespace;

use super::{
    super::{FallbackIn, Field, LimitsIn, NamespaceIn},
    destination::{destination_in, destination_out, http_out},
    known,
    operation::{given, integer, reset},
    retry::{retry_in, retry_out},
    time::{duration_out, maybe_duration_in, time_out},
};

/// Where the settings stand in their message; [`NamespaceIn`] does not know.
pub(crate) const SETTINGS: &str = "settings";

/// Settings as a caller wrote them.
pub(crate) fn settings_in(settings: Option<v1::NamespaceSettings>) -> Result<NamespaceIn, Invalid> {
    values(settings.unwrap_or_default()).map_err(|invalid| invalid.within(SETTINGS))
}

/// A change of settings as a caller wrote it, with those that go back to their defaults.
pub(crate) fn change_in(
    settings: Option<v1::NamespaceSettings>,
    resets: Vec<i32>,
) -> Result<NamespaceIn, Invalid> {
    let mut read = settings_in(settings)?;
    for (i, number) in resets.into_iter().enumerate() {
        let field = format!("reset[{i}]");
        match known(&field, number)? {
            v1::NamespaceField::Unspecified => {
                return Err(Invalid::unseen(field, "the name of a field"));
            }
            v1::NamespaceField::Destination => {
                reset(&mut read.destination, field, "destination")?;
            }
            v1::NamespaceField::Fallback => reset(&mut read.fallback, field, "fallback")?,
            v1::NamespaceField::Retry => reset(&mut read.retry, field, "retry")?,
            v1::NamespaceField::Lease => reset(&mut read.lease, field, "lease")?,
            v1::NamespaceField::Retention => reset(&mut read.retention, field, "retention")?,
            v1::NamespaceField::Weight => reset(&mut read.weight, field, "weight")?,
            v1::NamespaceField::SigningSecrets => {
                reset(&mut read.signing_secrets, field, "signing_secrets")?;
            }
            v1::NamespaceField::Limits => reset(&mut read.limits, field, "limits")?,
        }
    }
    if !read.has_any() {
        return Err(Invalid::unseen(SETTINGS, "given with a field to change, or reset with one"));
    }
    Ok(read)
}

fn values(settings: v1::NamespaceSettings) -> Result<NamespaceIn, Invalid> {
    let destination = settings.destination.map(|it| destination_in("destination", it));
    let duration = |name: &str, it| maybe_duration_in(name, it).map(given);
    Ok(NamespaceIn {
        destination: given(destination.transpose()?),
        fallback: given(settings.fallback.map(fallback_in).transpose()?),
        retry: given(settings.retry.map(|it| retry_in("retry", it)).transpose()?),
        lease: duration("lease", settings.lease)?,
        retention: duration("retention", settings.retention)?,
        weight: given(integer(settings.weight)),
        signing_secrets: settings
            .signing_secrets
            .map_or(Field::Absent, |it| Field::Value(it.secrets)),
        limits: given(settings.limits.map(limits_in).transpose()?),
    })
}

fn fallback_in(fallback: v1::Fallback) -> Result<FallbackIn, Invalid> {
    let destination = fallback.destination.unwrap_or_default();
    Ok(FallbackIn {
        destination: destination_in("fallback.destination", destination)?,
        after_attempts: integer(fallback.after_attempts),
        after_open: maybe_duration_in("fallback.after_open", fallback.after_open)?,
    })
}

fn limits_in(limits: v1::Limits) -> Result<LimitsIn, Invalid> {
    Ok(LimitsIn {
        schedule_per_second: integer(limits.schedule_per_second),
        deliver_per_second: integer(limits.deliver_per_second),
        max_in_flight: integer(limits.max_in_flight),
        max_pending: integer(limits.max_pending),
        max_payload_bytes: integer(limits.max_payload_bytes),
        max_delay: maybe_duration_in("limits.max_delay", limits.max_delay)?,
        max_dead: integer(limits.max_dead),
        max_retained: integer(limits.max_retained),
    })
}

/// A namespace in an answer. Secrets are never in it, only their fingerprints.
pub(crate) fn namespace_out(namespace: &Namespace) -> v1::Namespace {
    let settings = &namespace.settings;
    v1::Namespace {
        name: namespace.name.to_string(),
        paused: namespace.paused,
        resumes_at: namespace.resumes_at.map(time_out),
        destination: Some(destination_out(&settings.destination)),
        fallback: settings.fallback.as_ref().map(|fallback| v1::Fallback {
            destination: Some(http_out(&fallback.destination)),
            after_attempts: Some(fallback.after_attempts),
            after_open: Some(duration_out(fallback.after_open)),
        }),
        retry: Some(retry_out(&settings.retry)),
        lease: Some(duration_out(settings.lease)),
        retention: Some(duration_out(settings.retention)),
        weight: settings.weight,
        signing_secret_fingerprints: settings
            .signing_secrets
            .iter()
            .map(SigningSecret::fingerprint)
            .collect(),
        limits: Some(limits_out(&settings.limits)),
        created_at: Some(time_out(namespace.created_at)),
        updated_at: Some(time_out(namespace.updated_at)),
    }
}

fn limits_out(limits: &Limits) -> v1::Limits {
    v1::Limits {
        schedule_per_second: limits.schedule_per_second,
        deliver_per_second: limits.deliver_per_second,
        max_in_flight: Some(limits.max_in_flight),
        max_pending: limits.max_pending,
        max_payload_bytes: Some(limits.max_payload_bytes),
        max_delay: limits.max_delay.map(duration_out),
        max_dead: Some(limits.max_dead),
        max_retained: Some(limits.max_retained),
    }
}
