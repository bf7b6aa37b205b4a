//! Fault: slots move to another master while their timers are scheduled and fire.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rand::seq::IteratorRandom;

use super::{InjectedFault, TestCluster, elapsed, sleep};
use crate::clock::now_us;
use crate::torture::nodes::redis::RedisServer;
use crate::torture::nodes::resp::RedisReply;

/// Slots moved at once.
const SLOTS: usize = 4;

/// Keys moved at once.
const KEYS: usize = 20;

/// Time between two moves of keys: long enough for calls that find a slot half moved.
const BETWEEN: Duration = Duration::from_millis(5);

pub(super) async fn move_slots(cluster: &mut TestCluster) -> Result<InjectedFault> {
    let from = cluster.random_master()?;
    let masters = cluster.redis.masters()?;
    let others = masters.iter().copied().filter(|master| *master != from);
    let to = others.choose(&mut cluster.rng).context("another master")?;
    let peers = &cluster.redis.peers;
    let (from, to) = (&peers[from], &peers[to]);
    let slots = slots_with_keys(from)?.into_iter().choose_multiple(&mut cluster.rng, SLOTS);
    let from_us = now_us();
    let mut keys = 0;
    for slot in &slots {
        keys += move_slot(*slot, from, to).await?;
        let owner = to.command("CLUSTER MYID")?;
        // The new owner first, so that the slot always has an owner.
        let rest = masters.iter().map(|master| &peers[*master]);
        for peer in [to, from].into_iter().chain(rest) {
            peer.command_ok(&format!("CLUSTER SETSLOT {slot} NODE {owner}"))?;
        }
    }
    let (from, to, slots) = (&from.host.name, &to.host.name, slots.len());
    let took = elapsed(from_us);
    let text = format!("{slots} slots with {keys} keys from {from} to {to} in {took:.1?}");
    Ok(InjectedFault { from_us, text })
}

/// Returns the slots of a server that hold keys: all keys of a shard have the same hash tag.
pub(super) fn slots_with_keys(peer: &RedisServer) -> Result<BTreeSet<i64>> {
    let tags: BTreeSet<Vec<u8>> = peer
        .command_bytes(&[b"KEYS", b"*"])?
        .items()
        .iter()
        .filter_map(|key| hash_tag(key))
        .collect();
    tags.iter()
        .map(|hash_tag| match peer.command_bytes(&[b"CLUSTER", b"KEYSLOT", hash_tag])? {
            RedisReply::Number(slot) => Ok(slot),
            other => bail!("a slot is a number: {other:?}"),
        })
        .collect()
}

/// Returns the hash tag of a key, which determines its slot, with its braces.
fn hash_tag(key: &[u8]) -> Option<Vec<u8>> {
    let from = key.iter().position(|byte| *byte == b'{')?;
    let to = from + key[from..].iter().position(|byte| *byte == b'}')?;
    Some(key[from..=to].to_vec())
}

/// Moves the keys of a slot; returns their number.
async fn move_slot(slot: i64, from: &RedisServer, to: &RedisServer) -> Result<usize> {
    let (source, target) = (from.command("CLUSTER MYID")?, to.command("CLUSTER MYID")?);
    to.command_ok(&format!("CLUSTER SETSLOT {slot} IMPORTING {source}"))?;
    from.command_ok(&format!("CLUSTER SETSLOT {slot} MIGRATING {target}"))?;
    let (slot, most) = (slot.to_string(), KEYS.to_string());
    let (address, port) = (to.host.address.to_string(), to.server.port().to_string());
    let mut moved = 0;
    loop {
        let query: [&[u8]; 4] = [b"CLUSTER", b"GETKEYSINSLOT", slot.as_bytes(), most.as_bytes()];
        let keys = from.command_bytes(&query)?.items();
        if keys.is_empty() {
            return Ok(moved);
        }
        let mut migrate: Vec<&[u8]> = vec![b"MIGRATE", address.as_bytes(), port.as_bytes()];
        migrate.extend([&b""[..], b"0", b"5000", b"KEYS"]);
        migrate.extend(keys.iter().map(Vec::as_slice));
        from.command_bytes(&migrate)?;
        moved += keys.len();
        sleep(BETWEEN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_key_is_between_its_first_braces() {
        assert_eq!(hash_tag(b"duly:{3}:x{4}").as_deref(), Some(&b"{3}"[..]));
        assert_eq!(hash_tag(b"duly"), None);
    }
}
