//! Turns of strangers: connections that have not shown a valid key are polled a few at a time (P10).
//!
//! A stranger decides how much there is to parse. Many of them at once would each wait in the run queue of the threads
//! before a caller with a key, whose calls need a moment. So half of the threads serve strangers, in the order
//! in which these have something to do, and the run queue holds as many of them. A caller waits for a turn until its
//! first call has shown its key.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

use crate::connection::ConnectionSignals;

/// The turns of all strangers; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Semaphore>);

impl Turns {
    /// Creates the turns for this number of threads.
    pub(super) fn new(threads: usize) -> Self {
        Self(Arc::new(Semaphore::new((threads / 2).max(1))))
    }

    /// Returns the turns of one connection.
    pub(super) fn of(&self, signals: ConnectionSignals) -> ConnectionTurns {
        ConnectionTurns { turns: PollSemaphore::new(Arc::clone(&self.0)), signals }
    }
}

/// The turns of one connection.
#[derive(Debug)]
pub(super) struct ConnectionTurns {
    turns: PollSemaphore,
    signals: ConnectionSignals,
}

impl ConnectionTurns {
    /// Polls the connection: that of a stranger in its turn, which ends with the poll.
    pub(super) fn poll<F: Future>(
        &mut self,
        context: &mut Context<'_>,
        connection: Pin<&mut F>,
    ) -> Poll<F::Output> {
        let _turn = match self.signals.is_known() {
            true => None,
            false => ready!(self.turns.poll_acquire(context)),
        };
        connection.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn p10_few_strangers_are_polled_at_once() {
        let turns = Turns::new(4);
        let (at_once, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let strangers: Vec<_> = (0..64)
            .map(|_| {
                let mut turns = turns.of(ConnectionSignals::default());
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
        let _taken = turns.0.acquire().await.unwrap();
        let signals = ConnectionSignals::default();
        let mut of_connection = turns.of(signals.clone());
        let mut connection = Box::pin(std::future::ready(()));
        let polled =
            poll_fn(|context| Poll::Ready(of_connection.poll(context, connection.as_mut())));
        assert!(polled.await.is_pending());
        signals.note_known();
        let polled =
            poll_fn(|context| Poll::Ready(of_connection.poll(context, connection.as_mut())));
        assert!(polled.await.is_ready());
    }
}
