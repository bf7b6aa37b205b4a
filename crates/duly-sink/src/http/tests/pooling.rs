//! The number of kept connections, and the time for which they are kept.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;

use super::{connection::Http2, receiver::After, *};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

async fn keeping() -> Raw {
    Raw::by_connection(&[(&[OK, OK, OK, OK], After::Stall)]).await
}

#[tokio::test]
async fn idle_connections_are_bounded_for_each_origin() {
    let raw = keeping().await;
    let sink = sink_with(|options| options.bounds.idle_per_origin_max = 2);
    let many = (0..5).map(|_| sink.deliver(envelope(destination(raw.address), b"x")));
    for delivery in join_all(many).await {
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert!(sink.pool.kept() <= 2, "{} kept", sink.pool.kept());
}

#[tokio::test]
async fn idle_connections_are_bounded_in_all_and_the_oldest_goes() {
    let raws = [keeping().await, keeping().await, keeping().await];
    let sink = sink_with(|options| options.bounds.idle_max = 2);
    let to = |raw: &Raw| envelope(destination(raw.address), b"x");
    for raw in &raws {
        assert_eq!(sink.deliver(to(raw)).await, Delivery::Confirmed);
    }
    assert_eq!((sink.pool.kept(), sink.pool.origins()), (2, 2), "nothing is left of the first");
    // The last two are still connected, the first has to connect again.
    for (raw, connections) in raws.iter().zip([2, 1, 1]).rev() {
        assert_eq!(sink.deliver(to(raw)).await, Delivery::Confirmed);
        assert_eq!(raw.connections(), connections);
    }
}

#[tokio::test]
async fn idle_connections_close_in_time_and_origins_are_removed() {
    let raw = keeping().await;
    let sink = sink_with(|options| options.timeouts.idle = Duration::from_millis(50));
    let delivery = sink.deliver(envelope(destination(raw.address), b"x")).await;
    assert_eq!(delivery, Delivery::Confirmed);
    assert_eq!(sink.pool.kept(), 1);
    until("the idle connection is closed", || sink.pool.kept() == 0).await;
    assert_eq!(sink.pool.origins(), 0);
}

#[tokio::test]
async fn keep_alive_headers_are_respected() {
    for (header, kept) in [
        ("keep-alive: timeout=5, max=100", 1),
        ("Keep-Alive: max=100, timeout=1", 0),
        ("keep-alive: timeout=0", 0),
        ("connection: close", 0),
        ("connection: keep-alive, Close", 0),
        ("keep-alive: timeout=soon", 1),
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{header}\r\ncontent-length: 0\r\n\r\n");
        let raw = Raw::stalling(&answer).await;
        let sink = sink();
        let delivery = sink.deliver(envelope(destination(raw.address), b"x")).await;
        assert_eq!(delivery, Delivery::Confirmed);
        assert_eq!(sink.pool.kept(), kept, "{header}");
    }
}

#[tokio::test]
async fn a_refusal_whose_page_was_read_keeps_its_connection() {
    let page = "x".repeat(5_000);
    let answer = format!("HTTP/1.1 500 No\r\ncontent-length: 5000\r\n\r\n{page}");
    let raw = Raw::by_connection(&[(&[&answer, OK], After::Stall)]).await;
    let sink = sink();
    let delivery = sink.deliver(envelope(destination(raw.address), b"x")).await;
    let text = format!("HTTP 500 (repeated if the retry policy allows): {}", &page[..1024]);
    assert_eq!(reason(&delivery), text);
    let delivery = sink.deliver(envelope(destination(raw.address), b"x")).await;
    assert_eq!((delivery, raw.connections()), (Delivery::Confirmed, 1));
}

#[tokio::test]
async fn http_2_streams_are_reserved_without_the_pool_lock() {
    // It replies only between its writes, and the other connections must not wait for those.
    let sink = sink();
    let (ours, _theirs) = tokio::io::duplex(4096);
    let free = Arc::new(AtomicBool::new(true));
    let (pool, seen) = (Arc::downgrade(&sink.pool), Arc::clone(&free));
    let streams_max = Box::new(move || {
        seen.fetch_and(pool.upgrade().unwrap().is_free(), Ordering::Relaxed);
        10
    });
    let connection = Http2::start(ours).await.unwrap().with_streams_max(streams_max);
    assert!(sink.pool.share("https://receiver.example", connection).is_some());
    assert!(sink.pool.take("https://receiver.example").is_some());
    assert!(free.load(Ordering::Relaxed));
}

#[tokio::test]
async fn concurrent_streams_stay_within_the_receivers_limit() {
    let (ours, _theirs) = tokio::io::duplex(4096);
    let connection = Arc::new(Http2::start(ours).await.unwrap().with_streams_max(Box::new(|| 3)));
    let takers: Vec<_> = (0..4)
        .map(|_| {
            let connection = Arc::clone(&connection);
            std::thread::spawn(move || {
                (0..1000).filter_map(|_| Http2::stream(&connection)).collect::<Vec<_>>()
            })
        })
        .collect();
    let taken: Vec<_> = takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect();
    assert_eq!(taken.len(), 3);
}
