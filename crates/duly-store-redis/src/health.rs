//! How the store feels: looked at again and again, so that the answer is at once, also when no server
//! answers. The look also finishes changes of namespaces that somebody left half done.

use std::{sync::Arc, time::Duration};

use duly_core::{Timestamp, shard::ShardId};
use duly_store::{Health, Result};

use crate::{
    change::{digits, flag},
    deployment::Deployment,
    script::Script,
    skew,
};

/// How often it is looked whether the servers answer.
const EVERY: Duration = Duration::from_secs(1);
/// How many of these looks go by before everything is counted again.
const COUNTED_EVERY: u32 = 10;
/// Namespaces, or lanes with something due, that one script sums up.
const PAGE: usize = 100;

/// Looks again and again until it is aborted.
pub(crate) async fn watch(deployment: Arc<Deployment>) {
    loop {
        for _ in 0..COUNTED_EVERY {
            tokio::time::sleep(EVERY).await;
            deployment.ping().await;
        }
        deployment.look().await;
    }
}

impl Deployment {
    /// Looks whether every server answers, and whether their clocks are alike.
    async fn ping(&self) {
        let mut reasons = Vec::new();
        let mut readings = Vec::new();
        for server in self.router.owners().into_keys() {
            match self.router.clock(&server).await {
                Ok(reading) => readings.push(reading),
                Err(reason) => reasons.push(format!("{server} does not answer: {reason}")),
            }
        }
        reasons.extend(skew::too_far_apart(&readings));
        let before = std::mem::replace(&mut self.health.lock().not_ready, reasons.clone());
        if before.is_empty() && !reasons.is_empty() {
            tracing::warn!(?reasons, "the store is not ready");
        }
    }

    /// Sums up all shards and keeps what was found.
    pub(crate) async fn look(&self) {
        let found = self.sum().await;
        let mut health = self.health.lock();
        match found {
            Ok(found) => *health = found,
            Err(error) => health.not_ready = vec![error.to_string()],
        }
    }

    async fn sum(&self) -> Result<Health> {
        let servers = self.router.owners().len();
        let mut health = Health {
            location: format!("Redis, {} shards on {servers} servers", self.shards),
            ..Health::default()
        };
        let mut oldest: Option<(Timestamp, Timestamp)> = None;
        for shard in (0..self.shards).map(ShardId) {
            let mut after = Vec::new();
            loop {
                let arguments =
                    |strict| vec![flag(strict), b"names".to_vec(), after.clone(), digits(PAGE)];
                let (_, _, mut reply) = self.strictly(shard, Script::Health, arguments).await?;
                after = reply.bytes()?;
                health.pending += reply.number()?;
                health.in_flight += reply.number()?;
                health.dead += reply.number()?;
                let (paused, full) = (reply.number()?, reply.number()?);
                let todo = reply.text()?;
                if !todo.is_empty() {
                    match self.finish(shard, &todo).await {
                        Ok(Some(spread)) => self.deal_lowered(&spread).await,
                        Ok(None) => {}
                        // It is tried again at the next look.
                        Err(error) => {
                            let todo = todo.replace('\0', " ");
                            tracing::warn!(%error, %todo, "a change is not in every shard yet");
                        }
                    }
                }
                // Every shard has every namespace.
                if shard == ShardId(0) {
                    health.namespaces_paused += paused;
                }
                health.namespaces_dead_full = health.namespaces_dead_full.max(full);
                if after.is_empty() {
                    break;
                }
            }
            loop {
                let arguments =
                    |strict| vec![flag(strict), b"lanes".to_vec(), after.clone(), digits(PAGE)];
                let (_, now, mut reply) = self.strictly(shard, Script::Health, arguments).await?;
                after = reply.bytes()?;
                health.overdue += reply.number()?;
                if let Some(at) = reply.maybe_time()?
                    && oldest.is_none_or(|(known, _)| at < known)
                {
                    oldest = Some((at, now));
                }
                if after.is_empty() {
                    break;
                }
            }
        }
        health.oldest_due_age = oldest.map(|(at, now)| now.saturating_since(at));
        Ok(health)
    }
}
