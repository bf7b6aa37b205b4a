//! Namespaces on the wire.
//!
//! One body serves PUT and PATCH. In a PUT an absent field is the default, but absent
//! `signing_secrets` keep those that are there. In a PATCH an absent field keeps, `null` resets to
//! the default, and a value replaces the field whole: `retry` and `limits` too.

use duly_core::{
    Destination, Invalid, RetryPolicy, Settings,
    limits::Limits,
    namespace::{
        Fallback, LEASE_DEFAULT, LEASE_MAX, LEASE_MIN, RETENTION_DEFAULT, RETENTION_MAX,
        SIGNING_SECRETS_MAX, SigningSecret, WEIGHT_MAX,
    },
};
use duly_core::{Millis, schedule::Change};
use duly_store::namespaces::{Namespace, Put, Repaired, Secrets};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    DestinationIn, DestinationOut, Duration, DurationOut, FallbackIn, FallbackOut, Field, Integer,
    LimitsIn, LimitsOut, RetryIn, RetryOut, Time, TimeOut,
};

/// Settings of a namespace, all optional.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = NamespaceSettings)]
pub struct NamespaceIn {
    /// Where firings go whose timer names no destination; default pull.
    #[schema(value_type = Option<DestinationIn>)]
    #[serde(default)]
    pub(super) destination: Field<DestinationIn>,
    /// Where webhooks go whose own receiver does not take them; default nowhere.
    #[schema(value_type = Option<FallbackIn>)]
    #[serde(default)]
    pub(super) fallback: Field<FallbackIn>,
    /// Retry policy of timers that name none.
    #[schema(value_type = Option<RetryIn>)]
    #[serde(default)]
    pub(super) retry: Field<RetryIn>,
    /// Lease of a claim that names none, 1s to 12h, default 30s.
    #[schema(value_type = Option<Duration>)]
    #[serde(default)]
    pub(super) lease: Field<Duration>,
    /// How long tombstones of ended timers are kept, default 1d.
    #[schema(value_type = Option<Duration>)]
    #[serde(default)]
    pub(super) retention: Field<Duration>,
    /// Share when workers are scarce, 1 to 1000, default 1.
    #[schema(value_type = Option<Integer>)]
    #[serde(default)]
    pub(super) weight: Field<Integer>,
    /// Secrets that webhooks are signed with (`whsec_` + base64), two during a rotation. Never
    /// shown again.
    #[schema(value_type = Option<Vec<String>>)]
    #[serde(default)]
    pub(super) signing_secrets: Field<Vec<String>>,
    /// Limits.
    #[schema(value_type = Option<LimitsIn>)]
    #[serde(default)]
    pub(super) limits: Field<LimitsIn>,
}

/// When a paused namespace goes on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
#[schema(as = Resume)]
pub struct ResumeIn {
    /// It stays paused until then; at once when left out, or when that has passed.
    #[schema(value_type = Option<Time>)]
    pub at: Option<Time>,
}

/// The fields, checked.
struct Checked {
    destination: Change<Destination>,
    fallback: Change<Fallback>,
    retry: Change<RetryPolicy>,
    lease: Change<Millis>,
    retention: Change<Millis>,
    weight: Change<u32>,
    signing_secrets: Change<Vec<SigningSecret>>,
    limits: Change<Limits>,
}

impl NamespaceIn {
    /// What a PUT writes.
    ///
    /// # Errors
    /// When a value is not allowed.
    pub fn into_put(self) -> Result<Put, Invalid> {
        let secrets = if self.signing_secrets.is_present() { Secrets::Set } else { Secrets::Keep };
        let settings = self.check()?.over(Settings::default()).check()?;
        Ok(Put::Replace { settings: Box::new(settings), secrets })
    }

    /// What a PATCH of `present` writes.
    ///
    /// # Errors
    /// When a value is not allowed, or there is none.
    pub fn into_patch(self, present: &Settings) -> Result<Put, Invalid> {
        if !self.has_any() {
            return Err(Invalid::new("body", "{}", "an object with a field to change"));
        }
        let settings = self.check()?.over(present.clone()).check()?;
        Ok(Put::Replace { settings: Box::new(settings), secrets: Secrets::Set })
    }

    pub(super) const fn has_any(&self) -> bool {
        self.destination.is_present()
            || self.fallback.is_present()
            || self.retry.is_present()
            || self.lease.is_present()
            || self.retention.is_present()
            || self.weight.is_present()
            || self.signing_secrets.is_present()
            || self.limits.is_present()
    }

    fn check(self) -> Result<Checked, Invalid> {
        Ok(Checked {
            destination: self.destination.into_change(|d| d.check("destination"))?,
            fallback: self.fallback.into_change(|f| f.check("fallback"))?,
            retry: self.retry.into_change(|r| r.check("retry"))?,
            lease: self
                .lease
                .into_change(|lease| lease.check_within("lease", LEASE_MIN, LEASE_MAX))?,
            retention: self
                .retention
                .into_change(|r| r.check_within("retention", Millis::ZERO, RETENTION_MAX))?,
            weight: self.weight.into_change(|weight| weight.within_u32("weight", 1, WEIGHT_MAX))?,
            signing_secrets: self.signing_secrets.into_change(check_secrets)?,
            limits: self.limits.into_change(|limits| limits.check("limits"))?,
        })
    }
}

impl Checked {
    fn over(self, mut settings: Settings) -> Settings {
        self.destination.write_to(&mut settings.destination);
        self.fallback.write_to_option(&mut settings.fallback);
        self.retry.write_to(&mut settings.retry);
        or_default(self.lease, LEASE_DEFAULT, &mut settings.lease);
        or_default(self.retention, RETENTION_DEFAULT, &mut settings.retention);
        or_default(self.weight, 1, &mut settings.weight);
        self.signing_secrets.write_to(&mut settings.signing_secrets);
        self.limits.write_to(&mut settings.limits);
        settings
    }
}

/// For fields whose default is not their type's.
fn or_default<T>(change: Change<T>, default: T, field: &mut T) {
    match change {
        Change::Keep => {}
        Change::Reset => *field = default,
        Change::Set(value) => *field = value,
    }
}

fn check_secrets(texts: Vec<String>) -> Result<Vec<SigningSecret>, Invalid> {
    if texts.len() > SIGNING_SECRETS_MAX {
        return Err(Invalid::new(
            "signing_secrets",
            format!("{} secrets", texts.len()),
            format!("at most {SIGNING_SECRETS_MAX} secrets (two during a rotation)"),
        ));
    }
    let checked = texts.iter().enumerate().map(|(i, text)| {
        SigningSecret::new(text).map_err(|invalid| invalid.within(&format!("signing_secrets[{i}]")))
    });
    checked.collect()
}

/// A namespace in an answer. Secrets are never in it, only their fingerprints.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Namespace)]
pub struct NamespaceOut<'a> {
    /// Its name.
    name: &'a str,
    /// Whether claims are refused.
    paused: bool,
    /// When it goes on by itself, while it is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    resumes_at: Option<TimeOut>,
    /// Where firings go whose timer names no destination.
    #[schema(value_type = DestinationIn)]
    destination: DestinationOut<'a>,
    /// Where webhooks go whose own receiver does not take them; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FallbackIn>)]
    fallback: Option<FallbackOut<'a>>,
    /// Retry policy of timers that name none.
    #[schema(value_type = RetryIn)]
    retry: RetryOut<'a>,
    /// Lease of a claim that names none.
    #[schema(value_type = String, example = "30s")]
    lease: DurationOut,
    /// How long tombstones of ended timers are kept.
    #[schema(value_type = String, example = "1d")]
    retention: DurationOut,
    /// Share when workers are scarce.
    weight: u32,
    /// Fingerprints of the secrets that webhooks are signed with.
    signing_secret_fingerprints: Vec<String>,
    /// Limits; an absent one is unlimited.
    #[schema(value_type = LimitsIn)]
    limits: LimitsOut,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: TimeOut,
    /// When its settings were last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: TimeOut,
}

impl<'a> From<&'a Namespace> for NamespaceOut<'a> {
    fn from(namespace: &'a Namespace) -> Self {
        let settings = &namespace.settings;
        Self {
            name: namespace.name.as_str(),
            paused: namespace.paused,
            resumes_at: namespace.resumes_at.map(TimeOut),
            destination: (&settings.destination).into(),
            fallback: settings.fallback.as_ref().map(FallbackOut::from),
            retry: RetryOut(&settings.retry),
            lease: settings.lease.into(),
            retention: settings.retention.into(),
            weight: settings.weight,
            signing_secret_fingerprints: settings
                .signing_secrets
                .iter()
                .map(SigningSecret::fingerprint)
                .collect(),
            limits: (&settings.limits).into(),
            created_at: namespace.created_at.into(),
            updated_at: namespace.updated_at.into(),
        }
    }
}

/// Result of a repair of a namespace.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NamespaceRepaired)]
pub struct RepairedOut<'a> {
    /// The namespace as it is now.
    namespace: NamespaceOut<'a>,
    /// Whether its record was missing and is restored.
    restored: bool,
    /// Pending timers that were given up with the numbers that are not kept.
    pending_lost: u64,
    /// Dead letters that were given up with them.
    dead_lost: u64,
}

impl<'a> From<&'a Repaired> for RepairedOut<'a> {
    fn from(repaired: &'a Repaired) -> Self {
        Self {
            namespace: NamespaceOut::from(&repaired.namespace),
            restored: repaired.restored,
            pending_lost: repaired.pending_lost,
            dead_lost: repaired.dead_lost,
        }
    }
}

/// A page of namespaces, in order of their names.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NamespacePage)]
pub struct NamespacesOut<'a> {
    /// The namespaces.
    pub namespaces: Vec<NamespaceOut<'a>>,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<&'a str>,
}
