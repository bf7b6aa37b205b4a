//! Polls the health of the store, so that a request for it returns at once, even when no server replies.
//! The poll also finishes changes of namespaces that a node left unfinished, and compares the namespaces
//! of the shards.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use duly_core::shard::ShardId;
use duly_store::{Health, Result, query::ShardFault};
use tokio::time::Instant;

use crate::{
    access::{AccessPoll, AccessState},
    change::{at_once, digits, flag},
    deployment::Deployment,
    marker::{CoordinatorList, describe, describe_silent},
    router::Contact,
    script::Script,
    skew,
};

/// Interval of the polls of the servers.
const EVERY: Duration = Duration::from_secs(1);
/// Number of these polls between two counts.
const COUNTED_EVERY: u32 = 10;
/// Namespaces, or lanes with something due, that one script sums up.
const PAGE: usize = 100;

/// Age below which a count is not repeated on request.
const FRESH: Duration = Duration::from_secs(1);
/// Divisor: counting on request takes at most one part in this many of the time.
const PART: u32 = 10;

/// The latest count.
#[derive(Debug, Default)]
pub(crate) struct LatestCount {
    /// Its end, and its duration.
    ended: Option<(Instant, Duration)>,
    /// The counts of each shard at its last reply to this process. A shard that is down keeps them, so that its
    /// dead letters do not count as new ones once it replies again.
    shards: BTreeMap<ShardId, Health>,
}

impl LatestCount {
    /// Returns `true` if another count is due.
    fn is_over(&self, now: Instant) -> bool {
        self.ended.is_none_or(|(end, took)| now.duration_since(end) >= FRESH.max(took * PART))
    }

    /// Returns the sums over all shards. Each shard has every namespace, so of those the maximum counts.
    fn sums(&self) -> Health {
        let mut sums = Health::default();
        for shard in self.shards.values() {
            sums.pending += shard.pending;
            sums.in_flight += shard.in_flight;
            sums.dead += shard.dead;
            sums.overdue += shard.overdue;
            sums.oldest_due_age = sums.oldest_due_age.max(shard.oldest_due_age);
            sums.namespaces_paused = sums.namespaces_paused.max(shard.namespaces_paused);
            sums.namespaces_dead_full = sums.namespaces_dead_full.max(shard.namespaces_dead_full);
        }
        sums
    }
}

/// Polls until it is aborted.
pub(crate) async fn watch(deployment: Arc<Deployment>) {
    loop {
        for _ in 0..COUNTED_EVERY {
            tokio::time::sleep(EVERY).await;
            deployment.ping().await;
        }
        deployment.count(&mut *deployment.counted.lock().await).await;
    }
}

impl Deployment {
    /// Checks that the servers reply and that their clocks agree, and polls shards that take no calls.
    async fn ping(&self) {
        let mut silent = HashMap::new();
        let mut readings = Vec::new();
        for server in self.router.owners().into_keys() {
            let reason = match self.router.contact(&server).await {
                Contact::Replied(reading) => {
                    readings.push(reading);
                    continue;
                }
                Contact::Refused(fault) => {
                    self.router.set_fault_of_master(&server, fault);
                    continue;
                }
                Contact::Failed(reason) => reason,
                Contact::Silent(silence) => silence.to_string(),
                Contact::Pending | Contact::Unanswered => continue,
            };
            silent.insert(server, reason);
        }
        if !silent.is_empty() {
            // A replica may have taken over. Without a reply the owners stay as they are.
            let _unknown = self.router.refresh_owners().await;
        }
        let mut unavailable = self.unavailable_shards().await;
        let mut warnings: Vec<_> = unavailable
            .chunk_by(|(_, before), (_, after)| before == after)
            .map(|alike| {
                let shards: Vec<_> = alike.iter().map(|(shard, _)| *shard).collect();
                describe(alike[0].1, &shards)
            })
            .collect();
        self.add_faults_of_masters(&silent, &mut unavailable, &mut warnings).await;
        let mut reasons = Vec::from_iter(skew::find_skew(&readings));
        // While one shard takes calls, they are executed.
        if unavailable.len() == usize::from(self.shards) {
            reasons.push(format!("no shard takes calls: {}", warnings.join("; ")));
        }
        if self.access.is_doubtful() {
            self.settle_keys(self.access_states().await).await;
        }
        let rolled_back = self.access.rolled_back();
        let mut health = self.health.lock();
        health.keys_rolled_back = rolled_back.is_some();
        warnings.extend(rolled_back);
        health.unavailable_shards = unavailable;
        health.rollbacks = self.rollbacks.count();
        if health.not_ready.is_empty() && !reasons.is_empty() {
            tracing::warn!(?reasons, "store not ready; polling every second");
        }
        (health.not_ready, health.warnings) = (reasons, warnings);
    }

    /// Returns the shards that take no calls, after another read of their markers.
    async fn unavailable_shards(&self) -> Vec<(ShardId, ShardFault)> {
        let all = || (0..self.shards).map(ShardId);
        let faulty = || all().filter_map(|shard| Some((shard, self.router.fault(shard)?)));
        // A server that is down is polled again later.
        at_once(faulty().map(|(shard, _)| self.refresh_fault(shard))).await;
        let mut unavailable: Vec<_> = faulty().collect();
        unavailable.sort_by_key(|(_, fault)| *fault);
        unavailable
    }

    /// Adds the shards of masters that do not reply, for these reasons, or have a fault, after a trial of each. Adds a
    /// warning for each master.
    async fn add_faults_of_masters(
        &self,
        silent: &HashMap<String, String>,
        unavailable: &mut Vec<(ShardId, ShardFault)>,
        warnings: &mut Vec<String>,
    ) {
        let trials = self.router.owners().into_iter().map(async |(server, mut shards)| {
            let fault = match silent.get(&server) {
                Some(_) => None,
                None => Some(self.router.retry_master(&server, &shards).await?),
            };
            shards.retain(|shard| self.router.fault(*shard).is_none());
            let warning = match &fault {
                Some(fault) => fault.describe(&server, &shards),
                None => describe_silent(&server, &shards, &silent[&server]),
            };
            Some((shards, fault.map_or(ShardFault::Silent, |fault| fault.kind), warning))
        });
        let mut faults: Vec<_> = at_once(trials).await.into_iter().flatten().collect();
        faults.sort_unstable();
        for (shards, kind, warning) in faults {
            unavailable.extend(shards.into_iter().map(|shard| (shard, kind)));
            warnings.push(warning);
        }
    }

    /// Counts again, unless a count is recent. Concurrent callers share one count.
    pub(crate) async fn recount(&self) {
        let mut counted = self.counted.lock().await;
        if counted.is_over(Instant::now()) {
            self.count(&mut counted).await;
        }
    }

    async fn count(&self, counted: &mut LatestCount) {
        let began = Instant::now();
        self.sum_up(counted).await;
        counted.ended = Some((Instant::now(), began.elapsed()));
    }

    /// Counts the shards and checks their health. The next request counts again.
    pub(crate) async fn poll(&self) {
        self.sum_up(&mut *self.counted.lock().await).await;
    }

    /// Sums up the shards, keeps the sums, and finishes unfinished changes.
    async fn sum_up(&self, counted: &mut LatestCount) {
        let mut newest = self.list.lock().clone();
        let (mut digests, mut keys) = (BTreeSet::new(), self.access.begin_poll());
        for shard in (0..self.shards).map(ShardId) {
            match self.sum(shard).await {
                Ok((sums, digest, list, access)) => {
                    digests.insert(digest);
                    keys.states.push((shard, access));
                    counted.shards.insert(shard, sums);
                    if list.own.version > newest.own.version {
                        newest = list;
                    } else if list.own.version < newest.own.version {
                        // The shard was down when the list changed. A later poll tries again.
                        let _later = self.accept(shard, &newest).await;
                    }
                }
                Err(error) => {
                    tracing::debug!(
                        shard = shard.0,
                        %error,
                        "shard not counted; the next poll tries again"
                    );
                }
            }
        }
        self.keep_list(newest).await;
        self.settle_keys(keys).await;
        // Namespaces that need repair stop no others: they are counted, and the store stays ready.
        if digests.len() <= 1 {
            self.remember_lost(BTreeSet::new());
        } else if let Err(error) = self.reconcile().await {
            tracing::debug!(
                %error,
                "namespaces of the shards not compared; the next poll tries again"
            );
        }
        let mut sums = counted.sums();
        sums.namespaces_to_repair = self.to_repair.lock().len() as u64;
        {
            let mut health = self.health.lock();
            let last_ping = std::mem::take(&mut *health);
            *health = Health {
                not_ready: last_ping.not_ready,
                warnings: last_ping.warnings,
                unavailable_shards: last_ping.unavailable_shards,
                rollbacks: last_ping.rollbacks,
                keys_rolled_back: last_ping.keys_rolled_back,
                ..sums
            };
        }
        self.ping().await;
    }

    /// Gives the shards of a poll the newest keys.
    async fn settle_keys(&self, poll: AccessPoll) {
        if let Err(error) = self.settle_access(poll, ShardId(0)).await {
            tracing::debug!(%error, "keys not in every shard yet; the next poll tries again");
        }
    }

    /// Returns the counts of one shard, the digest of the names and numbers of its namespaces, its list of
    /// coordinator shards, and the state of its keys.
    async fn sum(&self, shard: ShardId) -> Result<(Health, u64, CoordinatorList, AccessState)> {
        let mut sums = Health::default();
        let mut digest = 0_u64;
        let mut after = Vec::new();
        let (list, access) = loop {
            let arguments =
                |strict| vec![flag(strict), b"names".to_vec(), after.clone(), digits(PAGE)];
            let (_, _, mut reply) = self.call_swept(shard, Script::Health, arguments).await?;
            after = reply.bytes()?;
            sums.pending += reply.number()?;
            sums.in_flight += reply.number()?;
            sums.dead += reply.number()?;
            let (paused, full) = (reply.number()?, reply.number()?);
            let todo = reply.text()?;
            digest = digest.wrapping_add(reply.number()?);
            if !todo.is_empty() {
                self.finish_later(&todo).await;
            }
            sums.namespaces_paused += paused;
            sums.namespaces_dead_full += full;
            let list = CoordinatorList::from_reply(&mut reply)?;
            self.rollbacks.note_seen(shard, reply.number()?);
            let access = AccessState::from_reply(&mut reply)?;
            if after.is_empty() {
                break (list, access);
            }
        };
        loop {
            let arguments =
                |strict| vec![flag(strict), b"lanes".to_vec(), after.clone(), digits(PAGE)];
            let (_, now, mut reply) = self.call_swept(shard, Script::Health, arguments).await?;
            after = reply.bytes()?;
            sums.overdue += reply.number()?;
            let age = reply.maybe_time()?.map(|at| now.saturating_since(at));
            sums.oldest_due_age = sums.oldest_due_age.max(age);
            if after.is_empty() {
                return Ok((sums, digest, list, access));
            }
        }
    }

    /// Finishes a change of a namespace that a node left unfinished.
    async fn finish_later(&self, todo: &str) {
        match self.finish(todo).await {
            Ok(Some(spread)) => self.allocate_lowered(&spread).await,
            Ok(None) => {}
            // The next poll tries again.
            Err(error) => {
                let todo = todo.replace('\0', " ");
                tracing::warn!(
                    %error,
                    %todo,
                    "namespace change not in every shard yet; the next poll tries again"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_on_request_takes_a_tenth_of_the_time_at_most() {
        let now = Instant::now();
        let check = |took_ms: u64, after_ms: u64, wanted: bool| {
            let counted = LatestCount {
                ended: Some((now, Duration::from_millis(took_ms))),
                ..LatestCount::default()
            };
            let is_over = counted.is_over(now + Duration::from_millis(after_ms));
            assert_eq!(is_over, wanted, "{took_ms} ms, {after_ms} ms later");
        };
        assert!(LatestCount::default().is_over(now), "nothing was counted yet");
        check(5, 999, false);
        check(5, 1_000, true);
        check(400, 3_999, false);
        check(400, 4_000, true);
    }
}
