//! Namespaces with timers due for consumers and no lease call: often the name is misspelled.

use std::collections::BTreeMap;

use duly_core::{NamespaceName, shard::ShardId};

use crate::{record::Recorder, state::Shared};

/// Looks in a row after which a namespace is reported.
const LOOKS: u32 = 6;
/// Namespaces that are reported at once.
const REPORTED_MAX: usize = 10;

/// The findings of the looks so far.
#[derive(Debug, Default)]
pub(super) struct Unleased {
    looks: BTreeMap<NamespaceName, u32>,
}

impl Unleased {
    /// Takes in what a look found: namespaces with something due for consumers, each with a shard that has it.
    pub(super) async fn looked(&mut self, shared: &Shared, due: BTreeMap<NamespaceName, ShardId>) {
        self.looks.retain(|namespace, _| due.contains_key(namespace));
        let mut found = Vec::new();
        for (namespace, shard) in due {
            if shared.pull.was_waited_for(&namespace) {
                self.looks.remove(&namespace);
                continue;
            }
            let looks = self.looks.entry(namespace.clone()).or_default();
            *looks += 1;
            if *looks >= LOOKS
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
                "timers are due and no consumer leases them: is the name misspelled, or is a webhook missing?"
            );
        }
    }
}

/// Says whether consumers hold leases, of this node or another.
async fn is_leased(shared: &Shared, shard: ShardId, namespace: &NamespaceName) -> bool {
    match shared.store.stats(shard, namespace.clone()).await {
        Ok(stats) => stats.is_none_or(|stats| stats.in_flight > 0),
        // Nothing is reported that is not known.
        Err(_) => true,
    }
}
