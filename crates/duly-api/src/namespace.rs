//! Namespaces: settings in, settings and state out.
//!
//! One message serves PUT and PATCH.
//!
//! 1. In a PUT an absent setting has its default, but absent `signing_secrets` keep the present ones.
//! 2. In a PATCH an absent setting stays, and a given one replaces the old one completely. A setting
//!    that is named in `reset` (`null` in JSON) goes back to its default.

use duly_core::{
    Invalid, Millis, Settings,
    limits::Limits as CheckedLimits,
    namespace::{
        FALLBACK_ATTEMPTS_DEFAULT, FALLBACK_ATTEMPTS_MAX, FALLBACK_OPEN_DEFAULT, FALLBACK_OPEN_MAX,
        Fallback as CheckedFallback, LEASE_MAX, LEASE_MIN, RETENTION_MAX, SIGNING_SECRETS_MAX,
        SigningSecret, WEIGHT_MAX,
    },
    payload::PAYLOAD_BYTES_HARD,
};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::{
    Destination, Duration, NamespaceField, Retry, Time,
    headers::CredentialsForm,
    number::{ranged, within},
    words::Words,
};

/// Highest rate that can be set. A higher one is refused: it would limit nothing.
pub const PER_SECOND_MAX: u32 = 100_000_000;
/// Most attempts under way at once that can be set.
pub const IN_FLIGHT_MAX: u32 = 100_000;

/// Settings of a namespace, all optional.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct NamespaceSettings {
    /// Destination of timers that name none; default pull.
    #[prost(message, optional, tag = "1")]
    pub destination: Option<Destination>,
    /// Second receiver of webhooks whose own receiver fails; default none.
    #[prost(message, optional, tag = "2")]
    pub fallback: Option<Fallback>,
    /// Retry policy of timers that name none.
    #[prost(message, optional, tag = "3")]
    pub retry: Option<Retry>,
    /// Lease of a claim that names none, 1s to 12h, default 30s.
    #[prost(message, optional, tag = "4")]
    pub lease: Option<Duration>,
    /// Time for which tombstones of ended timers are kept, default 1d, at most 3650d.
    #[prost(message, optional, tag = "5")]
    pub retention: Option<Duration>,
    /// Relative share of the workers when they are scarce, 1 to 1000, default 1.
    #[prost(uint32, optional, tag = "6")]
    #[schema(minimum = 1, maximum = 1000)]
    #[serde(default, deserialize_with = "ranged::<1, { WEIGHT_MAX as u64 }, _, _>")]
    pub weight: Option<u32>,
    /// Secrets that webhooks are signed with (`whsec_` + base64 of 24 to 64 bytes), two during a rotation.
    /// Never shown again.
    #[prost(message, optional, tag = "7")]
    #[schema(value_type = Option<Vec<String>>, max_items = 2)]
    pub signing_secrets: Option<SigningSecrets>,
    /// Limits.
    #[prost(message, optional, tag = "8")]
    pub limits: Option<Limits>,
}

/// Signing secrets, which replace all present ones.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(transparent)]
#[prost(skip_debug)]
pub struct SigningSecrets {
    /// The secrets.
    #[prost(string, repeated, tag = "1")]
    pub secrets: Vec<String>,
}

impl std::fmt::Debug for SigningSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SigningSecrets({})", self.secrets.len())
    }
}

/// A second receiver of a namespace's webhooks, which takes over when the first fails.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct Fallback {
    /// The receiver: a webhook.
    #[prost(message, optional, tag = "1")]
    #[schema(required = true, value_type = Destination)]
    pub destination: Option<Destination>,
    /// Failed attempts of a firing after which the fallback gets its later attempts, 1 to 10000, default
    /// 5.
    #[prost(uint32, optional, tag = "2")]
    #[schema(minimum = 1, maximum = 10000)]
    #[serde(default, deserialize_with = "ranged::<1, { FALLBACK_ATTEMPTS_MAX as u64 }, _, _>")]
    pub after_attempts: Option<u32>,
    /// Time for which a lane's breaker is open before the fallback gets every firing of the lane, 0s to
    /// 1d, default 1m.
    #[prost(message, optional, tag = "3")]
    pub after_open: Option<Duration>,
}

/// Limits of a namespace, by the part that they apply to. In a request an absent limit has its default;
/// in a response it is unlimited.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct Limits {
    /// Limits of each push lane.
    #[prost(message, optional, tag = "9")]
    pub lane: Option<LaneLimits>,
    /// Limits of the namespace as a whole.
    #[prost(message, optional, tag = "10")]
    pub namespace: Option<NamespaceLimits>,
}

/// Limits of each push lane of a namespace.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct LaneLimits {
    /// Attempts begun per second, a tenth of it at once; default unlimited.
    #[prost(uint32, optional, tag = "1")]
    #[schema(minimum = 1, maximum = 100_000_000)]
    #[serde(default, deserialize_with = "ranged::<1, { PER_SECOND_MAX as u64 }, _, _>")]
    pub deliver_per_second: Option<u32>,
    /// Attempts under way at once, 1 to 100000, default 100.
    #[prost(uint32, optional, tag = "2")]
    #[schema(minimum = 1, maximum = 100_000)]
    #[serde(default, deserialize_with = "ranged::<1, { IN_FLIGHT_MAX as u64 }, _, _>")]
    pub max_in_flight: Option<u32>,
}

/// Limits of a namespace as a whole.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct NamespaceLimits {
    /// Schedules accepted per second (new timers and replacements), as many at once; default unlimited.
    #[prost(uint32, optional, tag = "1")]
    #[schema(minimum = 1, maximum = 100_000_000)]
    #[serde(default, deserialize_with = "ranged::<1, { PER_SECOND_MAX as u64 }, _, _>")]
    pub schedule_per_second: Option<u32>,
    /// Pending timers; default unlimited.
    #[prost(uint64, optional, tag = "2")]
    #[schema(minimum = 0)]
    #[serde(default, deserialize_with = "ranged::<0, { u64::MAX }, _, _>")]
    pub max_pending: Option<u64>,
    /// Bytes of one payload as stored, at most 16 MiB, default 256 KiB.
    #[prost(uint64, optional, tag = "3")]
    #[schema(minimum = 0, maximum = 16_777_216)]
    #[serde(default, deserialize_with = "ranged::<0, PAYLOAD_BYTES_HARD, _, _>")]
    pub max_payload_bytes: Option<u64>,
    /// Longest time from now to due; default unlimited.
    #[prost(message, optional, tag = "4")]
    pub max_delay: Option<Duration>,
    /// Dead letters, default 1000000; at the limit the namespace's lanes stop.
    #[prost(uint64, optional, tag = "5")]
    #[schema(minimum = 1)]
    #[serde(default, deserialize_with = "ranged::<1, { u64::MAX }, _, _>")]
    pub max_dead: Option<u64>,
    /// Tombstones of ended timers, default 10000000; past it the oldest go first.
    #[prost(uint64, optional, tag = "6")]
    #[schema(minimum = 0)]
    #[serde(default, deserialize_with = "ranged::<0, { u64::MAX }, _, _>")]
    pub max_retained: Option<u64>,
}

/// A namespace. Secrets are never in it, only their fingerprints.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
pub struct Namespace {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// `true`: claims are refused.
    #[prost(bool, tag = "2")]
    pub paused: bool,
    /// The time at which it resumes by itself, while it is paused.
    #[prost(message, optional, tag = "3")]
    pub resumes_at: Option<Time>,
    /// Destination of timers that name none.
    #[prost(message, optional, tag = "4")]
    #[schema(required = true, value_type = Destination)]
    pub destination: Option<Destination>,
    /// Second receiver of webhooks whose own receiver fails; absent without one.
    #[prost(message, optional, tag = "5")]
    pub fallback: Option<Fallback>,
    /// Retry policy of timers that name none.
    #[prost(message, optional, tag = "6")]
    #[schema(required = true, value_type = Retry)]
    pub retry: Option<Retry>,
    /// Lease of a claim that names none.
    #[prost(message, optional, tag = "7")]
    #[schema(required = true, value_type = String, example = "30s")]
    pub lease: Option<Duration>,
    /// Time for which tombstones of ended timers are kept.
    #[prost(message, optional, tag = "8")]
    #[schema(required = true, value_type = String, example = "1d")]
    pub retention: Option<Duration>,
    /// Relative share of the workers when they are scarce.
    #[prost(uint32, tag = "9")]
    pub weight: u32,
    /// Fingerprints of the secrets that webhooks are signed with.
    #[prost(string, repeated, tag = "10")]
    pub signing_secret_fingerprints: Vec<String>,
    /// Limits; an absent one is unlimited.
    #[prost(message, optional, tag = "11")]
    #[schema(required = true, value_type = Limits)]
    pub limits: Option<Limits>,
    /// The time at which it was created.
    #[prost(message, optional, tag = "12")]
    #[schema(required = true, value_type = Time)]
    pub created_at: Option<Time>,
    /// The time at which its settings were last changed.
    #[prost(message, optional, tag = "13")]
    #[schema(required = true, value_type = Time)]
    pub updated_at: Option<Time>,
}

/// A page of namespaces, in order of their names.
#[skip_serializing_none]
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = NamespacePage)]
pub struct ListNamespacesResponse {
    /// The namespaces.
    #[prost(message, repeated, tag = "1")]
    pub namespaces: Vec<Namespace>,
    /// The place to continue from; absent at the end.
    #[prost(string, optional, tag = "2")]
    pub cursor: Option<String>,
}

/// The time at which a paused namespace resumes.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
pub struct ResumeRequest {
    /// The namespace, which HTTP has in the path.
    #[prost(string, tag = "1")]
    #[serde(skip)]
    pub namespace: String,
    /// Time until which the namespace stays paused. Absent or past: it resumes at once.
    #[prost(message, optional, tag = "2")]
    pub at: Option<Time>,
}

/// Result of a repair of a namespace.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize, ToSchema)]
#[schema(as = NamespaceRepaired)]
pub struct RepairNamespaceResponse {
    /// The namespace as it is now.
    #[prost(message, optional, tag = "1")]
    #[schema(required = true, value_type = Namespace)]
    pub namespace: Option<Namespace>,
    /// `true`: its record was missing and is restored.
    #[prost(bool, tag = "2")]
    pub restored: bool,
    /// Pending timers that were lost with the numbers that are not kept.
    #[prost(uint64, tag = "3")]
    pub pending_lost: u64,
    /// Dead letters that were lost with the numbers that are not kept.
    #[prost(uint64, tag = "4")]
    pub dead_lost: u64,
}

impl NamespaceSettings {
    /// Applies the given settings to `settings`, and the defaults of the reset ones. An error names the
    /// field.
    ///
    /// # Errors
    /// When a value is not allowed, or a field is given and reset.
    pub fn over(
        self,
        mut settings: Settings,
        defaults: &Settings,
        reset: &[i32],
    ) -> Result<Settings, Invalid> {
        for (i, number) in reset.iter().enumerate() {
            let at = format!("reset[{i}]");
            let Some(field) = NamespaceField::known(&at, *number)? else {
                return Err(Invalid::unseen(at, "the name of a field"));
            };
            if self.has(field) {
                return Err(Invalid::new(at, field, format!("left out where {field} is given")));
            }
            match field {
                NamespaceField::Unspecified => {}
                NamespaceField::Destination => settings.destination = defaults.destination.clone(),
                NamespaceField::Fallback => settings.fallback = None,
                NamespaceField::Retry => settings.retry = defaults.retry.clone(),
                NamespaceField::Lease => settings.lease = defaults.lease,
                NamespaceField::Retention => settings.retention = defaults.retention,
                NamespaceField::Weight => settings.weight = defaults.weight,
                NamespaceField::SigningSecrets => settings.signing_secrets = Vec::new(),
                NamespaceField::Limits => settings.limits = defaults.limits.clone(),
            }
        }
        if let Some(destination) = self.destination {
            settings.destination = destination.check("destination")?;
        }
        if let Some(fallback) = self.fallback {
            settings.fallback = Some(fallback.check().map_err(|it| it.within("fallback"))?);
        }
        if let Some(retry) = self.retry {
            settings.retry = retry.check("retry")?;
        }
        if let Some(lease) = &self.lease {
            settings.lease = lease.check_within("lease", LEASE_MIN, LEASE_MAX)?;
        }
        if let Some(retention) = &self.retention {
            settings.retention =
                retention.check_within("retention", Millis::ZERO, RETENTION_MAX)?;
        }
        if let Some(weight) = self.weight {
            settings.weight = within("weight", weight, 1, WEIGHT_MAX)?;
        }
        if let Some(secrets) = &self.signing_secrets {
            settings.signing_secrets = secrets.check()?;
        }
        if let Some(limits) = self.limits {
            settings.limits =
                limits.over(defaults.limits.clone()).map_err(|it| it.within("limits"))?;
        }
        settings.check()
    }

    /// Returns `true` if a setting is given.
    const fn has(&self, field: NamespaceField) -> bool {
        match field {
            NamespaceField::Unspecified => false,
            NamespaceField::Destination => self.destination.is_some(),
            NamespaceField::Fallback => self.fallback.is_some(),
            NamespaceField::Retry => self.retry.is_some(),
            NamespaceField::Lease => self.lease.is_some(),
            NamespaceField::Retention => self.retention.is_some(),
            NamespaceField::Weight => self.weight.is_some(),
            NamespaceField::SigningSecrets => self.signing_secrets.is_some(),
            NamespaceField::Limits => self.limits.is_some(),
        }
    }

    /// Returns the settings of a namespace with the credentials of its destinations and without its
    /// signing secrets, as a PUT accepts them.
    pub fn exported(settings: &Settings) -> Self {
        let whole = CredentialsForm::Whole;
        Self {
            destination: Some(Destination::shown(&settings.destination, whole)),
            fallback: settings.fallback.as_ref().map(|it| Fallback::shown(it, whole)),
            retry: Some(Retry::from(&settings.retry)),
            lease: Some(settings.lease.into()),
            retention: Some(settings.retention.into()),
            weight: Some(settings.weight),
            signing_secrets: None,
            limits: Some(Limits::from(&settings.limits)),
        }
    }
}

impl SigningSecrets {
    fn check(&self) -> Result<Vec<SigningSecret>, Invalid> {
        let count = self.secrets.len();
        if count > SIGNING_SECRETS_MAX {
            return Err(Invalid::new(
                "signing_secrets",
                format!("{count} secrets"),
                format!("at most {SIGNING_SECRETS_MAX} secrets (two during a rotation)"),
            ));
        }
        let checked = self.secrets.iter().enumerate().map(|(i, text)| {
            SigningSecret::new(text)
                .map_err(|invalid| invalid.within(&format!("signing_secrets[{i}]")))
        });
        checked.collect()
    }
}

impl Fallback {
    fn check(self) -> Result<CheckedFallback, Invalid> {
        let destination = self.destination.unwrap_or_default().check("destination")?;
        if destination.is_pull() {
            return Err(CheckedFallback::is_no_pull());
        }
        let attempts = self.after_attempts.unwrap_or(FALLBACK_ATTEMPTS_DEFAULT);
        let open = self.after_open.unwrap_or_else(|| FALLBACK_OPEN_DEFAULT.into());
        Ok(CheckedFallback {
            destination,
            after_attempts: within("after_attempts", attempts, 1, FALLBACK_ATTEMPTS_MAX)?,
            after_open: open.check_within("after_open", Millis::ZERO, FALLBACK_OPEN_MAX)?,
        })
    }

    fn shown(fallback: &CheckedFallback, credentials: CredentialsForm) -> Self {
        Self {
            destination: Some(Destination::shown(&fallback.destination, credentials)),
            after_attempts: Some(fallback.after_attempts),
            after_open: Some(fallback.after_open.into()),
        }
    }
}

impl Limits {
    /// Returns the given limits, and `limits` for those that are absent.
    fn over(self, mut limits: CheckedLimits) -> Result<CheckedLimits, Invalid> {
        let lane = self.lane.unwrap_or_default();
        let namespace = self.namespace.unwrap_or_default();
        lane.write_to(&mut limits).map_err(|invalid| invalid.within("lane"))?;
        namespace.write_to(&mut limits).map_err(|invalid| invalid.within("namespace"))?;
        limits.check()
    }
}

fn per_second(field: &str, rate: Option<u32>) -> Result<Option<u32>, Invalid> {
    rate.map(|rate| within(field, rate, 1, PER_SECOND_MAX)).transpose()
}

impl LaneLimits {
    fn write_to(self, limits: &mut CheckedLimits) -> Result<(), Invalid> {
        let deliver_per_second = per_second("deliver_per_second", self.deliver_per_second)?;
        limits.deliver_per_second = deliver_per_second.or(limits.deliver_per_second);
        if let Some(max) = self.max_in_flight {
            limits.max_in_flight = within("max_in_flight", max, 1, IN_FLIGHT_MAX)?;
        }
        Ok(())
    }
}

impl NamespaceLimits {
    fn write_to(self, limits: &mut CheckedLimits) -> Result<(), Invalid> {
        let schedule_per_second = per_second("schedule_per_second", self.schedule_per_second)?;
        limits.schedule_per_second = schedule_per_second.or(limits.schedule_per_second);
        limits.max_pending = self.max_pending.or(limits.max_pending);
        if let Some(max) = self.max_payload_bytes {
            limits.max_payload_bytes = within("max_payload_bytes", max, 0, PAYLOAD_BYTES_HARD)?;
        }
        limits.max_delay = self.max_delay.map(|max| max.check("max_delay")).transpose()?;
        if let Some(max) = self.max_dead {
            limits.max_dead = within("max_dead", max, 1, u64::MAX)?;
        }
        limits.max_retained = self.max_retained.unwrap_or(limits.max_retained);
        Ok(())
    }
}

impl From<&CheckedLimits> for Limits {
    fn from(limits: &CheckedLimits) -> Self {
        let lane = LaneLimits {
            deliver_per_second: limits.deliver_per_second,
            max_in_flight: Some(limits.max_in_flight),
        };
        let namespace = NamespaceLimits {
            schedule_per_second: limits.schedule_per_second,
            max_pending: limits.max_pending,
            max_payload_bytes: Some(limits.max_payload_bytes),
            max_delay: limits.max_delay.map(Duration::from),
            max_dead: Some(limits.max_dead),
            max_retained: Some(limits.max_retained),
        };
        Self { lane: Some(lane), namespace: Some(namespace) }
    }
}

impl Namespace {
    /// Returns a running namespace with these settings, as a response shows it.
    pub fn new(name: &str, settings: &Settings) -> Self {
        let redacted = CredentialsForm::Redacted;
        let secrets = settings.signing_secrets.iter();
        Self {
            name: name.to_owned(),
            paused: false,
            resumes_at: None,
            destination: Some(Destination::shown(&settings.destination, redacted)),
            fallback: settings.fallback.as_ref().map(|it| Fallback::shown(it, redacted)),
            retry: Some(Retry::from(&settings.retry)),
            lease: Some(settings.lease.into()),
            retention: Some(settings.retention.into()),
            weight: settings.weight,
            signing_secret_fingerprints: secrets.map(SigningSecret::fingerprint).collect(),
            limits: Some(Limits::from(&settings.limits)),
            created_at: None,
            updated_at: None,
        }
    }
}
