//! Repeated deliveries: after a lost connection, after a restart of the server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_client::{Client, Consumer, Dedup, Firing, State};
use tokio::sync::Notify;

use crate::{
    proxy::Proxy,
    server::{DONE, NAMESPACE, Server, due, soon, until, until_state},
};

/// A handler that waits for a signal, and counts its calls.
#[derive(Clone, Default)]
struct Slow {
    begun: Arc<AtomicUsize>,
    finish: Arc<Notify>,
    finished: Arc<AtomicUsize>,
}

impl Slow {
    fn consume(&self, client: &Client, dedup: Dedup) -> Consumer {
        let slow = self.clone();
        let handler = move |_: Firing| {
            let slow = slow.clone();
            async move {
                slow.begun.fetch_add(1, Ordering::SeqCst);
                slow.finish.notified().await;
                slow.finished.fetch_add(1, Ordering::SeqCst);
                DONE
            }
        };
        client.consumer(NAMESPACE).dedup(dedup).start(handler).unwrap()
    }

    async fn has_begun(&self, count: usize) {
        until(|| async { self.begun.load(Ordering::SeqCst) == count }).await;
    }
}

/// Handles a firing, loses its acknowledgement, and lets it be delivered again.
async fn lose_a_confirmation(dedup: Dedup) -> (usize, duly_client::Counts) {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr()).await;
    let (shaky, steady) = (Client::new(proxy.url()).unwrap(), server.client());
    due(&steady, "x").await;
    let slow = Slow::default();
    let consumer = slow.consume(&shaky, dedup);
    slow.has_begun(1).await;
    proxy.hold_calls();
    slow.finish.notify_one();
    until(|| async { slow.finished.load(Ordering::SeqCst) == 1 }).await;
    assert_eq!(steady.get(NAMESPACE, "x").await.unwrap().state(), State::InFlight);
    proxy.cut();
    if dedup.entries_max == 0 {
        slow.has_begun(2).await;
        slow.finish.notify_one();
    }
    until_state(&steady, "x", State::Finished).await;
    until(|| async { consumer.counts().acked == 1 }).await;
    let counts = soon(consumer.stop()).await.unwrap();
    (slow.begun.load(Ordering::SeqCst), counts)
}

#[tokio::test(flavor = "multi_thread")]
async fn handled_firing_is_acknowledged_again_without_its_handler() {
    let (calls, counts) = lose_a_confirmation(Dedup::default()).await;
    assert_eq!(calls, 1);
    assert_eq!((counts.received, counts.acked, counts.duplicates), (2, 1, 1), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_deduplication_it_is_handled_again() {
    let dedup = Dedup { entries_max: 0, keep: Duration::from_secs(600) };
    let (calls, counts) = lose_a_confirmation(dedup).await;
    assert_eq!((calls, counts.duplicates), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn running_handler_rejoins_its_firing_after_a_server_restart() {
    let server = Server::start().await;
    let client = server.client();
    due(&client, "x").await;
    let slow = Slow::default();
    let consumer = slow.consume(&client, Dedup::default());
    slow.has_begun(1).await;
    let server = server.stop().await.start().await;
    until(|| async { consumer.counts().continued == 1 }).await;
    slow.finish.notify_one();
    until_state(&client, "x", State::Finished).await;
    assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
    // The claim that ended with the server's stop counts too: its firing may have been received.
    assert_eq!(client.get(NAMESPACE, "x").await.unwrap().attempts, 2);
    // It also continues with new firings.
    due(&server.client(), "y").await;
    slow.has_begun(2).await;
    slow.finish.notify_one();
    until_state(&client, "y", State::Finished).await;
    until(|| async { consumer.counts().acked == 2 }).await;
    let counts = soon(consumer.stop()).await.unwrap();
    assert!(counts.connected >= 2, "{counts:?}");
}
