//! Namespaces: settings, states, lists, repairs, counts now and by time.

use duly_api::{
    Duration, MessageFormat, NamespaceField, NamespaceForecast, NamespaceSettings, NamespaceStats,
    number::within,
    stats::{BUCKET_DEFAULT, BUCKETS_DEFAULT},
};
use duly_core::{Code, Destination, Invalid, NamespaceName, Settings, access::Action};
use duly_store::{
    ForecastRequest,
    forecast::{BUCKET_MAX, BUCKET_MIN, BUCKETS_MAX},
    namespaces::{Activity, DeleteMode, Namespace, Put, Repaired, Secrets},
};

use super::{Admitted, lists::page_limit};
use crate::{memory::budget::Reservation, messages, problem::Problem, tenants::NamespaceAdmission};

/// Namespaces that are read with one call of the store.
const AT_ONCE: usize = 32;
/// Memory of the counts of one shard: a namespace has at most a few hundred lanes.
const STATS_BYTES: usize = 64 * 1024;
/// Memory of one bucket of the response, and of its text.
const BUCKET_BYTES: usize = 128;
/// Memory of the rest of a response.
const FIXED_BYTES: usize = 2 * 1024;

impl Admitted {
    /// Replaces all settings. Returns the namespace, and `true` if it is new.
    pub(crate) async fn put_namespace(
        &self,
        name: NamespaceName,
        settings: NamespaceSettings,
        reset: &[i32],
    ) -> Result<(Namespace, bool), Problem> {
        let is_secret = |field: &i32| *field == i32::from(NamespaceField::SigningSecrets);
        let keeps = settings.signing_secrets.is_none() && !reset.iter().any(is_secret);
        let secrets = if keeps { Secrets::Keep } else { Secrets::Set };
        let settings = Box::new(settings.over(self.defaults.clone(), &self.defaults, reset)?);
        self.check_settings(&name, &settings, None)?;
        let _turn = self.patches().lock().await;
        let tenants = self.auth.tenants();
        let tenant = tenants.of_namespace(name.as_str());
        let is_asked = tenant.is_some() || receivers(&settings).next().is_some();
        let present = match is_asked {
            true => self.store.get_namespace(name.clone()).await?,
            false => None,
        };
        self.check_receivers(&settings, present.as_ref().map(|it| &*it.settings))?;
        let within = match tenant {
            Some(tenant) if present.is_none() => Some(tenant.admit_namespace()?),
            _ => None,
        };
        let put = self.store.put_namespace(name, Put::Replace { settings, secrets }).await?;
        if put.1 {
            within.into_iter().for_each(NamespaceAdmission::keep);
        }
        Ok(put)
    }

    /// Returns one namespace.
    pub(crate) async fn namespace(&self, name: NamespaceName) -> Result<Namespace, Problem> {
        let found = self.store.get_namespace(name.clone()).await?;
        found.ok_or_else(|| Problem::no_namespace(name.as_str()))
    }

    /// Shows a page of namespaces, some at a time, until the next one does not fit. Returns the cursor
    /// of the next page.
    pub(crate) async fn namespaces(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
        mut show: impl FnMut(&Namespace) -> Result<(), Problem>,
    ) -> Result<Option<String>, Problem> {
        let mut left = page_limit(limit)?;
        let mut after = cursor
            .map(|text| {
                NamespaceName::new(text).map_err(|mut invalid| {
                    "cursor".clone_into(&mut invalid.field);
                    "the cursor of the page before".clone_into(&mut invalid.allowed);
                    invalid
                })
            })
            .transpose()?;
        let mut shown = None;
        loop {
            // One more than is shown: it tells whether there is another page.
            let count = left.min(AT_ONCE) + 1;
            let found = self.visible_namespaces(after.clone(), count).await?;
            let is_last = found.len() < count;
            for namespace in found.iter().take(count - 1) {
                match show(namespace) {
                    Ok(()) => shown = Some(namespace.name.clone()),
                    Err(problem) if shown.is_none() => return Err(problem),
                    Err(_) => return Ok(shown.map(|name| name.to_string())),
                }
                left -= 1;
            }
            if is_last {
                return Ok(None);
            }
            if left == 0 {
                return Ok(shown.map(|name| name.to_string()));
            }
            after.clone_from(&shown);
        }
    }

    /// Returns at most `count` namespaces after the name `after`: those that the caller may know of.
    async fn visible_namespaces(
        &self,
        mut after: Option<NamespaceName>,
        count: usize,
    ) -> Result<Vec<Namespace>, Problem> {
        let (caller, mut visible) = (self.caller(), Vec::new());
        loop {
            let found = self.store.list_namespaces(after, count).await?;
            let last = found.last().map(|namespace| namespace.name.clone());
            let last = last.filter(|_| found.len() >= count);
            visible.extend(found.into_iter().filter(|it| caller.covers(it.name.as_str())));
            visible.truncate(count);
            let Some(last) = last.filter(|_| visible.len() < count) else {
                return Ok(visible);
            };
            after = Some(last.clone());
            if !caller.covers(last.as_str()) {
                // Between two of the caller's patterns there may be very many names.
                let Some(next) = caller.next_covered(last.as_str()) else {
                    return Ok(visible);
                };
                let exact = self.store.get_namespace(next.clone()).await?;
                visible.extend(exact.filter(|it| caller.covers(it.name.as_str())));
                after = Some(next);
            }
        }
    }

    /// Changes some settings, as a message of this format says.
    pub(crate) async fn patch_namespace(
        &self,
        name: NamespaceName,
        change: NamespaceSettings,
        reset: &[i32],
        source: MessageFormat,
    ) -> Result<Namespace, Problem> {
        if change == NamespaceSettings::default() && reset.is_empty() {
            return Err(no_change(source).into());
        }
        let _turn = self.patches().lock().await;
        let present = self.present_namespace(name.clone()).await?;
        let settings = Box::new(change.over((*present.settings).clone(), &self.defaults, reset)?);
        self.check_settings(&name, &settings, Some(&present.settings))?;
        self.check_receivers(&settings, Some(&present.settings))?;
        let put = Put::Replace { settings, secrets: Secrets::Set };
        let (namespace, _) = self.store.put_namespace(name, put).await?;
        Ok(namespace)
    }

    /// Checks the right to name another receiver in the settings of a namespace: it gets payloads. A caller who may
    /// schedule can redirect timers anyway.
    fn check_receivers(
        &self,
        settings: &Settings,
        present: Option<&Settings>,
    ) -> Result<(), Problem> {
        let is_known = |to: &Destination| {
            present.is_some_and(|it| receivers(it).any(|known| known.has_receiver_of(to)))
        };
        if receivers(settings).all(is_known) || self.caller().permits(Action::Schedule) {
            return Ok(());
        }
        self.check(Action::Payload)
    }

    /// Returns a namespace with the settings that its coordinator shard has.
    pub(crate) async fn present_namespace(
        &self,
        name: NamespaceName,
    ) -> Result<Namespace, Problem> {
        let found = self.namespace(name).await?;
        if found.maybe_outdated {
            let detail = "the coordinator shard of this namespace is unavailable, and the settings in the \
                          other shards may be one change behind: nothing was done";
            return Err(Problem::temporary(Code::Unavailable, detail));
        }
        Ok(found)
    }

    /// Pauses a namespace, or lets it fire again.
    pub(crate) async fn set_activity(
        &self,
        name: NamespaceName,
        activity: Activity,
    ) -> Result<Namespace, Problem> {
        let before = self.store.get_namespace(name.clone()).await?;
        let namespace = self.store.set_activity(name, activity).await?;
        let state = |namespace: &Namespace| (namespace.paused, namespace.resumes_at);
        let has_changed = before.is_none_or(|before| state(&before) != state(&namespace));
        self.note(|notes| notes.has_changed |= has_changed);
        Ok(namespace)
    }

    /// Deletes a namespace.
    pub(crate) async fn delete_namespace(
        &self,
        name: NamespaceName,
        mode: DeleteMode,
    ) -> Result<(), Problem> {
        // Without the lock, a patch that has read the namespace would write it back after the deletion.
        let _turn = self.patches().lock().await;
        Ok(self.store.delete_namespace(name, mode).await?)
    }

    /// Restores the record of a namespace.
    pub(crate) async fn repair_namespace(
        &self,
        name: NamespaceName,
        keep: Option<&str>,
    ) -> Result<Repaired, Problem> {
        let _turn = self.patches().lock().await;
        Ok(self.store.repair_namespace(name, keep.map(str::to_owned)).await?)
    }

    /// Returns the counts of a namespace over all shards, with their memory reservation, which has the
    /// same size for the text.
    pub(crate) async fn namespace_stats(
        &self,
        name: NamespaceName,
    ) -> Result<(NamespaceStats, Reservation), Problem> {
        let shards = self.sharded().shards().len();
        let mut reservation = self.budget().reserve(shards * STATS_BYTES)?;
        let namespace = self.namespace(name.clone()).await?;
        let stats = self.sharded().stats(&name).await?;
        let stats = stats.ok_or_else(|| Problem::no_namespace(name.as_str()))?;
        let loads = self.node.lanes(&name);
        let settings = &namespace.settings;
        let fallback = settings.fallback.as_ref().map(|_| self.node.fallback(&name));
        let unavailable_shards = stats.unavailable_shards();
        let stats = messages::stats(stats.value, &loads, fallback, &settings.limits);
        let stats = NamespaceStats { unavailable_shards, ..stats };
        reservation.shrink_to(STATS_BYTES);
        Ok((stats, reservation))
    }

    /// Returns a forecast over all shards, with its memory reservation, which includes the text.
    pub(crate) async fn namespace_forecast(
        &self,
        name: NamespaceName,
        bucket: Option<&Duration>,
        count: Option<u32>,
    ) -> Result<(NamespaceForecast, Reservation), Problem> {
        let request = forecast_request(name, bucket, count)?;
        let counts = request.count * self.sharded().shards().len() * size_of::<u64>();
        let reservation =
            self.budget().reserve(FIXED_BYTES + counts + request.count * BUCKET_BYTES)?;
        let forecast = self.sharded().forecast(&request).await?;
        let forecast = forecast.ok_or_else(|| Problem::no_namespace(request.namespace.as_str()))?;
        let unavailable_shards = forecast.unavailable_shards();
        let forecast = messages::forecast(forecast.value);
        Ok((NamespaceForecast { unavailable_shards, ..forecast }, reservation))
    }
}

/// Returns the refusal of a change that changes nothing.
fn no_change(source: MessageFormat) -> Invalid {
    match source {
        MessageFormat::Json => Invalid::new("body", "{}", "an object with a field to change"),
        MessageFormat::Protobuf => {
            let allowed = "given with a field to change, or reset with one";
            Invalid::unseen("settings", allowed)
        }
    }
}

/// Returns the receivers that settings name.
fn receivers(settings: &Settings) -> impl Iterator<Item = &Destination> {
    let fallback = settings.fallback.as_ref().map(|fallback| &fallback.destination);
    [Some(&settings.destination), fallback].into_iter().flatten().filter(|to| !to.is_pull())
}

/// Checks the parameters of a forecast.
fn forecast_request(
    namespace: NamespaceName,
    bucket: Option<&Duration>,
    count: Option<u32>,
) -> Result<ForecastRequest, Invalid> {
    let bucket = match bucket {
        Some(bucket) => bucket.check_within("bucket", BUCKET_MIN, BUCKET_MAX)?,
        None => BUCKET_DEFAULT,
    };
    let count = usize::try_from(count.unwrap_or(BUCKETS_DEFAULT)).unwrap_or(usize::MAX);
    Ok(ForecastRequest { namespace, bucket, count: within("count", count, 1, BUCKETS_MAX)? })
}
