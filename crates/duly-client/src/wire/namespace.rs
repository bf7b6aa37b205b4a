//! Namespaces and their settings.

use duly_proto::v1;

use super::{
    destination::{destination_in, destination_out, retry_in, retry_out},
    time::{duration_from, duration_out, time_from},
};
use crate::{
    error::Error,
    namespace::{Fallback, Limits, Namespace, Settings, SettingsChange, SettingsField},
};

pub(crate) fn settings_out(settings: Settings) -> v1::NamespaceSettings {
    v1::NamespaceSettings {
        destination: settings.destination.map(destination_out),
        fallback: settings.fallback.map(|fallback| v1::Fallback {
            destination: Some(destination_out(fallback.destination)),
            after_attempts: fallback.after_attempts,
            after_open: fallback.after_open.map(duration_out),
        }),
        retry: settings.retry.map(retry_out),
        lease: settings.lease.map(duration_out),
        retention: settings.retention.map(duration_out),
        weight: settings.weight,
        signing_secrets: settings.signing_secrets.map(|secrets| v1::SigningSecrets { secrets }),
        limits: settings.limits.map(limits_out),
    }
}

/// A change of some settings.
pub(crate) fn patch_out(namespace: String, change: SettingsChange) -> v1::PatchNamespaceRequest {
    let reset = change.reset.into_iter().map(|field| match field {
        SettingsField::Destination => v1::NamespaceField::Destination,
        SettingsField::Fallback => v1::NamespaceField::Fallback,
        SettingsField::Retry => v1::NamespaceField::Retry,
        SettingsField::Lease => v1::NamespaceField::Lease,
        SettingsField::Retention => v1::NamespaceField::Retention,
        SettingsField::Weight => v1::NamespaceField::Weight,
        SettingsField::SigningSecrets => v1::NamespaceField::SigningSecrets,
        SettingsField::Limits => v1::NamespaceField::Limits,
    });
    v1::PatchNamespaceRequest {
        namespace,
        reset: reset.map(Into::into).collect(),
        settings: Some(settings_out(change.settings)),
    }
}

fn limits_out(limits: Limits) -> v1::Limits {
    v1::Limits {
        schedule_per_second: limits.schedule_per_second,
        deliver_per_second: limits.deliver_per_second,
        max_in_flight: limits.max_in_flight,
        max_pending: limits.max_pending,
        max_payload_bytes: limits.max_payload_bytes,
        max_delay: limits.max_delay.map(duration_out),
        max_dead: limits.max_dead,
        max_retained: limits.max_retained,
    }
}

fn limits_in(limits: v1::Limits) -> Limits {
    Limits {
        schedule_per_second: limits.schedule_per_second,
        deliver_per_second: limits.deliver_per_second,
        max_in_flight: limits.max_in_flight,
        max_pending: limits.max_pending,
        max_payload_bytes: limits.max_payload_bytes,
        max_delay: limits.max_delay.map(duration_from),
        max_dead: limits.max_dead,
        max_retained: limits.max_retained,
    }
}

fn fallback_in(fallback: v1::Fallback) -> Result<Fallback, Error> {
    let destination = super::required("destination of its fallback", fallback.destination)?;
    Ok(Fallback {
        destination: destination_in(destination)?,
        after_attempts: fallback.after_attempts,
        after_open: fallback.after_open.map(duration_from),
    })
}

pub(crate) fn namespace_in(namespace: v1::Namespace) -> Result<Namespace, Error> {
    let settings = Settings {
        destination: namespace.destination.map(destination_in).transpose()?,
        fallback: namespace.fallback.map(fallback_in).transpose()?,
        retry: namespace.retry.map(retry_in),
        lease: namespace.lease.map(duration_from),
        retention: namespace.retention.map(duration_from),
        weight: Some(namespace.weight),
        signing_secrets: None,
        limits: namespace.limits.map(limits_in),
    };
    Ok(Namespace {
        name: namespace.name,
        paused: namespace.paused,
        resumes_at: namespace.resumes_at.and_then(time_from),
        settings,
        signing_secret_fingerprints: namespace.signing_secret_fingerprints,
        created_at: namespace.created_at.and_then(time_from),
        updated_at: namespace.updated_at.and_then(time_from),
    })
}
