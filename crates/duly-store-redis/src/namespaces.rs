//! Namespaces: settings and pause; their end is in `ending.rs`.
//!
//! A namespace has a home shard, which orders its changes: a version goes up by one there, and the
//! other shards take only what is newer. So two changes under way end up as one of them everywhere.

use std::sync::Arc;

use duly_core::{
    NamespaceName, Settings, Timestamp,
    shard::{ShardId, shard_of},
};
use duly_store::{
    Error, Result,
    namespaces::{Activity, Namespace, Put, Secrets},
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    case::Control,
    change::{AT_ONCE, TRIES, digits},
    deployment::Deployment,
    error::damaged,
    script::Script,
    settings,
    shares::Deals,
};

/// What becomes of a namespace.
struct Next {
    settings: Arc<Settings>,
    paused: bool,
    resumes_at: Option<Timestamp>,
    /// Whether it is new.
    new: bool,
}

impl Deployment {
    /// The shard that orders the changes of a namespace.
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
        let changed = self.change_namespace(name, |old| {
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
            Ok(Some(Next {
                settings: Arc::new(settings),
                paused: old.is_some_and(|old| old.paused),
                resumes_at: old.and_then(|old| old.resumes_at),
                new: old.is_none(),
            }))
        });
        let (namespace, new) = changed.await?;
        if !new {
            for shard in (0..self.shards).map(ShardId) {
                while self.trim(shard, name).await? > 0 {}
            }
        }
        Ok((namespace, new))
    }

    pub(crate) async fn set_activity(
        &self,
        name: &NamespaceName,
        activity: Activity,
    ) -> Result<Namespace> {
        let changed = self.change_namespace_at(name, |old, now| {
            let Some(old) = old else {
                return Err(Error::UnknownNamespace(name.to_string()));
            };
            let after = activity.applied(old.paused, old.resumes_at, now);
            Ok((after != (old.paused, old.resumes_at)).then(|| Next {
                settings: Arc::clone(&old.settings),
                paused: after.0,
                resumes_at: after.1,
                new: false,
            }))
        });
        Ok(changed.await?.0)
    }

    async fn change_namespace(
        &self,
        name: &NamespaceName,
        next: impl Fn(Option<&Control>) -> Result<Option<Next>>,
    ) -> Result<(Namespace, bool)> {
        self.change_namespace_at(name, |old, _| next(old)).await
    }

    /// Reads a namespace at its home, changes it there unless it has changed meanwhile, and then
    /// everywhere else. `next` answers nothing when it is to stay as it is.
    async fn change_namespace_at(
        &self,
        name: &NamespaceName,
        next: impl Fn(Option<&Control>, Timestamp) -> Result<Option<Next>>,
    ) -> Result<(Namespace, bool)> {
        let home = self.home(name);
        for _ in 0..TRIES {
            let (now, old) = self.control_of(home, name).await?;
            let Some(next) = next(old.as_ref(), now)? else {
                let old = old.ok_or_else(|| Error::UnknownNamespace(name.to_string()))?;
                if !self.is_everywhere(&old).await? {
                    let deals = self.deals_of(home, &old).await?;
                    self.spread(home, &old, &deals).await?;
                }
                return Ok((namespace(old), false));
            };
            let seen =
                old.as_ref().map_or_else(String::new, |old| format!("{}:{}", old.num, old.ver));
            let mut arguments = vec![
                name.as_str().as_bytes().to_vec(),
                b"home".to_vec(),
                seen.into_bytes(),
                digits(home.0),
            ];
            let created = old.as_ref().map_or_else(|| b"now".to_vec(), |old| time(old.created_at));
            let (settings, paused) = (&next.settings, (next.paused, next.resumes_at));
            arguments.extend(self.fields(settings, paused, home, created, b"now".to_vec()));
            arguments.extend([b"@shards".to_vec(), digits(self.shards)]);
            let mut reply = self.ask(home, Script::Put, arguments).await?;
            let (word, now) = (reply.text()?, reply.time()?);
            if word != "DONE" {
                continue;
            }
            let (num, ver) = (reply.text()?, reply.text()?);
            let deals = Deals { pending: reply.text()?, dead: reply.text()? };
            let created_at = old.as_ref().map_or(now, |old| old.created_at);
            let control = Control {
                name: name.clone(),
                num,
                ver,
                settings: Arc::clone(&next.settings),
                paused: next.paused,
                resumes_at: next.resumes_at,
                created_at,
                updated_at: now,
            };
            self.spread(home, &control, &deals).await?;
            self.deal_lowered(&control, &deals).await;
            return Ok((namespace(control), next.new));
        }
        Err(Error::Overloaded {
            reason: "others kept changing the namespace".to_owned(),
            retry_after: duly_core::Millis::from_ms(100),
        })
    }

    /// Has every other shard take what the home has, and says there that they have.
    async fn spread(&self, home: ShardId, control: &Control, deals: &Deals) -> Result<()> {
        let spread = stream::iter(self.others(home)).map(|shard| self.take(shard, control, deals));
        let spread: Result<()> = spread.buffer_unordered(AT_ONCE).try_collect().await;
        spread.map_err(in_doubt)?;
        let done = [own(control, "take"), vec![b"done".to_vec()]].concat();
        self.ask(home, Script::Put, done).await.map(drop)
    }

    /// Has a shard take what the home has; what ended elsewhere under this name goes first.
    pub(crate) async fn take(
        &self,
        shard: ShardId,
        control: &Control,
        deals: &Deals,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let mut arguments = own(control, "take");
            let paused = (control.paused, control.resumes_at);
            let (created, updated) = (time(control.created_at), time(control.updated_at));
            arguments.extend(self.fields(&control.settings, paused, shard, created, updated));
            arguments.extend(deals.fields());
            let mut reply = self.ask(shard, Script::Put, arguments).await?;
            let (word, _) = (reply.text()?, reply.time()?);
            if word != "OLD" {
                return Ok(());
            }
            let old = reply.bytes()?;
            let name = control.name.as_str().as_bytes().to_vec();
            let ended = vec![name, old, b"0".to_vec(), Vec::new()];
            self.ask(shard, Script::Gone, ended).await?;
        }
        Err(damaged("a namespace that ended does not go"))
    }

    /// Whether all shards have taken a namespace as the home has it.
    async fn is_everywhere(&self, control: &Control) -> Result<bool> {
        let seen = stream::iter((0..self.shards).map(ShardId))
            .map(|shard| async move { self.control_of(shard, &control.name).await })
            .buffer_unordered(AT_ONCE);
        let seen: Vec<_> = seen.try_collect().await?;
        Ok(seen.iter().all(|(_, own)| own.as_ref().is_some_and(|own| own.ver == control.ver)))
    }

    /// Finishes a change of a namespace that somebody left half done, as its home tells it.
    pub(crate) async fn finish(&self, home: ShardId, todo: &str) -> Result<()> {
        let mut parts = todo.split('\0');
        let (kind, name) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let name = NamespaceName::new(name).map_err(|_| damaged("a namespace's name"))?;
        match (kind, parts.next(), parts.next()) {
            ("put", ..) => match self.control_of(home, &name).await?.1 {
                Some(control) => {
                    let deals = self.deals_of(home, &control).await?;
                    self.spread(home, &control, &deals).await
                }
                None => Ok(()),
            },
            ("gone", Some(num), Some(ver)) => self.end_elsewhere(home, &name, num, ver).await,
            _ => Err(damaged(format!("a change {todo:?} of a namespace"))),
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
        Ok(self.control_of(self.home(name), name).await?.1.map(namespace))
    }

    pub(crate) async fn list_namespaces(
        &self,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Result<Vec<Namespace>> {
        let after = after.map_or_else(Vec::new, |after| after.as_str().as_bytes().to_vec());
        let mut reply = self.ask(ShardId(0), Script::Names, vec![after, digits(limit)]).await?;
        let now = reply.time()?;
        let mut found = Vec::new();
        while !reply.is_done() {
            let mut row = reply.items()?;
            found.push(namespace(self.control(&mut row, now)?));
        }
        Ok(found)
    }
}

/// How a shard is told of a namespace: name, how, number, version.
pub(crate) fn own(control: &Control, how: &str) -> Vec<Vec<u8>> {
    [control.name.as_str(), how, &control.num, &control.ver]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}

fn time(at: Timestamp) -> Vec<u8> {
    digits(at.unix_ms())
}

fn namespace(control: Control) -> Namespace {
    Namespace {
        name: control.name,
        settings: control.settings,
        paused: control.paused,
        resumes_at: control.resumes_at,
        created_at: control.created_at,
        updated_at: control.updated_at,
    }
}

/// Some shards have taken it: the same call again is right.
pub(crate) fn in_doubt(error: Error) -> Error {
    crate::error::in_doubt(format!("not every shard has taken the change: {error}"))
}
