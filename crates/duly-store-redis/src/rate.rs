//! The limit `schedule_per_second` of a namespace, which its coordinator shard keeps for all shards.
//!
//! The rate is not split between the shards. At 10 per second over 64 shards, each shard would admit one
//! timer in six seconds, so ids would decide who is refused, and all together could admit 64 at once. So
//! the coordinator shard has one state for the namespace (`scripts/rate.lua`):
//!
//! 1. In the coordinator shard itself, a schedule operation takes from the rate in its own script.
//! 2. For another shard, the node first asks that shard how many of the ids are free: a repeated
//!    schedule operation takes nothing of the rate. Then it asks the coordinator shard for a grant. Each
//!    is one call for all operations of a script.
//! 3. The node gives back what it did not need, which counts if nothing was granted in between.
//! 4. A lost grant is not made up for: the rate then admits less than it could, never more.
//! 5. A namespace without a rate costs nothing: nodes learn of a rate when a shard tells them to ask.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{Refusal, Result};

use crate::{
    change::digits,
    deployment::{Deployment, KNOWN_MAX},
    error::damaged,
    script::Script,
};

/// A grant of schedule operations by a coordinator shard. One without a mark cannot be given back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) count: usize,
    /// Identifies the grant, to give it back.
    mark: String,
    /// Wait until another one can be granted, if not all were.
    pub(crate) wait: Duration,
}

impl Deployment {
    /// Asks the coordinator shard of a namespace for a grant of `count` schedule operations.
    pub(crate) async fn grant(&self, name: &NamespaceName, count: usize) -> Result<Grant> {
        let arguments = vec![name.as_str().as_bytes().to_vec(), digits(count), Vec::new()];
        let mut reply =
            self.call_script(self.coordinator_of(name), Script::Grant, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            // The shard of the timers reports what it knows of the namespace, and drops the limit
            // once it has taken the change.
            word @ ("NONE" | "FREE") => {
                if word == "NONE" {
                    self.absent(self.coordinator_of(name), name).await?;
                }
                self.rated.lock().remove(name);
                Ok(Grant { count, ..Grant::default() })
            }
            "OK" => {
                let count = usize::try_from(reply.number()?).unwrap_or(0);
                let mark = reply.text()?;
                Ok(Grant { count, mark, wait: Duration::from_millis(reply.number()?) })
            }
            other => Err(damaged(format!("unknown reply to a grant request: {other}"))),
        }
    }

    /// Gives back the unused part of a grant. If this fails, only that part is lost.
    pub(crate) async fn give_back(&self, name: &NamespaceName, grant: &Grant, unused: usize) {
        if unused == 0 || grant.mark.is_empty() {
            return;
        }
        let mark = grant.mark.clone().into_bytes();
        let arguments = vec![name.as_str().as_bytes().to_vec(), digits(unused), mark];
        if let Err(error) =
            self.call_script(self.coordinator_of(name), Script::Grant, arguments).await
        {
            tracing::debug!(%error, "unused grant of the schedule rate not given back");
        }
    }

    /// Returns the admission of a schedule operation of a namespace in this shard: `held` if the coordinator
    /// shard has granted it, `home` if this is that shard, and `ask` if that shard must be asked.
    pub(crate) fn rate_admission(
        &self,
        shard: ShardId,
        name: &NamespaceName,
        is_granted: bool,
    ) -> &'static str {
        match is_granted {
            true => "held",
            false if self.coordinator_of(name) == shard => "home",
            false => "ask",
        }
    }

    /// Remembers that a namespace has a rate.
    pub(crate) fn remember_rate(&self, name: &NamespaceName) {
        let mut rated = self.rated.lock();
        if rated.len() >= KNOWN_MAX {
            rated.clear();
        }
        rated.insert(name.clone());
    }
}

/// Returns the refusal of a schedule operation above the rate.
pub(crate) fn too_fast(control: &crate::row::Control, wait: Duration) -> Refusal {
    let rate = control.settings.limits.schedule_per_second.unwrap_or(0);
    Refusal::schedules_too_fast(&control.name, rate, wait)
}

#[cfg(test)]
mod tests;
