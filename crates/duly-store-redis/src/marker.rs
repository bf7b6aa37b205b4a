//! The marker of a shard: the deployment that its data belongs to.
//!
//! 1. Every shard holds a marker from before its first timer on. It has the deployment id, the number of
//!    shards, the format, the name and the coordinator shards of the members.
//! 2. A script that finds something missing, or is about to create something, checks the marker first
//!    (`expect_marker` in `scripts/base.lua`). Operations on a timer that exists do not.
//! 3. A shard whose marker is missing, foreign or held takes no calls: each call returns `unavailable`
//!    and names the repair command. Nothing is created in it. The other shards continue.
//! 4. Only `duly store repair` writes a marker into a shard of a deployment that was complete.

use std::sync::atomic::{AtomicU64, Ordering};

use duly_core::shard::ShardId;
use duly_store::{Coordinators, Result, query::ShardFault};

use crate::{
    access::AccessState,
    change::{at_once, flag},
    connection::Call,
    error::damaged,
    reply::Reply,
    router::Router,
    script::Script,
};

/// Fields of a marker, in the order in which [`Marker::read`] takes their values.
pub(crate) const FIELDS: [&str; 11] = [
    "id", "shards", "format", "name", "list", "prev", "progress", "held", "sealed", "access",
    "features",
];

/// Identity of a deployment, the same in each of its markers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Random id, drawn when the deployment was created or adopted.
    pub(crate) id: String,
    pub(crate) shards: u16,
    pub(crate) name: String,
}

/// The marker of one shard.
#[derive(Debug, Clone)]
pub(crate) struct Marker {
    pub(crate) identity: Identity,
    /// The number of its layout; see `features.rs`.
    pub(crate) format: String,
    /// The features that a build must know, if the number says that they are named.
    pub(crate) features: String,
    pub(crate) list: CoordinatorList,
    /// Progress of the shard; see `rollback.rs`.
    pub(crate) progress: u64,
    /// Milliseconds by which the shard was rolled back, until an operator confirms it.
    pub(crate) held: Option<u64>,
    /// `true`: no node of an older build can act any more (`older.rs`).
    pub(crate) is_sealed: bool,
    /// State of the keys of callers.
    pub(crate) access: AccessState,
}

/// The coordinator shards of the members, with the list that they followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CoordinatorList {
    pub(crate) own: Coordinators,
    /// The previous list, of which a majority has accepted `own`; `None` for the first list.
    pub(crate) before: Option<Coordinators>,
}

impl Marker {
    /// Parses the values of [`FIELDS`]; `None` when there is no marker.
    pub(crate) fn read(values: Vec<Option<Vec<u8>>>) -> Result<Option<Self>> {
        let mut values = values.into_iter().map(|value| {
            let text = value.map(String::from_utf8).transpose();
            text.map_err(|_| damaged("a marker that is not UTF-8"))
        });
        let mut next = || values.next().transpose().map(Option::flatten);
        let Some(id) = next()? else { return Ok(None) };
        let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
        let (shards, format) = (number(next()?), next()?);
        let name = next()?.unwrap_or_default();
        let (list, before) = (next()?.unwrap_or_default(), next()?.unwrap_or_default());
        let shards = shards.and_then(|shards| u16::try_from(shards).ok());
        let (Some(shards), Some(format)) = (shards, format) else {
            return Err(damaged("the marker of a shard"));
        };
        let identity = Identity { id, shards, name };
        let list = CoordinatorList::read(&list, &before)?;
        let progress = number(next()?).unwrap_or(0);
        let (held, is_sealed) = (number(next()?), next()?.is_some());
        let access = AccessState::parse(&next()?.unwrap_or_default());
        let access = access.ok_or_else(|| damaged("the state of keys in a marker"))?;
        let features = next()?.unwrap_or_default();
        Ok(Some(Self { identity, format, features, list, progress, held, is_sealed, access }))
    }
}

impl CoordinatorList {
    /// Parses the texts of a list and of the one before it.
    pub(crate) fn read(own: &str, before: &str) -> Result<Self> {
        let own = parse(own).ok_or_else(|| damaged("the coordinator shards of a marker"))?;
        Ok(Self { own, before: parse(before) })
    }

    /// Returns the texts of the list and of the one before it.
    pub(crate) fn texts(&self) -> [String; 2] {
        [text(&self.own), self.before.as_ref().map(text).unwrap_or_default()]
    }

    /// Parses both texts from the reply of a script.
    pub(crate) fn from_reply(reply: &mut Reply) -> Result<Self> {
        let (own, before) = (reply.text()?, reply.text()?);
        Self::read(&own, &before)
    }
}

/// Returns a list as text: `<version>:<shard>,<shard>,…`.
fn text(list: &Coordinators) -> String {
    let shards: Vec<_> = list.shards.iter().map(|shard| shard.0.to_string()).collect();
    format!("{}:{}", list.version, shards.join(","))
}

fn parse(text: &str) -> Option<Coordinators> {
    let (version, shards) = text.split_once(':')?;
    let shards: Option<Vec<_>> =
        shards.split(',').map(|shard| shard.parse().ok().map(ShardId)).collect();
    Some(Coordinators { version: version.parse().ok()?, shards: shards? })
}

/// The fault of each shard, as this node saw its marker last.
///
/// A read of a marker takes time, and a repair may end meanwhile. So the result of a read is stored only
/// if no other result was stored since the read began.
#[derive(Debug)]
pub(crate) struct ShardFaults(Vec<AtomicU64>);

/// The stored fault at the start of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeforeRead(u64);

impl ShardFaults {
    pub(crate) fn new(shards: u16) -> Self {
        Self((0..shards).map(|_| AtomicU64::default()).collect())
    }

    pub(crate) fn get(&self, shard: ShardId) -> Option<ShardFault> {
        fault_in(self.before_read(shard).0)
    }

    pub(crate) fn before_read(&self, shard: ShardId) -> BeforeRead {
        BeforeRead(self.0[usize::from(shard.0)].load(Ordering::Relaxed))
    }

    /// Stores a fault, and returns the one before it.
    pub(crate) fn set(&self, shard: ShardId, fault: Option<ShardFault>) -> Option<ShardFault> {
        loop {
            if let Some(before) = self.set_read(shard, self.before_read(shard), fault) {
                return before;
            }
        }
    }

    /// Stores the result of a read, and returns the fault before it; `None` if another result was stored
    /// since the read began.
    pub(crate) fn set_read(
        &self,
        shard: ShardId,
        before: BeforeRead,
        fault: Option<ShardFault>,
    ) -> Option<Option<ShardFault>> {
        let number = fault.map_or(0, |fault| fault as u64 + 1);
        let after = (((before.0 >> FAULT_BITS) + 1) << FAULT_BITS) | number;
        let cell = &self.0[usize::from(shard.0)];
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        cell.compare_exchange(before.0, after, success, failure).ok().map(fault_in)
    }
}

/// Bits of a stored fault; those above them count the stores.
const FAULT_BITS: u32 = 8;

fn fault_in(cell: u64) -> Option<ShardFault> {
    let place = usize::from(cell.to_le_bytes()[0]).checked_sub(1)?;
    ShardFault::ALL.get(place).copied()
}

/// Returns the fault that a marker means for the deployment of this id; `None` if the shard takes calls.
pub(crate) fn fault_of(marker: Option<&Marker>, id: &str) -> Option<ShardFault> {
    match marker {
        None => Some(ShardFault::Missing),
        Some(marker) if marker.identity.id != id => Some(ShardFault::Foreign),
        Some(marker) => marker.held.map(|_| ShardFault::RolledBack),
    }
}

/// Returns the text of the fault that the data of these shards have, with its remedy.
pub(crate) fn describe(fault: ShardFault, shards: &[ShardId]) -> String {
    let list = list_of(shards);
    if fault == ShardFault::OpenSlot {
        return format!(
            "shard {list}: the move of its slot to another server has not ended: a part of its keys, or all, are \
             there, because it is under way or was interrupted; finish the move with `redis-cli --cluster fix HOST:PORT` of any server of the \
             Cluster"
        );
    }
    if fault == ShardFault::NoOwner {
        return format!(
            "shard {list}: its slot has no master, or the Cluster is down; start the masters, or give the slot an owner with \
             `redis-cli --cluster fix HOST:PORT` of any server of the Cluster"
        );
    }
    let (fault, remedy) = match fault {
        ShardFault::Missing => (
            "no marker, so the data is lost",
            "restore the server from a backup, or accept the loss",
        ),
        ShardFault::Foreign => (
            "data of another deployment",
            "give each deployment a database of its own, or empty the shard and accept the loss",
        ),
        _ => (
            "older data than before, so the shard is held",
            "check what is missing, and confirm it",
        ),
    };
    format!("shard {list}: {fault}; {remedy} with `duly store repair --shard {list}`")
}

/// Returns the text of a master with these shards that does not reply, with its remedy.
pub(crate) fn describe_silent(server: &str, shards: &[ShardId], reason: &str) -> String {
    format!(
        "shard {}: master {server} does not reply: {reason}; start it, or wait until a replica takes over",
        list_of(shards)
    )
}

/// Returns the numbers of shards, separated by commas.
pub(crate) fn list_of(shards: &[ShardId]) -> String {
    let numbers: Vec<_> = shards.iter().map(|shard| shard.0.to_string()).collect();
    numbers.join(",")
}

/// Optional changes that a call of `write_marker.lua` makes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MarkerNote {
    /// `true`: an operator confirms that the shard was rolled back.
    pub(crate) confirms: bool,
    /// `true`: the record of the deployment is restored, in shard 0.
    pub(crate) restores: bool,
    /// `true`: no node of an older build can act any more.
    pub(crate) is_sealed: bool,
}

/// Writes a marker. A new one names these features.
///
/// # Errors
/// When the shard belongs to another deployment, or does not reply.
pub(crate) async fn write_marker(
    router: &Router,
    shard: ShardId,
    identity: &Identity,
    list: &CoordinatorList,
    features: &str,
    note: MarkerNote,
) -> Result<()> {
    let [own, before] = list.texts();
    let texts = [identity.id.clone(), identity.shards.to_string(), features.to_owned()];
    let texts = texts.into_iter().chain([identity.name.clone(), own, before]);
    let flags = [note.confirms, note.restores, note.is_sealed].map(flag);
    let arguments = texts.map(String::into_bytes).chain(flags).collect();
    let call = Call::new(Script::WriteMarker, arguments);
    let mut reply = Reply::list(router.call(shard, call).await?)?;
    if reply.text()? == "OK" {
        return Ok(());
    }
    let other = reply.text()?;
    Err(damaged(format!("a shard belongs to another deployment, of id {other}")))
}

/// Reads the markers of all shards.
pub(crate) async fn read_all(
    router: &Router,
    shards: u16,
) -> Vec<(ShardId, Result<Option<Marker>>)> {
    let shards = (0..shards).map(ShardId);
    at_once(shards.map(async |shard| (shard, router.marker(shard).await))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_result_of_a_read_does_not_undo_a_repair() {
        let (faults, shard) = (ShardFaults::new(2), ShardId(1));
        faults.set(shard, Some(ShardFault::RolledBack));
        let before = faults.before_read(shard);
        assert_eq!(faults.set(shard, None), Some(ShardFault::RolledBack));
        assert_eq!(faults.set_read(shard, before, Some(ShardFault::RolledBack)), None);
        assert_eq!(faults.get(shard), None);
        let before = faults.before_read(shard);
        assert_eq!(faults.set_read(shard, before, Some(ShardFault::Missing)), Some(None));
        assert_eq!((faults.get(shard), faults.get(ShardId(0))), (Some(ShardFault::Missing), None));
    }
}
