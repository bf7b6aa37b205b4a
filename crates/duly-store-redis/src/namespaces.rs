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
//!    the record restored from them (`repair.rs`). A background pass finds such namespaces
//!    (`reconcile.rs`).

use std::sync::Arc;

use duly_core::{
    NamespaceName, Settings, Timestamp,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Error, Result,
    namespaces::{Activity, Namespace, Put, Secrets, too_many},
};

use futures::{FutureExt, StreamExt, stream::FuturesUnordered};

use crate::{
    case::Control,
    change::{TRIES, digits},
    deployment::Deployment,
    error::after,
    marker::Mark,
    script::Script,
    settings,
    shares::Deals,
};

mod absent;
mod idle;
mod reconcile;
mod repair;
mod spread;

pub(crate) use absent::{Absence, Absences, unrecorded};
#[cfg(test)]
pub(crate) use spread::own;

/// Next state of a namespace.
pub(crate) struct Next {
    pub(crate) settings: Arc<Settings>,
    pub(crate) paused: bool,
    pub(crate) resumes_at: Option<Timestamp>,
    pub(crate) origin: Origin,
}

/// Author of the settings of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// None: the namespace is created by its first schedule call.
    Implicit,
    /// A caller.
    Explicit,
    /// The same as before.
    Kept,
}

/// Mode in which a namespace is written at its coordinator shard.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Write<'a> {
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
    pub(crate) deals: Deals,
}

impl Next {
    /// Returns a namespace as it is.
    fn of(control: &Control, origin: Origin) -> Self {
        let settings = Arc::clone(&control.settings);
        Self { settings, paused: control.paused, resumes_at: control.resumes_at, origin }
    }
}

impl Deployment {
    /// Returns the coordinator shard of a namespace, which orders its changes.
    pub(crate) fn home(&self, name: &NamespaceName) -> ShardId {
        shard_of(name.as_str(), "", self.shards)
    }

    pub(crate) fn others(&self, home: ShardId) -> impl Iterator<Item = ShardId> {
        (0..self.shards).map(ShardId).filter(move |shard| *shard != home)
    }

    pub(crate) async fn put_namespace(
        &self,
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
            let origin = match put {
                Put::IfAbsent(_) => Origin::Implicit,
                Put::Replace { .. } => Origin::Explicit,
            };
            Ok(Some(Next {
                origin,
                settings: Arc::new(settings),
                paused: old.is_some_and(|old| old.paused),
                resumes_at: old.and_then(|old| old.resumes_at),
            }))
        });
        let (namespace, new) = changed.await?;
        if !new {
            for shard in (0..self.shards).map(ShardId) {
                while after(self.trim(shard, name).await)? > 0 {}
            }
        }
        Ok((namespace, new))
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
            Ok((after != (old.paused, old.resumes_at)).then(|| Next {
                paused: after.0,
                resumes_at: after.1,
                ..Next::of(old, Origin::Explicit)
            }))
        });
        Ok(changed.await?.0)
    }

    /// Reads a namespace at its coordinator shard, changes it there unless it has changed in between,
    /// and then everywhere else. `next` returns `None` if it stays as it is.
    async fn change_namespace(
        &self,
        name: &NamespaceName,
        next: impl Fn(Option<&Control>, Timestamp) -> Result<Option<Next>>,
    ) -> Result<(Namespace, bool)> {
        let home = self.home(name);
        for _ in 0..TRIES {
            let (now, old) = self.control_of(home, name).await?;
            if old.is_none() {
                // Checked before each creation: the coordinator shard may have lost its record.
                self.expect_nowhere(name).await?;
            }
            let Some(next) = next(old.as_ref(), now)? else {
                let old = old.ok_or_else(|| Error::UnknownNamespace(name.to_string()))?;
                if !self.is_everywhere(&old).await? {
                    let deals = self.deals_of(home, &old).await?;
                    let spread =
                        self.spread(home, CoordinatorState { control: old.clone(), deals }).await?;
                    self.deal_lowered(&spread).await;
                }
                return Ok((namespace(old), false));
            };
            let changed = self.put_at_home(home, name, old.as_ref(), &next, Write::Plain).await?;
            let Some(changed) = changed else {
                continue;
            };
            let changed = self.spread(home, changed).await?;
            self.deal_lowered(&changed).await;
            return Ok((namespace(changed.control), old.is_none()));
        }
        Err(Error::Overloaded {
            reason: "others kept changing the namespace".to_owned(),
            retry_after: duly_core::Millis::from_ms(100),
        })
    }

    /// Changes a namespace at its coordinator shard. Returns `None` if it is not `old` any more.
    pub(crate) async fn put_at_home(
        &self,
        home: ShardId,
        name: &NamespaceName,
        old: Option<&Control>,
        next: &Next,
        write: Write<'_>,
    ) -> Result<Option<CoordinatorState>> {
        let seen = old.map_or_else(String::new, |old| format!("{}:{}", old.num, old.ver));
        let mut arguments = vec![
            name.as_str().as_bytes().to_vec(),
            b"home".to_vec(),
            seen.into_bytes(),
            digits(home.0),
        ];
        let created_at = match write {
            Write::Restored { lost, .. } => Some(lost.created_at),
            _ => old.map(|old| old.created_at),
        };
        let created = created_at.map_or_else(|| b"now".to_vec(), time);
        let paused = (next.paused, next.resumes_at);
        arguments.extend(self.fields(&next.settings, paused, home, created, b"now".to_vec()));
        match next.origin {
            Origin::Implicit => arguments.extend([b"implicit".to_vec(), b"now".to_vec()]),
            Origin::Explicit => arguments.extend([b"implicit".to_vec(), Vec::new()]),
            Origin::Kept => {}
        }
        arguments.extend([b"@shards".to_vec(), digits(self.shards)]);
        arguments.extend([b"@tag".to_vec(), digits(rand::random::<u32>() >> 12)]);
        match write {
            Write::Plain if old.is_none() => {
                arguments.extend([b"@max".to_vec(), digits(self.namespaces_max)]);
            }
            Write::Plain => {}
            Write::Above(above) => arguments.extend([b"@above".to_vec(), digits(above)]),
            Write::Restored { lost, above } => {
                arguments.extend([b"@above".to_vec(), digits(above)]);
                arguments.extend([b"@num".to_vec(), lost.num.clone().into_bytes()]);
            }
        }
        let mut reply = self.ask(home, Script::Put, arguments).await?;
        let (word, now) = (reply.text()?, reply.time()?);
        match word.as_str() {
            "DONE" => {}
            "LIMIT" => return Err(too_many(self.namespaces_max)),
            _ => return Ok(None),
        }
        let (num, ver) = (reply.text()?, reply.text()?);
        let deals = Deals { pending: reply.text()?, dead: reply.text()? };
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
        Ok(Some(CoordinatorState { control, deals }))
    }

    /// Goes past a version at the coordinator shard, with nothing changed, and begins new allocations.
    /// Returns `None` if the namespace has changed in between: the caller of that change updates the
    /// other shards.
    async fn put_again(
        &self,
        home: ShardId,
        control: &Control,
        above: u64,
    ) -> Result<Option<CoordinatorState>> {
        let next = Next::of(control, Origin::Kept);
        self.put_at_home(home, &control.name, Some(control), &next, Write::Above(above)).await
    }

    /// Begins new allocations of the limits of a namespace, as if it were changed. Returns what all
    /// shards have now.
    pub(crate) async fn deal_anew(&self, name: &NamespaceName) -> Result<Option<CoordinatorState>> {
        let home = self.home(name);
        let Some(control) = self.control_of(home, name).await?.1 else { return Ok(None) };
        match self.put_again(home, &control, 0).await? {
            Some(newer) => self.spread(home, newer).await.map(Some),
            None => Ok(None),
        }
    }

    fn fields(
        &self,
        settings: &Settings,
        (paused, resumes_at): (bool, Option<Timestamp>),
        shard: ShardId,
        created: Vec<u8>,
        updated: Vec<u8>,
    ) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut say = |name: &str, value: Vec<u8>| out.extend([name.as_bytes().to_vec(), value]);
        for (name, value) in settings::fields(settings, shard.0, self.shards) {
            say(name, value);
        }
        say("paused", if paused { b"1".to_vec() } else { b"0".to_vec() });
        say("resumes", resumes_at.map_or_else(Vec::new, time));
        say("created", created);
        say("updated", updated);
        out
    }

    pub(crate) async fn get_namespace(&self, name: &NamespaceName) -> Result<Option<Namespace>> {
        let home = self.home(name);
        let found = match self.control_of(home, name).await {
            Err(away @ Error::Unavailable { .. }) if self.router.mark(home) == Mark::Own => {
                Some(self.control_elsewhere(home, name).await.ok_or(away)?)
            }
            found => found?.1,
        };
        if let Some(control) = found {
            return Ok(Some(namespace(control)));
        }
        match self.absent(home, name).await? {
            Absence::Nowhere => Ok(None),
            Absence::Taken => Ok(self.control_of(home, name).await?.1.map(namespace)),
        }
    }

    /// Returns a namespace as another server has it, while the server of its coordinator shard does not
    /// reply. It may be one change behind. `None` proves nothing.
    async fn control_elsewhere(&self, home: ShardId, name: &NamespaceName) -> Option<Control> {
        let owners = self.router.owners();
        let others = owners.values().filter(|shards| !shards.contains(&home));
        let shards: Vec<_> = others.filter_map(|shards| shards.first().copied()).collect();
        let looks = shards.into_iter().map(|shard| self.control_of(shard, name).boxed());
        let mut looks = FuturesUnordered::from_iter(looks);
        while let Some(found) = looks.next().await {
            if let Ok((_, Some(control))) = found {
                return Some(control);
            }
        }
        None
    }

    pub(crate) async fn list_namespaces(
        &self,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Result<Vec<Namespace>> {
        let after = after.map_or_else(Vec::new, |after| after.as_str().as_bytes().to_vec());
        let mut reply = self.ask(ShardId(0), Script::Names, vec![after, digits(limit)]).await?;
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
    }
}
