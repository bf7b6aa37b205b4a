//! Reports namespaces with timers due for consumers but no lease call: often the name is misspelled.

use std::collections::BTreeMap;

use duly_core::{NamespaceName, shard::ShardId};

use crate::{recorder::Recorder, state::Shared};

/// Audits in a row after which a namespace is reported.
const AUDITS_MIN: u32 = 6;
/// Most namespaces that are reported at once.
const REPORTED_MAX: usize = 10;

/// The findings of the audits so far.
#[derive(Debug, Default)]
pub(super) struct Unleased {
    audits: BTreeMap<NamespaceName, u32>,
}

impl Unleased {
    /// Records the findings of an audit: namespaces with firings due for consumers, each with a shard
    /// that has some.
    pub(super) async fn record_audit(
        &mut self,
        shared: &Shared,
        due: BTreeMap<NamespaceName, ShardId>,
    ) {
        self.audits.retain(|namespace, _| due.contains_key(namespace));
        let mut found = Vec::new();
        for (namespace, shard) in due {
            if shared.pull.was_waited_for(&namespace) {
                self.audits.remove(&namespace);
                continue;
            }
            let audits = self.audits.entry(namespace.clone()).or_default();
            *audits += 1;
            if *audits >= AUDITS_MIN
                && found.len() < REPORTED_MAX
                && !is_leased(shared, shard, &namespace).await
            {
                found.push(namespace);
            }
        }
        Recorder::unleased(found.len());
        let before = std::mem::replace(&mut *shared.watch.unleased.lock(), found.clone());
        for namespace in found.iter().filter(|namespace| !before.contains(namespace)) {
            tracing::warn!(
                %namespace,
                "timers are due and no consumer leases them; check the namespace name, or set a webhook"
            );
        }
    }
}

/// Returns `true` if consumers of this node or another hold leases of the namespace.
async fn is_leased(shared: &Shared, shard: ShardId, namespace: &NamespaceName) -> bool {
    match shared.store.stats(shard, namespace.clone()).await {
        Ok(stats) => stats.is_none_or(|stats| stats.in_flight > 0),
        // Without the counts nothing is reported.
        Err(_) => true,
    }
}
