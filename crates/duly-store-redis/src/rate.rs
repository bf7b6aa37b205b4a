//! The rate of schedules of a namespace, which its home keeps for all shards.
//!
//! A part of the rate for each shard would be no rate: of 10 a second over 64 shards each would take one
//! in six seconds, so that ids decide who is refused, and all together 64 at once. So the home has one
//! state for the namespace (`scripts/rate.lua`). In the home itself a schedule takes of it in its own
//! script. For any other shard the node asks there how many of the ids are free, as a schedule that is
//! repeated takes nothing of the rate, and then the home how many it grants, one call each for all
//! schedules of a script; what turns out not to be needed all the same goes back if nothing was granted
//! in between. What is lost on the way is not made up for: the rate lets through less than it could
//! then, never more. A namespace without a rate costs nothing: nodes learn of a rate when a shard tells
//! them to ask.

use std::time::Duration;

use duly_core::{NamespaceName, shard::ShardId};
use duly_store::{Refusal, Result};

use crate::{
    change::digits,
    deployment::{Deployment, KNOWN_MAX},
    error::damaged,
    script::Script,
};

/// Who answers for a schedule keeping to the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Nobody yet: the home is to be asked if there is a rate.
    Ask,
    /// The shard itself is the home.
    Home,
    /// The home has granted it.
    Held,
}

impl Pace {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Home => "home",
            Self::Held => "held",
        }
    }
}

/// Schedules that a home has granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) count: usize,
    /// Names the grant, to give it back.
    mark: String,
    /// How long until another one is granted, when not all were.
    pub(crate) wait: Duration,
}

impl Grant {
    /// Nothing was asked for, or nothing is known of it.
    pub(crate) const fn nothing() -> Self {
        Self { count: 0, mark: String::new(), wait: Duration::ZERO }
    }
}

impl Deployment {
    /// Asks the home of a namespace for so many schedules.
    pub(crate) async fn grant(&self, name: &NamespaceName, count: usize) -> Result<Grant> {
        let arguments = vec![name.as_str().as_bytes().to_vec(), digits(count), Vec::new()];
        let mut reply = self.ask(self.home(name), Script::Grant, arguments).await?;
        let (word, _) = (reply.text()?, reply.time()?);
        match word.as_str() {
            // The shard says what it knows of the namespace, and has the limit no more once it has
            // taken the change.
            word @ ("NONE" | "FREE") => {
                if word == "NONE" {
                    self.absent(self.home(name), name).await?;
                }
                self.rated.lock().remove(name);
                Ok(Grant { count, ..Grant::nothing() })
            }
            "OK" => {
                let count = usize::try_from(reply.number()?).unwrap_or(0);
                let mark = reply.text()?;
                Ok(Grant { count, mark, wait: Duration::from_millis(reply.number()?) })
            }
            other => Err(damaged(format!("a grant was answered with {other}"))),
        }
    }

    /// Gives back what was granted and not needed. That this fails costs only what is given back.
    pub(crate) async fn give_back(&self, name: &NamespaceName, grant: &Grant, unused: usize) {
        if unused == 0 || grant.mark.is_empty() {
            return;
        }
        let mark = grant.mark.clone().into_bytes();
        let arguments = vec![name.as_str().as_bytes().to_vec(), digits(unused), mark];
        if let Err(error) = self.ask(self.home(name), Script::Grant, arguments).await {
            tracing::debug!(%error, "schedules that were not needed are not given back");
        }
    }

    /// How schedules of a namespace in this shard keep to its rate.
    pub(crate) fn pace(&self, shard: ShardId, name: &NamespaceName) -> Pace {
        if self.home(name) == shard { Pace::Home } else { Pace::Ask }
    }

    /// Remembers that a namespace has a rate.
    pub(crate) fn has_rate(&self, name: &NamespaceName) {
        let mut rated = self.rated.lock();
        if rated.len() >= KNOWN_MAX {
            rated.clear();
        }
        rated.insert(name.clone());
    }

    pub(crate) fn is_rated(&self, name: &NamespaceName) -> bool {
        self.rated.lock().contains(name)
    }
}

/// The refusal of a schedule past the rate.
pub(crate) fn too_fast(control: &crate::case::Control, wait: Duration) -> Refusal {
    let rate = control.settings.limits.schedule_per_second.unwrap_or(0);
    Refusal::schedules_too_fast(&control.name, rate, wait)
}

#[cfg(test)]
mod tests;
