//! Idle namespaces: deletes implicit namespaces that have been idle for a day.
//!
//! A pass visits the namespaces in the order of their names, some in each call. The first pass that finds
//! a namespace idle records the time, by the boot-time clock. A new timer, a lease call, or content in
//! the namespace clears that time. A restart clears it too.

use std::collections::BTreeSet;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{
    Result,
    namespaces::{IDLE_AFTER, IdleCursor, IdlePage},
};

use crate::format::record::Record;

use super::{Engine, namespaces::Namespace};

/// Namespaces that one call visits. Tests need several calls for a few namespaces.
const VISITED_MAX: usize = if cfg!(test) { 3 } else { 1_024 };
/// Namespaces that one call removes.
const REMOVED_MAX: usize = 64;

impl Engine {
    /// Visits the next namespaces after a cursor.
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
}

/// Records whether a namespace is idle. Returns the time since which it is, or `None`.
fn note_idle(namespace: &mut Namespace, is_waited_for: bool, now_ms: u64) -> Option<u64> {
    let is_empty = namespace.pending() + namespace.dead() + namespace.tombstones.len() == 0;
    if !namespace.implicit || namespace.paused || !is_empty || is_waited_for {
        namespace.idle_since_ms = None;
        return None;
    }
    Some(*namespace.idle_since_ms.get_or_insert(now_ms))
}
