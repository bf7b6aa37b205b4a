//! Namespaces: settings, pause, deletion.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use duly_core::{NamespaceName, Settings, rate::Gcra};

use super::{clock::Now, space::Space, state::State};
use crate::{
    Error, Result,
    namespaces::{Activity, DeleteMode, IDLE_AFTER, Namespace, Put, Secrets, too_many},
    query::Totals,
};

impl State {
    pub(super) fn put_namespace(
        &mut self,
        name: NamespaceName,
        put: Put,
        namespaces_max: u64,
        now: Now,
    ) -> Result<(Namespace, bool)> {
        let count = self.spaces.len() as u64;
        let old = self.spaces.get_mut(&name);
        if old.is_none() && count >= namespaces_max {
            return Err(too_many(namespaces_max));
        }
        let implicit = matches!(put, Put::IfAbsent(_));
        let settings = match (put, &old) {
            (Put::IfAbsent(_), Some(space)) => return Ok((space.answer(), false)),
            (Put::IfAbsent(settings), None) => *settings,
            (Put::Replace { mut settings, secrets }, old) => {
                if secrets == Secrets::Keep {
                    let kept = old.as_ref().map(|space| space.settings.signing_secrets.clone());
                    settings.signing_secrets = kept.unwrap_or_default();
                }
                *settings
            }
        };
        if let Some(space) = old {
            space.settings = Arc::new(settings);
            space.implicit = false;
            space.updated_at = now.wall;
            space.bound_tombstones();
            return Ok((space.answer(), false));
        }
        let space = Space { implicit, ..Space::new(name.clone(), self.space_next, settings, now) };
        self.space_next += 1;
        let answer = space.answer();
        self.spaces.insert(name, space);
        Ok((answer, true))
    }

    pub(super) fn list_namespaces(
        &self,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Vec<Namespace> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let spaces = self.spaces.range::<NamespaceName, _>((from, Bound::Unbounded));
        spaces.take(limit).map(|(_, space)| space.answer()).collect()
    }

    pub(super) fn set_activity(
        &mut self,
        name: &NamespaceName,
        activity: Activity,
        now: Now,
    ) -> Result<Namespace> {
        let space = self.space(name)?;
        let after = activity.applied(space.paused, space.resumes_at, now.wall);
        if (space.paused, space.resumes_at) != after {
            space.implicit = false;
            (space.paused, space.resumes_at) = after;
            space.updated_at = now.wall;
        }
        Ok(space.answer())
    }

    pub(super) fn delete_namespace(
        &mut self,
        name: &NamespaceName,
        mode: DeleteMode,
    ) -> Result<()> {
        let space = self.space(name)?;
        let (pending, dead) = (space.live.len() as u64, space.dead.len() as u64);
        if mode == DeleteMode::IfEmpty && pending + dead > 0 {
            return Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead });
        }
        self.spaces.remove(name);
        Ok(())
    }

    pub(super) fn remove_idle(
        &mut self,
        waited: &BTreeSet<NamespaceName>,
        now: Now,
    ) -> Vec<NamespaceName> {
        let mut removed = Vec::new();
        for (name, space) in self.spaces.iter_mut().filter(|(_, space)| space.implicit) {
            if space.holds_something() || waited.contains(name) {
                space.idle_since = None;
                continue;
            }
            let since = *space.idle_since.get_or_insert(now.boot);
            if now.boot.saturating_sub(since) >= IDLE_AFTER.to_std() {
                removed.push(name.clone());
            }
        }
        removed.iter().for_each(|name| drop(self.spaces.remove(name)));
        removed
    }
}

impl Space {
    fn new(name: NamespaceName, number: u64, settings: Settings, now: Now) -> Self {
        Self {
            name,
            number,
            settings: Arc::new(settings),
            paused: false,
            resumes_at: None,
            created_at: now.wall,
            updated_at: now.wall,
            implicit: false,
            idle_since: None,
            live: BTreeMap::new(),
            tombstones: BTreeMap::new(),
            dead: BTreeMap::new(),
            origins: BTreeSet::new(),
            totals: Totals::default(),
            ended_next: 0,
            schedules: Gcra::default(),
        }
    }

    fn holds_something(&self) -> bool {
        !(self.live.is_empty() && self.dead.is_empty() && self.tombstones.is_empty())
    }

    pub(super) fn answer(&self) -> Namespace {
        Namespace {
            name: self.name.clone(),
            settings: Arc::clone(&self.settings),
            paused: self.paused,
            resumes_at: self.resumes_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}
