//! Names: looked up once for all who wait, and spoken to where they were checked (S5).

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Answers each look-up of its name with the next of some addresses.
struct Turning {
    answers: Vec<IpAddr>,
    asked: AtomicUsize,
}

impl resolve::Lookup for Arc<Turning> {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let turn = self.asked.fetch_add(1, Ordering::Relaxed);
        let answer = self.answers[turn % self.answers.len()];
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(vec![answer])
        })
    }
}

fn sink_asking(answers: &[&str]) -> (HttpSink, Arc<Turning>) {
    let answers = answers.iter().map(|a| a.parse().unwrap()).collect();
    let turning = Arc::new(Turning { answers, asked: AtomicUsize::new(0) });
    let options = Options { addresses: AddressPolicy::with_loopback(), ..Options::default() };
    let lookup = Arc::new(Arc::clone(&turning));
    (HttpSink::with_lookup(options, Arc::new(SystemWall), lookup).unwrap(), turning)
}

#[tokio::test]
async fn s5_a_name_that_turns_inward_after_its_check_gets_no_connection_there() {
    // Every connection is to what was found for it: the first look-up is good, the second is not.
    let raw = Raw::answering(&[OK]).await;
    let (sink, turning) = sink_asking(&["127.0.0.1", "169.254.169.254"]);
    let to = format!("http://turning.example:{}/", raw.address.port());
    let to = HttpDestination::new(&to).unwrap();
    assert_eq!(sink.deliver(envelope(to.clone(), b"x")).await, Delivery::Confirmed);
    assert_eq!(turning.asked.load(Ordering::Relaxed), 1, "no second look-up behind the check");
    until("the receiver closed the first connection", || {
        sink.pool.take(&format!("http://turning.example:{}", raw.address.port())).is_none()
    })
    .await;
    let second = sink.deliver(envelope(to, b"x")).await;
    assert_eq!(second.outcome(), AttemptOutcome::NotConnected, "{second:?}");
    assert!(reason(&second).contains("169.254.169.254 is refused"), "{second:?}");
    assert_eq!((raw.requests(), turning.asked.load(Ordering::Relaxed)), (1, 2));
}

#[tokio::test]
async fn one_name_is_looked_up_once_for_all_who_wait() {
    let raw = Raw::answering(&[OK]).await;
    let (sink, turning) = sink_asking(&["127.0.0.1"]);
    let to = format!("http://busy.example:{}/", raw.address.port());
    let to = HttpDestination::new(&to).unwrap();
    let many = (0..20).map(|_| sink.deliver(envelope(to.clone(), b"x")));
    for delivery in join_all(many).await {
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert_eq!((raw.requests(), turning.asked.load(Ordering::Relaxed)), (20, 1));
}
