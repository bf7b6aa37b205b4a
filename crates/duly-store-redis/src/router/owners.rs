//! The owners: which server has which shard, as the Cluster reports it.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use duly_core::{error_code::Retry, shard::ShardId};
use redis::{Value, cmd};
use tokio::time;

use super::{CallKind, PAUSE, Router};
use crate::{OpenError, Opened, keys};

/// Least time between two reads of the owners for calls to servers that are down.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// Time after a failed connect in which a server is asked last.
const AWAY: Duration = Duration::from_secs(1);

impl Router {
    /// Returns the servers that have shards, with the shards of each.
    pub(crate) fn owners(&self) -> HashMap<String, Vec<ShardId>> {
        let mut found: HashMap<String, Vec<ShardId>> = HashMap::new();
        for (shard, server) in (0..).zip(self.owners.lock().iter()) {
            found.entry(server.clone()).or_default().push(ShardId(shard));
        }
        found
    }

    /// Asks the Cluster which master has which slot. If every server that replies knows slots without a master, the reply
    /// with the most owners counts, and the shards of these slots keep the servers that they had. Of several errors
    /// it returns one that does not pass by itself, if there is one.
    pub(crate) async fn refresh_owners(&self) -> Opened<()> {
        if !self.address.cluster {
            return Ok(());
        }
        let mut known: Vec<String> = self.owners.lock().clone();
        known.extend(self.address.servers.iter().cloned());
        known.extend(self.servers.lock().keys().cloned());
        known.sort_unstable();
        known.dedup();
        known.sort_by_cached_key(|server| self.is_away(server));
        let mut failed: Option<OpenError> = None;
        let mut most = Vec::new();
        for server in known {
            let asked = match self.check_out(&server, CallKind::Question).await {
                Ok(pooled) => {
                    let asked = pooled.command(cmd("CLUSTER").arg("SLOTS")).await;
                    if asked.is_err() {
                        pooled.drop_connection().await;
                    }
                    asked
                }
                Err(error) => Err(error),
            };
            let error = match asked.map(|value| self.owners_in(&value, &server)) {
                Ok(owners) if owners.iter().all(Option::is_some) => {
                    self.learn(owners);
                    return Ok(());
                }
                Ok(owners) => {
                    let count = |owners: &[Option<String>]| owners.iter().flatten().count();
                    if count(&owners) > count(&most) {
                        most = owners;
                    }
                    let reason = "it does not know an owner of every slot".to_owned();
                    OpenError::NotReady { address: server, reason }
                }
                Err(error) => OpenError::of(&server, &error),
            };
            if failed.as_ref().is_none_or(|failed| failed.retry() != Retry::Never) {
                failed = Some(error);
            }
        }
        if !most.is_empty() {
            self.learn(most);
            return Ok(());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the owner of each shard by a reply of `CLUSTER SLOTS`.
    fn owners_in(&self, slots: &Value, asked: &str) -> Vec<Option<String>> {
        let Value::Array(ranges) = slots else { return vec![None; self.seqs.len()] };
        let asked_host = asked.rsplit_once(':').map_or(asked, |(host, _)| host);
        let mut found = Vec::new();
        for range in ranges {
            let Value::Array(parts) = range else { continue };
            let (Some(Value::Int(from)), Some(Value::Int(to)), Some(Value::Array(master))) =
                (parts.first(), parts.get(1), parts.get(2))
            else {
                continue;
            };
            let host = match master.first() {
                Some(Value::BulkString(host)) if !host.is_empty() => {
                    String::from_utf8_lossy(host).into_owned()
                }
                _ => asked_host.to_owned(),
            };
            let Some(Value::Int(port)) = master.get(1) else { continue };
            found.push((*from..=*to, format!("{host}:{port}")));
        }
        let owner = |seq: &String| {
            let slot = i64::from(keys::slot_of(seq));
            let range = found.iter().find(|(range, _)| range.contains(&slot));
            range.map(|(_, server)| server.clone())
        };
        self.seqs.iter().map(owner).collect()
    }

    /// Takes the owners of shards that have one.
    fn learn(&self, found: Vec<Option<String>>) {
        let mut known = self.owners.lock();
        for (owner, found) in known.iter_mut().zip(found) {
            if let Some(found) = found {
                *owner = found;
            }
        }
        let owners = known.clone();
        drop(known);
        self.end_probes_of_others(&owners);
    }

    /// Forgets servers that have no shard any more, so that their probes end.
    fn end_probes_of_others(&self, owners: &[String]) {
        let is_used = |name: &String| owners.contains(name) || self.address.servers.contains(name);
        self.servers.lock().retain(|name, _| is_used(name));
        self.earlier.lock().retain(|name, _| is_used(name));
    }

    /// Returns `true` if a shard has another owner than the server that took no call.
    ///
    /// All calls together have the owners read again once in a while, one at a time: with many shards, calls for a server
    /// that is down are many. A call that skips its server waits for nothing.
    pub(super) async fn has_moved(&self, shard: ShardId, server: &str, skips: bool) -> bool {
        let refreshed_at = match skips {
            true => self.refreshed_at.try_lock().ok(),
            false => Some(self.refreshed_at.lock().await),
        };
        if let Some(mut at) = refreshed_at.filter(|_| self.address.cluster)
            && at.is_none_or(|at| at.elapsed() >= REFRESH_EVERY)
        {
            time::sleep(PAUSE).await;
            // If no server knows better, the owners stay.
            let _unknown = self.refresh_owners().await;
            *at = Some(Instant::now());
        }
        self.owners.lock()[usize::from(shard.0)] != server
    }

    /// Returns `true` if a server took no connection within the last second.
    fn is_away(&self, server: &String) -> bool {
        let servers = self.servers.lock();
        servers.get(server).is_some_and(|server| {
            let failed = server.failed.lock();
            let has_failed = failed.as_ref().is_some_and(|(at, _)| at.elapsed() < AWAY);
            has_failed || server.liveness.is_silent()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, address::Address, connection::ConnectOptions};

    #[tokio::test]
    async fn servers_without_a_shard_are_forgotten() {
        let url = "redis-cluster://127.0.0.1:1";
        let options = Options::new(url);
        let address = Address::new(&options).expect("a URL");
        let router = Router::new(address, ConnectOptions::new(&options, "d"), 1, 1, None);
        let slots = |port| {
            let master =
                Value::Array(vec![Value::BulkString(b"127.0.0.1".to_vec()), Value::Int(port)]);
            let range = Value::Array(vec![Value::Int(0), Value::Int(16_383), master]);
            Value::Array(vec![range])
        };
        let known = || {
            let mut names: Vec<_> = router.servers.lock().keys().cloned().collect();
            names.sort_unstable();
            names
        };
        for port in 1..4 {
            router.learn(router.owners_in(&slots(port), "127.0.0.1:1"));
            router.owners().keys().for_each(|server| drop(router.server(server)));
            let mut expected = vec!["127.0.0.1:1".to_owned(), format!("127.0.0.1:{port}")];
            expected.dedup();
            assert_eq!(known(), expected, "the configured server stays");
        }
    }
}
