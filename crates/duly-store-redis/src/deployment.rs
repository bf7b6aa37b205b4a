//! State that all calls of a store share: the router, and what this node knows of namespaces.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
    sync::{Arc, atomic::AtomicU32},
};

use duly_core::{
    DeliveryId, Incarnation, NamespaceName, Settings, TimerId, Timestamp, Tombstone,
    payload::PAYLOAD_BYTES_HARD, shard::ShardId,
};
use duly_decide::{Case, LiveTimer};
use duly_record::packed::decode_settings;
use duly_store::{Health, Result, deployment::Announcement};
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use xxhash_rust::xxh3::xxh3_64;

use crate::{
    access::KnownAccess,
    change::digits,
    connection::Call,
    error::damaged,
    health::LatestCount,
    keys,
    marker::{CoordinatorList, Identity},
    namespaces::LastCheck,
    older::OlderMembers,
    options::Options,
    quota::{NamespaceLimit, Rebalance},
    record::{self, Record, read_lease, unreadable},
    reply::Reply,
    rollback::Rollbacks,
    router::Router,
    row::{Control, Row, SeenBytes},
    script::Script,
};

/// Most namespaces whose settings are remembered.
pub(crate) const KNOWN_MAX: usize = 10_000;

/// Announcements that are kept for a listener that lags; a lost one costs at most a second.
const ANNOUNCEMENTS: usize = 1_024;

/// The shared state of a store.
#[derive(Debug)]
pub(crate) struct Deployment {
    pub(crate) router: Router,
    pub(crate) shards: u16,
    pub(crate) identity: Identity,
    pub(crate) namespaces_max: u64,
    /// Seed that distinguishes tokens of this deployment from those of another.
    pub(crate) seed: u64,
    /// The coordinator shards of the members.
    pub(crate) list: Mutex<CoordinatorList>,
    /// Held while this node and a shard agree on one of two lists.
    pub(crate) settling_list: Arc<tokio::sync::Mutex<()>>,
    /// Polls in a row that found another list better.
    pub(crate) better_for: AtomicU32,
    pub(crate) older: Mutex<OlderMembers>,
    pub(crate) access: KnownAccess,
    pub(crate) rollbacks: Rollbacks,
    pub(crate) wakeups: Vec<watch::Sender<u64>>,
    pub(crate) announced: broadcast::Sender<Announcement>,
    pub(crate) health: Mutex<Health>,
    /// Held while the shards are counted.
    pub(crate) counted: tokio::sync::Mutex<LatestCount>,
    /// Rebalances of limits that are under way.
    pub(crate) rebalances: Known<NamespaceLimit, Rebalance>,
    /// Namespaces known to have a rate (`schedule_per_second`).
    pub(crate) rated: Mutex<HashSet<NamespaceName>>,
    /// Names that no shard had a moment ago.
    pub(crate) absences: Known<NamespaceName, LastCheck>,
    /// Namespaces known to need repair.
    pub(crate) to_repair: Mutex<BTreeSet<NamespaceName>>,
    /// Searches for tombstones to drop that are under way; `true`: the settings have changed again since.
    pub(crate) trims: Mutex<HashMap<(ShardId, NamespaceName), bool>>,
    /// Settings by the number of their namespace, with their version.
    known: Mutex<HashMap<String, (String, Arc<Settings>)>>,
}

/// Selects the timer to read.
#[derive(Debug, Clone)]
pub(crate) struct ReadRequest<'a> {
    pub(crate) space: NamespaceRef<'a>,
    pub(crate) id: Option<&'a TimerId>,
    /// The dead letter to read, instead of the latest of the id.
    pub(crate) dead_letter: Option<DeliveryId>,
    /// A firing of the id whose dead letter is read too.
    pub(crate) firing: Option<(Incarnation, u32)>,
    /// Most bytes of a payload stored apart that is read too; 0: none is.
    pub(crate) payload_bytes_max: u64,
}

/// A namespace, by its name or its number.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NamespaceRef<'a> {
    Named(&'a NamespaceName),
    Numbered(&'a str),
}

/// A state for each key that all callers share. All are forgotten at once when they are too many.
#[derive(Debug)]
pub(crate) struct Known<K, V>(pub(crate) Mutex<HashMap<K, Arc<V>>>);

impl<K: Clone + Eq + Hash, V: Default> Known<K, V> {
    pub(crate) fn of(&self, key: &K) -> Arc<V> {
        let mut all = self.0.lock();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        Arc::clone(all.entry(key.clone()).or_default())
    }
}

impl<'a> ReadRequest<'a> {
    /// Selects a timer with its payload.
    pub(crate) const fn new(name: &'a NamespaceName, id: &'a TimerId) -> Self {
        let bare = Self::bare(NamespaceRef::Named(name), Some(id));
        Self { payload_bytes_max: u64::MAX, ..bare }
    }

    /// Selects a timer without a payload stored apart, or only the namespace.
    pub(crate) const fn bare(space: NamespaceRef<'a>, id: Option<&'a TimerId>) -> Self {
        Self { space, id, dead_letter: None, firing: None, payload_bytes_max: 0 }
    }
}

impl Deployment {
    pub(crate) fn new(
        router: Router,
        identity: Identity,
        list: CoordinatorList,
        is_sealed: bool,
        options: &Options,
    ) -> Self {
        let shards = identity.shards;
        Self {
            router,
            shards,
            seed: xxh3_64(identity.name.as_bytes()),
            identity,
            namespaces_max: options.namespaces_max,
            list: Mutex::new(list),
            settling_list: Arc::default(),
            better_for: AtomicU32::default(),
            older: Mutex::new(OlderMembers::new(is_sealed)),
            access: KnownAccess::default(),
            rollbacks: Rollbacks::new(shards, options.on_rollback),
            wakeups: (0..shards).map(|_| watch::Sender::new(0)).collect(),
            announced: broadcast::Sender::new(ANNOUNCEMENTS),
            health: Mutex::default(),
            counted: tokio::sync::Mutex::default(),
            rebalances: Known(Mutex::default()),
            rated: Mutex::default(),
            absences: Known(Mutex::default()),
            to_repair: Mutex::default(),
            trims: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Calls a script whose reply is a list.
    pub(crate) async fn call_script(
        &self,
        shard: ShardId,
        script: Script,
        arguments: Vec<Vec<u8>>,
    ) -> Result<Reply> {
        Reply::list(self.router.call(shard, Call::new(script, arguments)).await?)
    }

    /// Returns `number:version` of the remembered settings of a namespace, so that scripts leave them
    /// out of their replies. Empty if there are none. A read by name does not know the number, so it
    /// names no settings.
    pub(crate) fn known_of(&self, num: &str) -> Vec<u8> {
        let known = self.known.lock();
        known.get(num).map_or_else(Vec::new, |(ver, _)| format!("{num}:{ver}").into_bytes())
    }

    /// Returns the settings of this version: those in `blob`, or the remembered ones.
    pub(crate) fn settings_of(&self, num: &str, ver: &str, blob: &[u8]) -> Result<Arc<Settings>> {
        if let Some(settings) = self.remembered(num, ver) {
            return Ok(settings);
        }
        if blob.is_empty() {
            return Err(damaged("settings are missing"));
        }
        let settings = Arc::new(decode_settings(blob).map_err(unreadable)?);
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(num.to_owned(), (ver.to_owned(), Arc::clone(&settings)));
        Ok(settings)
    }

    /// Returns the remembered settings of this version, if any.
    pub(crate) fn remembered(&self, num: &str, ver: &str) -> Option<Arc<Settings>> {
        let known = self.known.lock();
        known.get(num).filter(|(known, _)| known == ver).map(|(_, settings)| Arc::clone(settings))
    }

    /// Reads one id; `None` when there is no such namespace.
    pub(crate) async fn row(&self, shard: ShardId, wanted: ReadRequest<'_>) -> Result<Option<Row>> {
        let (space, known) = match wanted.space {
            NamespaceRef::Named(name) => (name.as_str().to_owned(), Vec::new()),
            NamespaceRef::Numbered(num) => (format!("#{num}"), self.known_of(num)),
        };
        let firing = wanted
            .id
            .zip(wanted.firing)
            .map(|(id, (incarnation, occurrence))| keys::firing_key(id, incarnation, occurrence));
        let arguments = vec![
            space.into_bytes(),
            wanted.id.map_or_else(Vec::new, |id| id.as_str().as_bytes().to_vec()),
            wanted.dead_letter.map_or_else(Vec::new, |did| did.to_u128().to_be_bytes().to_vec()),
            digits(wanted.payload_bytes_max.min(PAYLOAD_BYTES_HARD)),
            known,
            firing.unwrap_or_default(),
        ];
        let mut reply = self.call_script(shard, Script::Read, arguments).await?;
        let now = reply.time()?;
        if reply.is_done() {
            return Ok(None);
        }
        let control = self.control(&mut reply, now)?;
        let dead = reply.number()?;
        let (core, payload) = (reply.bytes()?, reply.bytes()?);
        let (lease, tombstone) = (reply.bytes()?, reply.bytes()?);
        let (entry, dead_letter, dead_letter_payload) =
            (reply.bytes()?, reply.bytes()?, reply.bytes()?);
        let other_dead_letter = reply.bytes()?;
        let id = TimerId::new(&reply.text()?).or_else(|_| TimerId::new("-"));
        let id = id.expect("a dash is an id");
        let bytes_max = wanted.payload_bytes_max;
        let live = unless_empty(&core, |packed| {
            let record = with_payload(&id, packed, payload, bytes_max)?;
            Ok(LiveTimer { record, lease: read_lease(&lease).map_err(unreadable)? })
        })?;
        let over_until = reply.maybe_time()?;
        let retention = control.settings.retention;
        let is_kept = |tombstone: &Tombstone| {
            tombstone.ended_at.saturating_add(retention) > now
                && over_until.is_none_or(|over| tombstone.ended_at > over)
        };
        let kept = unless_empty(&tombstone, |packed| {
            record::decode_tombstone(id.clone(), packed).map_err(unreadable)
        })?;
        let dead_letter_core = record::core_of(&dead_letter).map_err(unreadable)?.to_vec();
        let dead_letter = unless_empty(&dead_letter, |packed| {
            with_payload(&id, packed, dead_letter_payload, bytes_max)
        })?;
        let other_dead_letter = unless_empty(&other_dead_letter, |packed| {
            Ok(Record::unpack(id.clone(), packed).map_err(unreadable)?.timer)
        })?;
        let seen = SeenBytes {
            core: record::core_of(&core).map_err(unreadable)?.to_vec(),
            lease,
            tombstone,
            newest: wanted.dead_letter.is_none().then_some(entry),
            dead_letter_core,
        };
        let case = Case {
            id,
            now,
            namespace: control.name.clone(),
            settings: Arc::clone(&control.settings),
            dead,
            live,
            tombstone: kept.filter(is_kept),
            has_tombstone_row: !seen.tombstone.is_empty(),
            dead_letter,
            other_dead_letter,
        };
        Ok(Some(Row { case, control, seen }))
    }

    /// Reads what is fixed for a namespace from the reply of a script.
    pub(crate) fn control(&self, reply: &mut Reply, now: Timestamp) -> Result<Control> {
        let name = reply.name()?;
        let (num, ver) = (reply.text()?, reply.text()?);
        let blob = reply.bytes()?;
        let paused = reply.flag()?;
        let resumes_at = reply.maybe_time()?;
        let (created_at, updated_at) = (reply.time()?, reply.time()?);
        let resumed = resumes_at.filter(|at| paused && *at <= now);
        Ok(Control {
            name,
            settings: self.settings_of(&num, &ver, &blob)?,
            num,
            ver,
            paused: paused && resumed.is_none(),
            resumes_at: resumes_at.filter(|_| paused && resumed.is_none()),
            created_at,
            updated_at: resumed.unwrap_or(updated_at),
        })
    }

    /// Wakes the tasks that wait for something claimable in a shard.
    pub(crate) fn wake(&self, shard: ShardId) {
        if let Some(wakeups) = self.wakeups.get(usize::from(shard.0)) {
            wakeups.send_modify(|count| *count = count.wrapping_add(1));
        }
    }
}

/// Reads what a script returned, unless that is empty.
fn unless_empty<T>(bytes: &[u8], read: impl FnOnce(&[u8]) -> Result<T>) -> Result<Option<T>> {
    (!bytes.is_empty()).then(|| read(bytes)).transpose()
}

/// Unpacks a record with its payload, unless the payload has more than `bytes_max` bytes.
fn with_payload(id: &TimerId, packed: &[u8], payload: Vec<u8>, bytes_max: u64) -> Result<Record> {
    let mut record = Record::unpack(id.clone(), packed).map_err(unreadable)?;
    let is_wanted = record.apart.as_ref().is_some_and(|apart| apart.bytes <= bytes_max);
    if is_wanted && !payload.is_empty() && !record.attach(&payload.into()).map_err(unreadable)? {
        return Err(damaged(format!("the payload of timer {id} belongs to another record")));
    }
    Ok(record)
}
