//! Namespaces: settings and pause; their end is in `ending.rs`.
//!
//! 1. A namespace has a coordinator shard, which orders its changes: each change increases the version
//!    there. The other shards take only newer versions. So of two concurrent changes, all shards end up
//!    with the same one.
//! 2. **A coordinator shard that has lost its last change**, as a failover may cause, gives the same
//!    version again, to another change. A shard that has taken the first one reports it, because it
//!    remembers when its change was made. The coordinator shard then goes past all versions that any
//!    shard has seen and begins new allocations of the limits, and all shards take that.
//! 3. Numbers of namespaces, which the keys of their timers hold, are never given twice: they have
//!    random bits.
//! 4. **A coordinator shard that has lost its record** reports that there is no such namespace. That is
//!    never taken for a deletion: the other shards are asked first (`absent.rs`), and an operator has
//!    the record restored from them. A background pass finds such namespaces (`repair.rs`).

use std::{
    collections::{BTreeMap, hash_map::Entry},
    sync::Arc,
};

use duly_core::{
    NamespaceName, Settings, Timestamp,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Error, Result,
    namespaces::{Activity, Namespace, Put, Secrets, too_many},
};

use crate::{
    change::{TRIES, at_once, digits, flag},
    deployment::Deployment,
    quota::Allocations,
    row::Control,
    script::Script,
    settings,
};

mod absent;
mod idle;
mod repair;
mod spread;

pub(crate) use absent::{Absence, LastCheck, unrecorded};
#[cfg(test)]
pub(crate) use spread::namespace_arguments;

/// Next state of a namespace.
pub(crate) struct NextNamespace {
    pub(crate) settings: Arc<Settings>,
    pub(crate) paused: bool,
    pub(crate) resumes_at: Option<Timestamp>,
    pub(crate) author: SettingsAuthor,
}

/// Author of the settings of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettingsAuthor {
    /// None: the namespace is created by its first schedule call.
    Implicit,
    /// A caller.
    Explicit,
    /// The same as before.
    Kept,
}

/// Mode in which a namespace is written at its coordinator shard.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CoordinatorWrite<'a> {
    /// With its next version.
    Plain,
    /// With a version above this one, and new allocations of the limits.
    Above(u64),
    /// With the number that another shard holds, and a version above all that any shard has seen.
    Restored { lost: &'a Control, above: u64 },
}

/// A namespace as its coordinator shard has it, with the allocations that the other shards take.
pub(crate) struct CoordinatorState {
    pub(crate) control: Control,
    pub(crate) allocations: Allocations,
}

impl NextNamespace {
    /// Returns a namespace as it is.
    fn of(control: &Control, author: SettingsAuthor) -> Self {
        let settings = Arc::clone(&control.settings);
        Self { settings, paused: control.paused, resumes_at: control.resumes_at, author }
    }
}

impl Deployment {
    /// Returns the coordinator shard of a namespace, which orders its changes.
    pub(crate) fn coordinator_of(&self, name: &NamespaceName) -> ShardId {
        shard_of(name.as_str(), "", self.shards)
    }

    pub(crate) fn others(&self, coordinator: ShardId) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(ShardId).filter(move |shard| *shard != coordinator)
    }

    pub(crate) async fn put_namespace(
        self: &Arc<Self>,
        name: &NamespaceName,
        put: &Put,
    ) -> Result<(Namespace, bool)> {
        let changed = self.change_namespace(name, |old, _now| {
            let settings = match (put, old) {
                (Put::IfAbsent(_), Some(_)) => return Ok(None),
                (Put::IfAbsent(settings), None) => Settings::clone(settings),
                (Put::Replace { settings, secrets }, old) => {
                    let mut settings = Settings::clone(settings);
                    if *secrets == Secrets::Keep {
                        let kept = old.map(|old| old.settings.signing_secrets.clone());
                        settings.signing_secrets = kept.unwrap_or_default();
                    }
                    settings
                }
            };
            let author = match put {
                Put::IfAbsent(_) => SettingsAuthor::Implicit,
                Put::Replace { .. } => SettingsAuthor::Explicit,
            };
            Ok(Some(NextNamespace {
                author,
                settings: Arc::new(settings),
                paused: old.is_some_and(|old| old.paused),
                resumes_at: old.and_then(|old| old.resumes_at),
            }))
        });
        let (namespace, old) = changed.await?;
        let bounds = |settings: &Settings| (settings.retention, settings.limits.max_retained);
        if old.as_ref().is_some_and(|old| bounds(old) != bounds(&namespace.settings)) {
            for shard in (0..self.shards).map(ShardId) {
                self.trim_in_background(shard, name.clone());
            }
        }
        Ok((namespace, old.is_none()))
    }

    /// Drops the tombstones of a shard that changed settings no longer keep, a few in each call. A caller
    /// does not wait for it: there may be millions. If it fails, later ends of timers drop them, or the
    /// expiry of the keys. At most one task does it for each shard of a namespace.
    fn trim_in_background(self: &Arc<Self>, shard: ShardId, name: NamespaceName) {
        let place = (shard, name);
        match self.trims.lock().entry(place.clone()) {
            Entry::Occupied(mut running) => {
                running.insert(true);
                return;
            }
            Entry::Vacant(vacant) => vacant.insert(false),
        };
        let deployment = Arc::clone(self);
        self.router.spawn(async move {
            loop {
                let trimmed = deployment.trim(shard, &place.1).await;
                if let Err(error) = &trimmed {
                    tracing::debug!(%error, namespace = %place.1, "tombstones not dropped");
                }
                if trimmed.is_ok_and(|dropped| dropped > 0) {
                    continue;
                }
                let mut trims = deployment.trims.lock();
                match trims.get_mut(&place) {
                    Some(again) if *again => *again = false,
                    _ => {
                        trims.remove(&place);
                        return;
                    }
                }
            }
        });
    }

    pub(crate) async fn set_activity(
        &self,
        name: &NamespaceName,
        activity: Activity,
    ) -> Result<Namespace> {
        let changed = self.change_namespace(name, |old, now| {
            let Some(old) = old else {
                return Err(Error::UnknownNamespace(name.to_string()));
            };
            let after = activity.applied(old.paused, old.resumes_at, now);
            Ok((after != (old.paused, old.resumes_at)).then(|| NextNamespace {
                paused: after.0,
                resumes_at: after.1,
                ..NextNamespace::of(old, SettingsAuthor::Explicit)
            }))
        });
        Ok(changed.await?.0)
    }

    /// Reads a namespace at its coordinator shard, changes it there unless it has changed in between,
    /// and then everywhere else. `next` returns `None` if it stays as it is. Returns it with its settings
    /// of before; `None`: it is new.
    async fn change_namespace(
        &self,
        name: &NamespaceName,
        next: impl Fn(Option<&Control>, Timestamp) -> Result<Option<NextNamespace>>,
    ) -> Result<(Namespace, Option<Arc<Settings>>)> {
        let coordinator = self.coordinator_of(name);
        for _ in 0..TRIES {
            let (now, old) = self.control_of(coordinator, name).await?;
            if old.is_none() {
                // Checked before each creation: the coordinator shard may have lost its record.
                self.expect_no_lost_record(name).await?;
            }
            let Some(next) = next(old.as_ref(), now)? else {
                let old = old.ok_or_else(|| Error::UnknownNamespace(name.to_string()))?;
                if !self.is_everywhere(&old).await? {
                    let allocations = self.allocations_of(&old).await?;
                    let present = CoordinatorState { control: old.clone(), allocations };
                    self.allocate_lowered(&self.spread(present).await?).await;
                }
                let settings = Arc::clone(&old.settings);
                return Ok((namespace(old), Some(settings)));
            };
            let changed = self
                .put_at_coordinator(coordinator, name, old.as_ref(), &next, CoordinatorWrite::Plain)
                .await?;
            let Some(changed) = changed else {
                continue;
            };
            let changed = self.spread(changed).await?;
            self.allocate_lowered(&changed).await;
            return Ok((namespace(changed.control), old.map(|old| old.settings)));
        }
        Err(Error::Overloaded {
            reason: "other callers kept changing the namespace".to_owned(),
            retry_after: duly_core::Millis::from_ms(100),
        })
    }

    /// Changes a namespace at its coordinator shard. Returns `None` if it is not `old` any more.
    pub(crate) async fn put_at_coordinator(
        &self,
        coordinator: ShardId,
        name: &NamespaceName,
        old: Option<&Control>,
        next: &NextNamespace,
        write: CoordinatorWrite<'_>,
    ) -> Result<Option<CoordinatorState>> {
        let seen = old.map_or_else(String::new, |old| format!("{}:{}", old.num, old.ver));
        let mut arguments = vec![
            name.as_str().as_bytes().to_vec(),
            b"home".to_vec(),
            seen.into_bytes(),
            digits(coordinator.0),
        ];
        let created_at = match write {
            CoordinatorWrite::Restored { lost, .. } => Some(lost.created_at),
            _ => old.map(|old| old.created_at),
        };
        let created = created_at.map_or_else(|| b"now".to_vec(), time);
        arguments.extend(self.fields(next, coordinator, created, b"now".to_vec()));
        match next.author {
            SettingsAuthor::Implicit => arguments.extend([b"implicit".to_vec(), b"now".to_vec()]),
            SettingsAuthor::Explicit => arguments.extend([b"implicit".to_vec(), Vec::new()]),
            SettingsAuthor::Kept => {}
        }
        arguments.extend([b"@shards".to_vec(), digits(self.shards)]);
        arguments.extend([b"@tag".to_vec(), digits(rand::random::<u32>() >> 12)]);
        match write {
            CoordinatorWrite::Plain if old.is_none() => {
                arguments.extend([b"@max".to_vec(), digits(self.namespaces_max)]);
            }
            CoordinatorWrite::Plain => {}
            CoordinatorWrite::Above(above) => arguments.extend([b"@above".to_vec(), digits(above)]),
            CoordinatorWrite::Restored { lost, above } => {
                arguments.extend([b"@above".to_vec(), digits(above)]);
                arguments.extend([b"@num".to_vec(), lost.num.clone().into_bytes()]);
            }
        }
        let mut reply = self.call_script(coordinator, Script::Put, arguments).await?;
        let (word, now) = (reply.text()?, reply.time()?);
        match word.as_str() {
            "DONE" => {}
            "LIMIT" => return Err(too_many(self.namespaces_max)),
            _ => return Ok(None),
        }
        let (num, ver) = (reply.text()?, reply.text()?);
        let allocations = Allocations { pending: reply.text()?, dead: reply.text()? };
        let control = Control {
            name: name.clone(),
            num,
            ver,
            settings: Arc::clone(&next.settings),
            paused: next.paused,
            resumes_at: next.resumes_at,
            created_at: created_at.unwrap_or(now),
            updated_at: now,
        };
        Ok(Some(CoordinatorState { control, allocations }))
    }

    /// Goes past a version at the coordinator shard, with nothing changed, and begins new allocations.
    /// Returns `None` if the namespace has changed in between: the caller of that change updates the
    /// other shards.
    async fn put_again(&self, control: &Control, above: u64) -> Result<Option<CoordinatorState>> {
        let (name, next) = (&control.name, NextNamespace::of(control, SettingsAuthor::Kept));
        let write = CoordinatorWrite::Above(above);
        self.put_at_coordinator(self.coordinator_of(name), name, Some(control), &next, write).await
    }

    /// Begins new allocations of the limits of a namespace, as if it were changed. Returns what all
    /// shards have now.
    pub(crate) async fn reallocate(
        &self,
        name: &NamespaceName,
    ) -> Result<Option<CoordinatorState>> {
        let coordinator = self.coordinator_of(name);
        let Some(control) = self.control_of(coordinator, name).await?.1 else { return Ok(None) };
        match self.put_again(&control, 0).await? {
            Some(newer) => self.spread(newer).await.map(Some),
            None => Ok(None),
        }
    }

    fn fields(
        &self,
        next: &NextNamespace,
        shard: ShardId,
        created: Vec<u8>,
        updated: Vec<u8>,
    ) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut say = |name: &str, value: Vec<u8>| out.extend([name.as_bytes().to_vec(), value]);
        for (name, value) in settings::fields(&next.settings, shard.0, self.shards) {
            say(name, value);
        }
        say("paused", flag(next.paused));
        say("resumes", next.resumes_at.map_or_else(Vec::new, time));
        say("created", created);
        say("updated", updated);
        out
    }

    pub(crate) async fn get_namespace(&self, name: &NamespaceName) -> Result<Option<Namespace>> {
        let coordinator = self.coordinator_of(name);
        let found = match self.control_of(coordinator, name).await {
            Err(away @ Error::Unavailable { .. }) => {
                let there = self.ask_elsewhere(coordinator, |shard| self.control_of(shard, name));
                let found = there.await.into_iter().flatten().filter_map(|(_, control)| control);
                let newest = found.max_by_key(|control| control.updated_at).ok_or(away)?;
                return Ok(Some(Namespace { maybe_outdated: true, ..namespace(newest) }));
            }
            found => found?.1,
        };
        if let Some(control) = found {
            return Ok(Some(namespace(control)));
        }
        match self.absent(coordinator, name).await? {
            Absence::NoNamespace => Ok(None),
            Absence::Taken => Ok(self.control_of(coordinator, name).await?.1.map(namespace)),
        }
    }

    /// Asks a shard without a fault of each server in place of `unusable`. If that shard has no fault itself, its
    /// server does not reply and is left out. Each shard has the namespaces, but may be one change behind, or be under
    /// repair.
    async fn ask_elsewhere<T: Send, F: Future<Output = Result<T>> + Send>(
        &self,
        unusable: ShardId,
        ask: impl Fn(ShardId) -> F,
    ) -> Vec<Result<T>> {
        let owners = self.router.owners();
        let is_faulty = |shard: &ShardId| self.router.fault(*shard).is_some();
        let replies = |shards: &&Vec<_>| is_faulty(&unusable) || !shards.contains(&unusable);
        let chosen = |shards: &Vec<_>| shards.iter().copied().find(|shard| !is_faulty(shard));
        let shards: Vec<_> = owners.values().filter(replies).filter_map(chosen).collect();
        at_once(shards.into_iter().map(ask)).await
    }

    pub(crate) async fn list_namespaces(
        &self,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Result<Vec<Namespace>> {
        let first = ShardId(0);
        match self.names_in(first, after, limit).await {
            Err(away @ Error::Unavailable { .. }) => {
                let found = self.ask_elsewhere(first, |shard| self.names_in(shard, after, limit));
                let pages = found.await.into_iter().collect::<Result<Vec<_>>>()?;
                if pages.is_empty() {
                    return Err(away);
                }
                let mut newest: BTreeMap<NamespaceName, Namespace> = BTreeMap::new();
                for namespace in pages.into_iter().flatten() {
                    let known = newest.get(&namespace.name);
                    if known.is_none_or(|known| known.updated_at < namespace.updated_at) {
                        newest.insert(namespace.name.clone(), namespace);
                    }
                }
                Ok(newest.into_values().take(limit).collect())
            }
            found => found,
        }
    }

    /// Returns a page of the namespaces of a shard.
    async fn names_in(
        &self,
        shard: ShardId,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Result<Vec<Namespace>> {
        let after = after.map_or_else(Vec::new, |after| after.as_str().as_bytes().to_vec());
        let mut reply = self.call_script(shard, Script::Names, vec![after, digits(limit)]).await?;
        let now = reply.time()?;
        reply.rest(|reply| Ok(namespace(self.control(&mut reply.items()?, now)?)))
    }
}

fn time(at: Timestamp) -> Vec<u8> {
    digits(at.unix_ms())
}

pub(crate) fn namespace(control: Control) -> Namespace {
    Namespace {
        name: control.name,
        settings: control.settings,
        paused: control.paused,
        resumes_at: control.resumes_at,
        created_at: control.created_at,
        updated_at: control.updated_at,
        maybe_outdated: false,
    }
}
