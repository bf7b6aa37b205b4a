//! The places of connections: how many there are at once, over all and from one address.
//!
//! 1. While every place is taken, a new connection gets that of one that waits for nothing: of the oldest connection
//!    of a stranger, or of one without a call under way. A stranger is a connection that has not shown a valid key;
//!    where no keys are required, one that has sent no request.
//! 2. A stranger has about a second to shake hands and to send a call, unless there are very many. So new connections
//!    do not end each other: one without a call makes way first.
//! 3. A connection that has shown a key, and has a call under way, keeps its place.
//! 4. An address has a limit of its own. Past it, a connection of the same address makes way by these rules. Proxies
//!    and Unix sockets stand for many callers and have no such limit.
//! 5. An address whose connections flooded has a pace ([`Pace`]), also after its last connection. It is remembered for
//!    a bounded number of addresses.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::{WriteProgress, pace::Pace};

/// Connections that are looked at for one that is idle.
const SEARCHED_MAX: usize = 64;
/// Time in which a stranger may show a key.
const STRANGER_TIME: Duration = Duration::from_secs(1);
/// Strangers that have this time, and the part of all places that they may take more of.
const STRANGERS_MIN: usize = 64;
const STRANGERS_PART: usize = 8;
/// Addresses without a connection whose pace is remembered.
const PACES_MAX: usize = 1_024;

/// The places of the connections of a server; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Slots(Arc<Mutex<Table>>);

#[derive(Debug)]
struct Table {
    connections_max: usize,
    per_address_max: usize,
    next: u64,
    entries: HashMap<u64, Entry>,
    all: Places,
    /// Those of each address that has a limit.
    addresses: HashMap<IpAddr, Places>,
    /// The paces of addresses without a connection.
    paces: HashMap<IpAddr, Arc<Pace>>,
}

/// The places of all connections, or of those from one address.
#[derive(Debug, Default)]
struct Places {
    /// That of the address.
    pace: Arc<Pace>,
    /// By age.
    strangers: BTreeSet<u64>,
    /// Connections that have shown a key.
    known: BTreeSet<u64>,
    /// The connection after which the next search for an idle one begins.
    searched: u64,
}

#[derive(Debug)]
struct Entry {
    address: Option<IpAddr>,
    since: Instant,
    progress: WriteProgress,
    signals: ConnectionSignals,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    table: Arc<Mutex<Table>>,
    number: u64,
    signals: ConnectionSignals,
}

/// The state of a connection that its reads depend on, with the request to end it; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionSignals(Arc<SignalsInner>);

#[derive(Debug, Default)]
struct SignalsInner {
    requested: CancellationToken,
    stops_reading: AtomicBool,
    is_known: AtomicBool,
    /// Streams that came to their admission.
    streams: AtomicU32,
    /// That of the address, if it has one.
    pace: Option<Arc<Pace>>,
}

impl ConnectionSignals {
    /// Asks the connection to end.
    pub(crate) fn request(&self) {
        self.0.requested.cancel();
    }

    /// Asks a connection that floods to end without reading any more.
    pub(crate) fn request_at_once(&self) {
        self.0.stops_reading.store(true, Ordering::Release);
        if let Some(pace) = &self.0.pace {
            pace.note_flood();
        }
        self.request();
    }

    /// Returns `true` if the address of the connection may begin one of HTTP/2 now.
    pub(crate) fn may_begin_http2(&self) -> bool {
        self.0.pace.as_ref().is_none_or(|pace| pace.admits())
    }

    /// Returns `true` if nothing more of the connection is to be read.
    pub(crate) fn stops_reading(&self) -> bool {
        self.0.stops_reading.load(Ordering::Acquire)
    }

    /// Notes that the connection has shown a valid key.
    pub(crate) fn note_known(&self) {
        self.0.is_known.store(true, Ordering::Release);
    }

    /// Returns `true` once the connection has shown a valid key.
    pub(crate) fn is_known(&self) -> bool {
        self.0.is_known.load(Ordering::Acquire)
    }

    /// Notes that a stream comes to its admission.
    pub(super) fn note_stream(&self) {
        self.0.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of streams that came to their admission; it wraps.
    pub(crate) fn streams(&self) -> u32 {
        self.0.streams.load(Ordering::Relaxed)
    }

    /// Waits until the connection is to end.
    pub(crate) async fn requested(&self) {
        self.0.requested.cancelled().await;
    }
}

impl Slots {
    /// Creates the places, of which one address may have `per_address_max`.
    pub(crate) fn new(connections_max: usize, per_address_max: usize) -> Self {
        Self(Arc::new(Mutex::new(Table {
            connections_max,
            per_address_max,
            next: 0,
            entries: HashMap::new(),
            all: Places::default(),
            addresses: HashMap::new(),
            paces: HashMap::new(),
        })))
    }

    /// Takes a place for a connection of an address that has a limit; `None` if every connection is busy.
    pub(crate) fn take(&self, address: Option<IpAddr>, progress: &WriteProgress) -> Option<Slot> {
        let mut table = self.0.lock();
        let Table { per_address_max, entries, addresses, .. } = &mut *table;
        if let Some(used) = address.and_then(|it| addresses.get_mut(&it))
            && used.len() >= *per_address_max
        {
            let victim = used.choose(entries, *per_address_max)?;
            table.evict(victim);
        }
        let Table { connections_max, entries, all, .. } = &mut *table;
        if all.len() >= *connections_max {
            let victim = all.choose(entries, *connections_max)?;
            table.evict(victim);
        }
        let number = table.next;
        table.next += 1;
        let own = address.and_then(|_| table.places_of(address).last());
        let pace = own.map(|places| Arc::clone(&places.pace));
        let signals = ConnectionSignals(Arc::new(SignalsInner { pace, ..SignalsInner::default() }));
        let (progress, since) = (progress.clone(), Instant::now());
        let entry = Entry { address, since, progress, signals: signals.clone() };
        for places in table.places_of(address) {
            places.strangers.insert(number);
        }
        table.entries.insert(number, entry);
        drop(table);
        Some(Slot { table: Arc::clone(&self.0), number, signals })
    }
}

impl Places {
    fn len(&self) -> usize {
        self.strangers.len() + self.known.len()
    }

    /// Returns the connection that makes way where there are `most` places: the oldest stranger if its time is over, or
    /// an idle connection, or any stranger.
    fn choose(&mut self, entries: &HashMap<u64, Entry>, most: usize) -> Option<u64> {
        let oldest = self.strangers.first().copied();
        let are_many = self.strangers.len() > STRANGERS_MIN.max(most / STRANGERS_PART);
        let is_late = |number: &u64| {
            entries.get(number).is_some_and(|it| it.since.elapsed() >= STRANGER_TIME)
        };
        let late = oldest.filter(|number| are_many || is_late(number));
        late.or_else(|| self.find_idle(entries)).or(oldest)
    }

    /// Returns a connection without a call under way. The search is short: it takes place while many connections are
    /// made. The next one goes on behind the last connection that was looked at.
    fn find_idle(&mut self, entries: &HashMap<u64, Entry>) -> Option<u64> {
        let is_idle = |number: &u64| entries.get(number).is_some_and(|it| it.progress.is_idle());
        let later = self.known.range(self.searched.saturating_add(1)..);
        let all = later.chain(self.known.range(..=self.searched)).copied();
        let mut searched = self.searched;
        let found = all.take(SEARCHED_MAX).inspect(|number| searched = *number).find(is_idle);
        self.searched = searched;
        found
    }
}

impl Table {
    /// Returns the places that count a connection: all, and those of its address if that has a limit.
    fn places_of(&mut self, address: Option<IpAddr>) -> impl Iterator<Item = &mut Places> {
        let Self { all, addresses, paces, .. } = self;
        let own = address.map(|address| {
            addresses.entry(address).or_insert_with(|| Places {
                pace: paces.remove(&address).unwrap_or_default(),
                ..Places::default()
            })
        });
        std::iter::once(all).chain(own)
    }

    /// Remembers the pace of an address that has no connection any more.
    fn remember(&mut self, address: IpAddr, pace: Arc<Pace>) {
        if !pace.is_active() {
            return;
        }
        if self.paces.len() >= PACES_MAX {
            self.paces.retain(|_, pace| pace.is_active());
        }
        if self.paces.len() < PACES_MAX {
            self.paces.insert(address, pace);
        }
    }

    /// Ends a connection; its place is free.
    fn evict(&mut self, number: u64) {
        if let Some(entry) = self.remove(number) {
            entry.signals.request();
        }
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.entries.remove(&number)?;
        for places in self.places_of(entry.address) {
            places.strangers.remove(&number);
            places.known.remove(&number);
        }
        if let Some(address) = entry.address
            && self.addresses.get(&address).is_some_and(|used| used.len() == 0)
        {
            let gone = self.addresses.remove(&address);
            gone.into_iter().for_each(|used| self.remember(address, used.pace));
        }
        Some(entry)
    }
}

impl Slot {
    /// Returns the request to end the connection.
    pub(crate) const fn signals(&self) -> &ConnectionSignals {
        &self.signals
    }

    /// Notes that the connection has shown a valid key.
    pub(crate) fn note_known(&self) {
        self.signals.note_known();
        let mut table = self.table.lock();
        let Some(address) = table.entries.get(&self.number).map(|entry| entry.address) else {
            return;
        };
        for places in table.places_of(address) {
            if places.strangers.remove(&self.number) {
                places.known.insert(self.number);
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.table.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    fn take(slots: &Slots, from: Option<IpAddr>) -> Option<(Slot, WriteProgress)> {
        let progress = WriteProgress::new(TIMEOUT);
        slots.take(from, &progress).map(|slot| (slot, progress))
    }

    fn ended<const N: usize>(taken: [&(Slot, WriteProgress); N]) -> [bool; N] {
        taken.map(|(slot, _)| slot.signals().0.requested.is_cancelled())
    }

    #[tokio::test(start_paused = true)]
    async fn p10_strangers_and_idle_connections_make_way() {
        let slots = Slots::new(3, 3);
        let [stranger, idle, busy] = [1, 2, 3].map(|it| take(&slots, address(it)).expect("free"));
        idle.0.note_known();
        busy.0.note_known();
        let call = busy.1.begin_call(None);
        advance(STRANGER_TIME).await;
        let later = take(&slots, address(4)).expect("the stranger makes way");
        assert_eq!(ended([&stranger, &idle, &busy]), [true, false, false]);
        later.0.note_known();
        let _call = later.1.begin_call(None);
        let last = take(&slots, address(5)).expect("the idle one makes way");
        assert_eq!(ended([&idle, &busy, &later]), [true, false, false]);
        last.0.note_known();
        let _call = last.1.begin_call(None);
        assert!(take(&slots, address(6)).is_none(), "every connection has a call under way");
        // The place of an ended connection was given away already.
        drop((stranger, idle));
        assert!(take(&slots, address(6)).is_none());
        drop(call);
        assert!(take(&slots, address(6)).is_some());
        drop((busy, later));
        assert!([7, 8].iter().all(|it| take(&slots, address(*it)).is_some()));
    }

    #[tokio::test(start_paused = true)]
    async fn p10_new_connections_do_not_end_each_other() {
        // Over all, and of one address.
        for (slots, from) in [(Slots::new(4, 4), None), (Slots::new(100, 4), address(1))] {
            let taken = [(); 4].map(|()| take(&slots, from).expect("free"));
            taken.iter().for_each(|(slot, _)| slot.note_known());
            let [first, second] = [(); 2].map(|()| take(&slots, from).expect("an idle one"));
            assert_eq!(ended([&first, &second]), [false, false], "{from:?}");
            let lost = ended(taken.each_ref()).into_iter().filter(|it| *it).count();
            assert_eq!(lost, 2, "{from:?}");
            // Each has its time, and no more.
            advance(STRANGER_TIME).await;
            let third = take(&slots, from).expect("the oldest stranger");
            assert_eq!(ended([&first, &second, &third]), [true, false, false], "{from:?}");
            let lost = ended(taken.each_ref()).into_iter().filter(|it| *it).count();
            assert_eq!(lost, 2, "{from:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p10_strangers_take_few_places_of_idle_connections() {
        for (slots, from) in [(Slots::new(160, 160), None), (Slots::new(1_000, 160), address(1))] {
            let taken: Vec<_> = (0..160).map(|_| take(&slots, from).expect("free")).collect();
            taken.iter().for_each(|(slot, _)| slot.note_known());
            let _new: Vec<_> = (0..500).map(|_| take(&slots, from).expect("a place")).collect();
            let lost =
                taken.iter().filter(|(slot, _)| slot.signals().0.requested.is_cancelled()).count();
            assert_eq!(lost, STRANGERS_MIN + 1, "{from:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p10_the_pace_of_an_address_outlives_its_connections() {
        let slots = Slots::new(100, 100);
        let begins = |last: u8| {
            let (slot, _) = take(&slots, address(last)).expect("free");
            slot.signals().may_begin_http2()
        };
        assert!((0..100).all(|_| begins(1)));
        let (flood, _) = take(&slots, address(1)).expect("free");
        flood.signals().request_at_once();
        drop(flood);
        assert_eq!((0..100).filter(|_| begins(1)).count(), 20);
        assert!((0..100).all(|_| begins(2)), "another address");
        let (proxy, _) = take(&slots, None).expect("free");
        proxy.signals().request_at_once();
        assert!((0..100).all(|_| proxy.signals().may_begin_http2()));
        // It is remembered for few addresses, and not for ever.
        for number in 0..2 * PACES_MAX as u32 {
            let from = Some(IpAddr::from(number.to_be_bytes()));
            take(&slots, from).expect("free").0.signals().request_at_once();
        }
        assert_eq!(slots.0.lock().paces.len(), PACES_MAX);
        advance(Duration::from_secs(60)).await;
        assert!((0..100).all(|_| begins(1)));
        for last in [1, 2] {
            take(&slots, address(last)).expect("free").0.signals().request_at_once();
        }
        assert_eq!(slots.0.lock().paces.len(), 2);
    }

    #[tokio::test]
    async fn p10_the_search_for_an_idle_connection_goes_on() {
        const PLACES: usize = 3 * SEARCHED_MAX;
        // Over all, and of one address.
        for (all, from) in [(PLACES, None), (1_000, address(1))] {
            let slots = Slots::new(all, PLACES);
            let taken: Vec<_> = (0..PLACES).map(|_| take(&slots, from).expect("free")).collect();
            taken.iter().for_each(|(slot, _)| slot.note_known());
            let mut calls: Vec<_> = taken.iter().map(|(_, it)| it.begin_call(None)).collect();
            drop(calls.pop());
            let tries = (0..4).position(|_| take(&slots, from).is_some());
            assert_eq!(tries, Some(2), "the last of three searches finds it: {from:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn p10_an_address_has_a_limit_of_connections() {
        let slots = Slots::new(100, 2);
        let [first, second] = [1, 1].map(|it| take(&slots, address(it)).expect("free"));
        first.0.note_known();
        advance(STRANGER_TIME).await;
        let third = take(&slots, address(1)).expect("its own stranger makes way");
        assert_eq!(ended([&first, &second, &third]), [false, true, false]);
        third.0.note_known();
        let calls = [first.1.begin_call(None), third.1.begin_call(None)];
        assert!(take(&slots, address(1)).is_none(), "both have a call under way");
        assert!(take(&slots, address(2)).is_some());
        let unlimited: Vec<_> = (0..50).map(|_| take(&slots, None).expect("no limit")).collect();
        drop(calls);
        assert!(take(&slots, address(1)).is_some(), "an idle one makes way");
        drop((first, second, third, unlimited));
        assert!(slots.0.lock().addresses.is_empty(), "nothing is left");
    }
}
