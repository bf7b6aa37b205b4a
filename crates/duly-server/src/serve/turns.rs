//! Turns of strangers: connections that have not shown a valid key are polled a few at a time (P10).
//!
//! A stranger decides how much there is to parse. Many of them at once would each wait in the run queue of the threads
//! before a caller with a key, whose calls need a moment.
//!
//! 1. Half of the threads serve strangers, and the run queue holds as many of them. A turn ends with the poll.
//! 2. A connection is a stranger until its first call has shown its key. The next turn goes to a
//!    connection that had few turns and whose network has few others that wait: a caller with a key needs few of both, and a
//!    flood many. Every [`OLDEST_EVERY`]th turn goes to the connection that waits longest, so none waits for ever.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::connection::ConnectionSignals;

/// Each turn that is a multiple of this goes to the connection that waits longest.
const OLDEST_EVERY: u64 = 8;

/// The turns of all strangers; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    free: usize,
    /// The number of the next wait.
    next: u64,
    /// The number of granted turns.
    turns: u64,
    waiting: BTreeMap<Place, (Waker, Option<IpAddr>)>,
    /// The places by the age of the wait.
    oldest: BTreeMap<u64, Place>,
    /// The number of waiting connections of each network that has one.
    networks: HashMap<IpAddr, u64>,
    /// Connections that were woken for a turn, and have not begun it.
    granted: usize,
}

/// The place of a connection in the queue: the sum of its turns and of the waiting connections of its network, and the
/// number of its wait.
type Place = (u64, u64);

impl Turns {
    /// Creates the turns for this number of threads.
    pub(super) fn new(threads: usize) -> Self {
        let free = (threads / 2).max(1);
        Self(Arc::new(Mutex::new(Queue { free, ..Queue::default() })))
    }

    /// Returns the turns of one connection. Without a network, as behind a proxy, those of others do not count.
    pub(super) fn of(
        &self,
        signals: ConnectionSignals,
        network: Option<IpAddr>,
    ) -> ConnectionTurns {
        ConnectionTurns { queue: Arc::clone(&self.0), signals, network, taken: 0, place: None }
    }
}

impl Queue {
    /// Wakes a connection for each free turn.
    fn grant(&mut self) {
        while self.granted < self.free {
            let oldest = self.oldest.first_key_value().map(|(_, place)| *place);
            let fewest = self.waiting.first_key_value().map(|(place, _)| *place);
            let is_for_oldest = (self.turns + 1).is_multiple_of(OLDEST_EVERY);
            let Some(place) = (if is_for_oldest { oldest } else { fewest }) else { return };
            self.turns += 1;
            self.granted += 1;
            self.remove(place).expect("it waits").wake();
        }
    }

    /// Adds a connection of this network, or replaces its waker. Returns its place.
    fn wait(
        &mut self,
        place: Option<Place>,
        connection: (Waker, Option<IpAddr>),
        turns: u64,
    ) -> Place {
        let place = place.unwrap_or_else(|| {
            self.next += 1;
            let others = connection.1.map_or(0, |network| {
                let waiting = self.networks.entry(network).or_default();
                *waiting += 1;
                *waiting - 1
            });
            let place = (turns.saturating_add(others), self.next);
            self.oldest.insert(place.1, place);
            place
        });
        self.waiting.insert(place, connection);
        place
    }

    /// Removes a connection that waits. Returns its waker.
    fn remove(&mut self, place: Place) -> Option<Waker> {
        let (waker, network) = self.waiting.remove(&place)?;
        self.oldest.remove(&place.1);
        if let Some(network) = network
            && let Entry::Occupied(mut waiting) = self.networks.entry(network)
        {
            *waiting.get_mut() -= 1;
            if *waiting.get() == 0 {
                waiting.remove();
            }
        }
        Some(waker)
    }
}

/// The turns of one connection.
#[derive(Debug)]
pub(super) struct ConnectionTurns {
    queue: Arc<Mutex<Queue>>,
    signals: ConnectionSignals,
    network: Option<IpAddr>,
    taken: u64,
    /// Its place while it waits, or is granted a turn.
    place: Option<Place>,
}

impl ConnectionTurns {
    /// Polls the connection: that of a stranger in its turn, which ends with the poll.
    pub(super) fn poll<F: Future>(
        &mut self,
        context: &mut Context<'_>,
        connection: Pin<&mut F>,
    ) -> Poll<F::Output> {
        if self.signals.is_known() {
            self.leave();
            return connection.poll(context);
        }
        let Some(_turn) = self.take(context) else { return Poll::Pending };
        connection.poll(context)
    }

    /// Leaves the queue; a granted turn goes to the next.
    fn leave(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut queue = self.queue.lock();
        if queue.remove(place).is_none() {
            queue.granted -= 1;
            queue.grant();
        }
    }

    /// Takes a turn, or waits for one.
    fn take(&mut self, context: &Context<'_>) -> Option<Turn> {
        let mut queue = self.queue.lock();
        let is_granted = self.place.is_some_and(|it| !queue.waiting.contains_key(&it));
        if is_granted {
            queue.granted -= 1;
        }
        if !is_granted && queue.free <= queue.granted {
            let connection = (context.waker().clone(), self.network);
            self.place = Some(queue.wait(self.place, connection, self.taken));
            return None;
        }
        if let Some(place) = self.place.take() {
            queue.remove(place);
        }
        queue.free -= 1;
        drop(queue);
        self.taken = self.taken.saturating_add(1);
        Some(Turn(Arc::clone(&self.queue)))
    }
}

impl Drop for ConnectionTurns {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A turn, until it is dropped.
struct Turn(Arc<Mutex<Queue>>);

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.free += 1;
        queue.grant();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    async fn take(stranger: &mut ConnectionTurns) -> Option<Turn> {
        poll_fn(|context| Poll::Ready(stranger.take(context))).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn p10_few_strangers_are_polled_at_once() {
        let turns = Turns::new(4);
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let strangers: Vec<_> = (0..64)
            .map(|_| {
                let mut turns = turns.of(ConnectionSignals::default(), None);
                let (at_once, most) = (Arc::clone(&at_once), Arc::clone(&most));
                let mut left = 5;
                let connection = poll_fn(move |context| {
                    most.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_micros(100));
                    at_once.fetch_sub(1, Ordering::SeqCst);
                    left -= 1;
                    context.waker().wake_by_ref();
                    if left == 0 { Poll::Ready(()) } else { Poll::Pending }
                });
                let mut connection = Box::pin(connection);
                tokio::spawn(poll_fn(move |context| turns.poll(context, connection.as_mut())))
            })
            .collect();
        for stranger in strangers {
            stranger.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn p10_a_connection_with_a_key_needs_no_turn() {
        let turns = Turns::new(1);
        let mut other = turns.of(ConnectionSignals::default(), None);
        let _taken = poll_fn(|context| Poll::Ready(other.take(context))).await.expect("free");
        let signals = ConnectionSignals::default();
        let mut of_connection = turns.of(signals.clone(), None);
        let mut connection = Box::pin(std::future::ready(()));
        let polled =
            poll_fn(|context| Poll::Ready(of_connection.poll(context, connection.as_mut())));
        assert!(polled.await.is_pending());
        signals.note_known();
        let polled =
            poll_fn(|context| Poll::Ready(of_connection.poll(context, connection.as_mut())));
        assert!(polled.await.is_ready());
    }

    #[tokio::test]
    async fn p10_connections_that_had_few_turns_come_first() {
        let turns = Turns::new(1);
        let mut other = turns.of(ConnectionSignals::default(), None);
        let mut turn = take(&mut other).await;
        let mut strangers = Vec::new();
        for taken in [7, 3, 0, 3, 1, 2, 0] {
            let signals = ConnectionSignals::default();
            let mut stranger = turns.of(signals.clone(), None);
            stranger.taken = taken;
            assert!(take(&mut stranger).await.is_none());
            strangers.push((stranger, signals));
        }
        // One ends while it waits, and one shows its key.
        strangers.remove(5);
        let (mut known, signals) = strangers.pop().unwrap();
        signals.note_known();
        let mut connection = pin!(std::future::ready(()));
        poll_fn(|context| known.poll(context, connection.as_mut())).await;
        for expected in [2, 4, 1, 3, 0] {
            drop(turn);
            let is_granted = |(stranger, _): &(ConnectionTurns, _)| {
                stranger.place.is_some_and(|it| !turns.0.lock().waiting.contains_key(&it))
            };
            assert_eq!(strangers.iter().position(is_granted), Some(expected));
            assert!(take(&mut other).await.is_none(), "the granted turn is kept");
            other.leave();
            turn = take(&mut strangers[expected].0).await;
            assert!(turn.is_some());
        }
        drop((turn, strangers));
        let queue = turns.0.lock();
        assert_eq!((queue.free, queue.granted, queue.waiting.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn p10_connections_of_one_network_wait_behind_others() {
        let turns = Turns::new(1);
        let network = |last| Some(IpAddr::from([10, 0, 0, last]));
        let mut other = turns.of(ConnectionSignals::default(), None);
        let turn = take(&mut other).await;
        let mut strangers = Vec::new();
        for last in [1, 1, 1, 2, 1, 3, 1, 2] {
            let mut stranger = turns.of(ConnectionSignals::default(), network(last));
            assert!(take(&mut stranger).await.is_none());
            strangers.push(stranger);
        }
        // One ends while it waits.
        strangers.remove(0);
        drop(turn);
        let mut order = Vec::new();
        while let Some(place) = strangers.iter().position(|stranger| {
            stranger.place.is_some_and(|it| !turns.0.lock().waiting.contains_key(&it))
        }) {
            let mut stranger = strangers.remove(place);
            order.push(stranger.network.unwrap());
            drop(take(&mut stranger).await.expect("it was granted"));
        }
        assert_eq!(order, [2, 3, 1, 2, 1, 1, 1].map(|last| network(last).unwrap()));
        let queue = turns.0.lock();
        assert_eq!((queue.networks.len(), queue.waiting.len(), queue.free), (0, 0, 1));
    }

    #[tokio::test]
    async fn p10_a_connection_waits_behind_few_that_come_later() {
        let turns = Turns::new(1);
        let mut other = turns.of(ConnectionSignals::default(), None);
        let mut turn = take(&mut other).await;
        let mut waiting = turns.of(ConnectionSignals::default(), None);
        waiting.taken = u64::MAX;
        assert!(take(&mut waiting).await.is_none());
        for _ in 0..OLDEST_EVERY {
            let mut later = turns.of(ConnectionSignals::default(), None);
            assert!(take(&mut later).await.is_none());
            drop(turn);
            turn = take(&mut later).await;
            if turn.is_none() {
                assert!(take(&mut waiting).await.is_some(), "it was granted");
                return;
            }
        }
        panic!("it waits behind all that come later");
    }
}
