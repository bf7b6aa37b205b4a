//! The table of namespaces: settings, exact counts, totals, lanes.
//!
//! A namespace has a number that every record and index entry carries. A deleted one gives its
//! number up for good: what is left of it drops out when it is met.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use duly_core::{NamespaceName, Settings, Timestamp};
use duly_store::{namespaces::Namespace as View, query::Totals};
use rustc_hash::FxHashMap;

use crate::{
    format::record::NamespaceRecord,
    index::{Claimable, Kind, NAMESPACE_MAX, PackedKey},
};

use super::lanes::{Lane, Lanes};

/// A namespace and all that is counted in it.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: NamespaceName,
    pub(crate) settings: Arc<Settings>,
    pub(crate) paused: bool,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) totals: Totals,
    pub(crate) lanes: Lanes,
    /// Pending, unleased, no attempt failed.
    pub(crate) first: u64,
    /// Pending, unleased, an attempt failed.
    pub(crate) retrying: u64,
    pub(crate) in_flight: u64,
    pub(crate) pending_bytes: u64,
    /// Dead letters by (due, delivery id).
    pub(crate) letters: BTreeSet<(u64, u128)>,
    /// Stubs in the order in which they ended; some may have gone already.
    pub(crate) stubs: VecDeque<(u64, PackedKey)>,
    pub(crate) retained: u64,
    /// Bytes of its record.
    pub(crate) record_bytes: u64,
}

impl Namespace {
    pub(crate) fn new(record: NamespaceRecord) -> Self {
        Self {
            name: record.name,
            settings: record.settings,
            paused: record.paused,
            created_at: record.created_at,
            updated_at: record.updated_at,
            totals: record.totals,
            lanes: Lanes::default(),
            first: 0,
            retrying: 0,
            in_flight: 0,
            pending_bytes: 0,
            letters: BTreeSet::new(),
            stubs: VecDeque::new(),
            retained: 0,
            record_bytes: 0,
        }
    }

    pub(crate) const fn pending(&self) -> u64 {
        self.first + self.retrying + self.in_flight
    }

    pub(crate) fn dead(&self) -> u64 {
        self.letters.len() as u64
    }

    /// Whether claims are granted.
    pub(crate) fn is_claimable(&self) -> bool {
        !self.paused && self.dead() < self.settings.limits.max_dead
    }

    pub(crate) fn record(&self) -> NamespaceRecord {
        NamespaceRecord {
            name: self.name.clone(),
            settings: Arc::clone(&self.settings),
            paused: self.paused,
            created_at: self.created_at,
            updated_at: self.updated_at,
            totals: self.totals,
        }
    }

    pub(crate) fn view(&self) -> View {
        View {
            name: self.name.clone(),
            settings: Arc::clone(&self.settings),
            paused: self.paused,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

/// All namespaces.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    by_number: FxHashMap<u32, Namespace>,
    by_name: BTreeMap<NamespaceName, u32>,
    next_number: u32,
    /// Bytes of the table of namespaces, as it is written at each roll.
    table_bytes: u64,
    /// Lanes whose due sets are not empty.
    pub(crate) active: BTreeSet<(NamespaceName, u8)>,
}

impl Namespaces {
    pub(crate) fn number_of(&self, name: &NamespaceName) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Namespace> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Namespace> {
        self.by_number.get_mut(&number)
    }

    /// The number that a new namespace gets.
    pub(crate) fn free_number(&self) -> Option<u32> {
        (self.next_number < NAMESPACE_MAX).then_some(self.next_number + 1)
    }

    /// Bytes of the table of namespaces.
    pub(crate) const fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Bytes that a namespace takes in the table.
    pub(crate) fn bytes_of(&self, number: u32) -> u64 {
        self.by_number.get(&number).map_or(0, |namespace| namespace.record_bytes)
    }

    /// Writes what a record of this size says.
    pub(crate) fn put(&mut self, number: u32, record: NamespaceRecord, record_bytes: u64) {
        self.table_bytes = self.table_bytes - self.bytes_of(number) + record_bytes;
        self.next_number = self.next_number.max(number);
        self.by_name.insert(record.name.clone(), number);
        match self.by_number.get_mut(&number) {
            Some(known) => {
                known.settings = record.settings;
                known.paused = record.paused;
                known.updated_at = record.updated_at;
                known.totals = record.totals;
                known.record_bytes = record_bytes;
            }
            None => {
                let namespace = Namespace { record_bytes, ..Namespace::new(record) };
                self.by_number.insert(number, namespace);
            }
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<Namespace> {
        let gone = self.by_number.remove(&number)?;
        self.table_bytes -= gone.record_bytes;
        self.by_name.remove(&gone.name);
        for (lane, _) in gone.lanes.iter() {
            self.active.remove(&(gone.name.clone(), lane));
        }
        Some(gone)
    }

    /// Names in order, after one.
    pub(crate) fn names_after(
        &self,
        after: Option<&NamespaceName>,
    ) -> impl Iterator<Item = (&NamespaceName, u32)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        self.by_name
            .range::<NamespaceName, _>((from, Unbounded))
            .map(|(name, number)| (name, *number))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.by_number.iter().map(|(number, namespace)| (*number, namespace))
    }

    /// Adds a timer to its lane's due set.
    pub(crate) fn due(&mut self, number: u32, lane: u8, claimable: Claimable, key: PackedKey) {
        let Some(namespace) = self.by_number.get_mut(&number) else {
            return;
        };
        if namespace.lanes.get(lane).is_some_and(Lane::is_idle) {
            self.active.insert((namespace.name.clone(), lane));
        }
        namespace.lanes.due(lane, claimable, key);
    }

    /// Brings [`Namespaces::active`] up to date for a lane that may have become idle.
    pub(crate) fn refresh_active(&mut self, number: u32, lane: u8) {
        let Some(namespace) = self.by_number.get(&number) else {
            return;
        };
        if namespace.lanes.get(lane).is_none_or(Lane::is_idle) {
            self.active.remove(&(namespace.name.clone(), lane));
        }
    }
}

impl Namespace {
    /// The count of unleased timers of this kind.
    pub(crate) const fn waiting_mut(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::First => &mut self.first,
            Kind::Retry => &mut self.retrying,
        }
    }
}
