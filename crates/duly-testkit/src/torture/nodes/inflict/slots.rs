//! Slots that move to another master while their timers are scheduled and fire.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;

use super::{Done, Stage, some_master};
use crate::clock::now_us;
use crate::torture::nodes::redis::Peer;

/// Slots moved at once.
const SLOTS: usize = 4;

/// Keys moved at once.
const KEYS: usize = 20;

/// Time between two moves of keys: long enough for calls that find a slot half moved.
const BETWEEN: Duration = Duration::from_millis(5);

pub(super) async fn move_some(stage: &mut Stage, rng: &mut SmallRng) -> Result<Done> {
    let from = some_master(stage, rng)?;
    let others: Vec<usize> =
        stage.redis.masters(None)?.into_iter().filter(|master| *master != from).collect();
    let to = others[rng.random_range(0..others.len())];
    let masters = stage.redis.masters(None)?;
    let peers = &stage.redis.peers;
    let (from, to) = (&peers[from], &peers[to]);
    let slots = slots_with_keys(from)?.into_iter().choose_multiple(rng, SLOTS);
    let from_us = now_us();
    let mut keys = 0;
    for slot in &slots {
        keys += move_slot(*slot, from, to).await?;
        let owner = to.tell("CLUSTER MYID")?;
        // The new owner first: so nobody is left without one.
        let rest = masters.iter().map(|master| &peers[*master]);
        for peer in [to, from].into_iter().chain(rest) {
            peer.order(&format!("CLUSTER SETSLOT {slot} NODE {owner}"))?;
        }
    }
    let took = Duration::from_micros(now_us() - from_us);
    let (from, to, slots) = (&from.host.name, &to.host.name, slots.len());
    let text = format!("{slots} slots with {keys} keys from {from} to {to} in {took:.1?}");
    Ok(Done::since(from_us, text))
}

/// Slots of a server that hold keys: all keys of a shard have the same tag.
fn slots_with_keys(peer: &Peer) -> Result<BTreeSet<u16>> {
    let keys = peer.list("KEYS *")?;
    let tag = |key: &String| Some(key.split_once('{')?.1.split_once('}')?.0.to_owned());
    let tags: BTreeSet<String> = keys.iter().filter_map(tag).collect();
    tags.iter()
        .map(|tag| {
            let slot = peer.tell(&format!("CLUSTER KEYSLOT {{{tag}}}"))?;
            Ok(slot.strip_prefix(':').context("a slot is a number")?.parse()?)
        })
        .collect()
}

/// Moves the keys of a slot; answers how many.
async fn move_slot(slot: u16, from: &Peer, to: &Peer) -> Result<usize> {
    let (giver, taker) = (from.tell("CLUSTER MYID")?, to.tell("CLUSTER MYID")?);
    to.order(&format!("CLUSTER SETSLOT {slot} IMPORTING {giver}"))?;
    from.order(&format!("CLUSTER SETSLOT {slot} MIGRATING {taker}"))?;
    let mut moved = 0;
    loop {
        let keys = from.list(&format!("CLUSTER GETKEYSINSLOT {slot} {KEYS}"))?;
        if keys.is_empty() {
            return Ok(moved);
        }
        ensure!(keys.iter().all(|key| !key.contains(' ')), "a key with a space: {keys:?}");
        let (address, port) = (to.host.address, to.port());
        let keys_text = keys.join(" ");
        let command = format!("MIGRATE {address} {port} \"\" 0 5000 KEYS {keys_text}");
        match from.tell(&command)?.as_str() {
            "+OK" | "+NOKEY" => moved += keys.len(),
            other => bail!("{} answered MIGRATE with {other}", from.host.name),
        }
        tokio::time::sleep(BETWEEN).await;
    }
}
