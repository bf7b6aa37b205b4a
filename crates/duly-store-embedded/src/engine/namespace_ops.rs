//! Operations on namespaces: put, pause, resume, delete, list, remove idle ones.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    Error, Result,
    namespaces::{
        Activity, DeleteMode, IDLE_AFTER, IdleCursor, IdlePage, Namespace, Put, Secrets, too_many,
    },
};

use crate::format::record::{NamespaceRecord, Record};

use super::{Engine, time::AGAIN_MS};

/// Namespaces that one step resumes.
const RESUMED_PER_STEP: usize = 64;

/// Namespaces that one call visits. Tests need several calls for a few namespaces.
const VISITED_MAX: usize = if cfg!(test) { 3 } else { 1_024 };
/// Namespaces that one call removes.
const REMOVED_MAX: usize = 64;

impl Engine {
    pub(crate) fn put_namespace(
        &mut self,
        name: &NamespaceName,
        put: Put,
    ) -> Result<(Namespace, bool)> {
        let known = self.namespaces.number_of(name);
        let existing = known.and_then(|number| self.namespaces.get(number));
        let now = self.now.wall();
        let implicit = matches!(put, Put::IfAbsent(_));
        let (record, is_new) = match (existing, put) {
            (Some(existing), Put::IfAbsent(_)) => return Ok((existing.view(), false)),
            (Some(existing), Put::Replace { mut settings, secrets }) => {
                if secrets == Secrets::Keep {
                    settings.signing_secrets.clone_from(&existing.record.settings.signing_secrets);
                }
                let settings = Arc::new(settings.check()?);
                if settings.heap_bytes() > existing.record.settings.heap_bytes() {
                    self.check_capacity()?;
                }
                let record = existing.record.clone();
                (NamespaceRecord { settings, implicit, updated_at: now, ..record }, false)
            }
            (None, Put::IfAbsent(settings) | Put::Replace { settings, .. }) => {
                if self.namespaces.len() >= self.options.namespaces_max {
                    return Err(too_many(self.options.namespaces_max));
                }
                self.check_capacity()?;
                let record = NamespaceRecord {
                    name: name.clone(),
                    settings: Arc::new(settings.check()?),
                    paused: false,
                    resumes_at: None,
                    implicit,
                    created_at: now,
                    updated_at: now,
                    totals: duly_core::totals::Totals::default(),
                };
                (record, true)
            }
        };
        let number = match known {
            Some(number) => number,
            None => self.take_number()?,
        };
        let view = self.write_namespace(number, record)?;
        self.evict_tombstones(number);
        Ok((view, is_new))
    }

    pub(crate) fn get_namespace(&self, name: &NamespaceName) -> Option<Namespace> {
        let number = self.namespaces.number_of(name)?;
        self.namespaces.get(number).map(super::namespaces::Namespace::view)
    }

    pub(crate) fn list_namespaces(
        &self,
        after: Option<&NamespaceName>,
        limit: usize,
    ) -> Vec<Namespace> {
        self.namespaces
            .names_after(after)
            .take(limit)
            .filter_map(|(_, number)| self.namespaces.get(number))
            .map(super::namespaces::Namespace::view)
            .collect()
    }

    pub(crate) fn set_activity(
        &mut self,
        name: &NamespaceName,
        activity: Activity,
    ) -> Result<Namespace> {
        let (number, mut record) = self.named(name)?;
        let now = self.now.wall();
        let after = activity.applied(record.paused, record.resumes_at, now);
        if (record.paused, record.resumes_at) != after {
            (record.paused, record.resumes_at) = after;
            (record.implicit, record.updated_at) = (false, now);
        }
        self.write_namespace(number, record)
    }

    /// Resumes the namespaces whose time has come. A namespace whose record cannot be written now stays
    /// paused until it can.
    pub(super) fn resume_due(&mut self) {
        if self.now.boot_ms < self.resume_not_before_ms {
            return;
        }
        let now = self.now.wall();
        for number in self.namespaces.resuming_by(now, RESUMED_PER_STEP) {
            let Some(known) = self.namespaces.get(number) else {
                continue;
            };
            let record = known.record.clone();
            let record =
                NamespaceRecord { paused: false, resumes_at: None, updated_at: now, ..record };
            if let Err(error) = self.write_namespace(number, record) {
                tracing::warn!(%error, "namespace could not be resumed at its time, will retry");
                self.resume_not_before_ms = self.now.boot_ms + AGAIN_MS;
                return;
            }
        }
    }

    pub(crate) fn delete_namespace(
        &mut self,
        name: &NamespaceName,
        mode: DeleteMode,
    ) -> Result<()> {
        let (number, _) = self.named(name)?;
        let namespace = self.namespace(number);
        let (pending, dead) = (namespace.pending(), namespace.dead());
        if mode == DeleteMode::IfEmpty && pending + dead > 0 {
            return Err(Error::NamespaceNotEmpty { name: name.to_string(), pending, dead });
        }
        self.settled(|engine| engine.write(number, &Record::NamespaceGone))
    }

    /// Deletes implicit namespaces that have been idle for a day. A pass visits the namespaces in the order
    /// of their names, some in each call, from a cursor on. The first pass that finds a namespace idle
    /// records the time, by the boot-time clock. A new timer, a lease call, or content in the namespace
    /// clears that time. A restart clears it too.
    pub(crate) fn remove_idle(
        &mut self,
        from: Option<IdleCursor>,
        waited: &BTreeSet<NamespaceName>,
    ) -> Result<IdlePage> {
        let mut after = from.and_then(|from| from.after);
        let names = self.namespaces.names_after(after.as_ref()).take(VISITED_MAX);
        let names: Vec<_> = names.map(|(name, number)| (name.clone(), number)).collect();
        let is_last = names.len() < VISITED_MAX;
        let now_ms = self.now.boot_ms;
        let mut removed = Vec::new();
        for (name, number) in names {
            if removed.len() == REMOVED_MAX {
                let next = Some(IdleCursor { shard: ShardId(0), after });
                return Ok(IdlePage { removed, next });
            }
            let is_waited_for = waited.contains(&name);
            let is_over = self.namespaces.with(number, |namespace| {
                note_idle(namespace, is_waited_for, now_ms)
                    .is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= IDLE_AFTER.ms())
            });
            if is_over == Some(true) {
                self.settled(|engine| engine.write(number, &Record::NamespaceGone))?;
                removed.push(name.clone());
            }
            after = Some(name);
        }
        let next = (!is_last).then_some(IdleCursor { shard: ShardId(0), after });
        Ok(IdlePage { removed, next })
    }

    fn named(&self, name: &NamespaceName) -> Result<(u32, NamespaceRecord)> {
        let number = self
            .namespaces
            .number_of(name)
            .ok_or_else(|| Error::UnknownNamespace(name.to_string()))?;
        let namespace = self.namespaces.get(number).expect("a name leads to its namespace");
        Ok((number, namespace.record.clone()))
    }

    fn write_namespace(&mut self, number: u32, record: NamespaceRecord) -> Result<Namespace> {
        self.settled(|engine| engine.write(number, &Record::Namespace(Box::new(record))))?;
        // A new destination, limit or a resume may make something claimable.
        self.wake = true;
        Ok(self.namespace(number).view())
    }

    fn check_capacity(&self) -> Result<()> {
        self.admit_new().map_err(|refusal| Error::Overloaded {
            reason: refusal.to_string(),
            retry_after: duly_core::Millis::from_secs(10),
        })
    }
}

/// Records whether a namespace is idle. Returns the time since which it is, or `None`.
fn note_idle(
    namespace: &mut super::namespaces::Namespace,
    is_waited_for: bool,
    now_ms: u64,
) -> Option<u64> {
    let is_empty = namespace.pending() + namespace.dead() + namespace.tombstones.len() == 0;
    if !namespace.record.implicit || namespace.record.paused || !is_empty || is_waited_for {
        namespace.idle_since_ms = None;
        return None;
    }
    Some(*namespace.idle_since_ms.get_or_insert(now_ms))
}
