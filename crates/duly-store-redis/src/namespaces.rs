//! Namespaces: settings, pause, end.
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
    namespaces::{Activity, DeleteMode, Namespace, Put, Secrets},
};
use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    case::Control,
    change::{AT_ONCE, TRIES, digits},
    deployment::Deployment,
    error::damaged,
    script::Script,
    settings,
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
    fn home(&self, name: &NamespaceName) -> ShardId {
        shard_of(name.as_str(), "", self.shards)
    }

    fn others(&self, home: ShardId) -> impl Iterator<Item = ShardId> {
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
            arguments.extend(self.fields(&next, home, created.clone(), b"now".to_vec()));
            let mut reply = self.ask(home, Script::Put, arguments).await?;
            let (word, now) = (reply.text()?, reply.time()?);
            if word != "DONE" {
                continue;
            }
            let (num, ver) = (reply.text()?, reply.text()?);
            let created_at = old.as_ref().map_or(now, |old| old.created_at);
            let spread = stream::iter(self.others(home)).map(|shard| {
                let mut arguments = vec![
                    name.as_str().as_bytes().to_vec(),
                    b"take".to_vec(),
                    num.clone().into_bytes(),
                    ver.clone().into_bytes(),
                ];
                arguments.extend(self.fields(&next, shard, time(created_at), time(now)));
                async move { self.ask(shard, Script::Put, arguments).await.map(drop) }
            });
            let spread: Result<()> = spread.buffer_unordered(AT_ONCE).try_collect().await;
            spread.map_err(in_doubt)?;
            let namespace = Namespace {
                name: name.clone(),
                settings: next.settings,
                paused: next.paused,
                resumes_at: next.resumes_at,
                created_at,
                updated_at: now,
            };
            return Ok((namespace, next.new));
        }
        Err(Error::Overloaded {
            reason: "others kept changing the namespace".to_owned(),
            retry_after: duly_core::Millis::from_ms(100),
        })
    }

    fn fields(
        &self,
        next: &Next,
        shard: ShardId,
        created: Vec<u8>,
        updated: Vec<u8>,
    ) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut say = |name: &str, value: Vec<u8>| out.extend([name.as_bytes().to_vec(), value]);
        for (name, value) in settings::fields(&next.settings, shard.0, self.shards) {
            say(name, value);
        }
        say("paused", if next.paused { b"1".to_vec() } else { b"0".to_vec() });
        say("resumes", next.resumes_at.map_or_else(Vec::new, time));
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

    pub(crate) async fn delete_namespace(
        &self,
        name: &NamespaceName,
        mode: DeleteMode,
    ) -> Result<()> {
        let home = self.home(name);
        let unknown = || Error::UnknownNamespace(name.to_string());
        let control = self.control_of(home, name).await?.1.ok_or_else(unknown)?;
        let own = || vec![name.as_str().as_bytes().to_vec(), control.num.clone().into_bytes()];
        if mode == DeleteMode::IfEmpty && self.shards > 1 {
            self.expect_empty(name).await?;
        }
        let empty = if mode == DeleteMode::IfEmpty { b"empty".to_vec() } else { Vec::new() };
        let arguments = [own(), vec![Vec::new(), empty]].concat();
        let mut reply = self.ask(home, Script::Gone, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        let ver = match word.as_str() {
            "DONE" => reply.bytes()?,
            "NONE" => return Err(unknown()),
            "FULL" => {
                let (pending, dead) = (reply.number()?, reply.number()?);
                let name = name.to_string();
                return Err(Error::NamespaceNotEmpty { name, pending, dead });
            }
            other => return Err(damaged(format!("an end was answered with {other}"))),
        };
        let spread = stream::iter(self.others(home)).map(|shard| {
            let arguments = [own(), vec![ver.clone(), Vec::new()]].concat();
            async move { self.ask(shard, Script::Gone, arguments).await.map(drop) }
        });
        let spread: Result<()> = spread.buffer_unordered(AT_ONCE).try_collect().await;
        spread.map_err(in_doubt)
    }

    /// Refuses a namespace that holds something in any shard.
    async fn expect_empty(&self, name: &NamespaceName) -> Result<()> {
        let counts = stream::iter((0..self.shards).map(ShardId));
        let counts = counts.map(|shard| self.stats(shard, name)).buffer_unordered(AT_ONCE);
        let counts: Vec<_> = counts.try_collect().await?;
        let (mut pending, mut dead) = (0, 0);
        for stats in counts.into_iter().flatten() {
            pending += stats.pending();
            dead += stats.dead;
        }
        if pending + dead == 0 {
            return Ok(());
        }
        Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead })
    }
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
fn in_doubt(error: Error) -> Error {
    crate::error::in_doubt(format!("not every shard has taken the change: {error}"))
}
