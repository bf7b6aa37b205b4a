//! Names: looked up once for all deliveries that wait, and connected to the checked addresses (S5).

use std::sync::atomic::{AtomicUsize, Ordering};

use duly_core::NamespaceName;
use futures::future::join_all;
use tokio::{sync::Semaphore, task::JoinHandle};

use super::{
    options::{Proxy, Resolves},
    receiver::After,
    *,
};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Returns the next of several addresses for each look-up of its name.
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

fn sink_asking(answers: &[&str], set: impl FnOnce(&mut Options)) -> (HttpSink, Arc<Turning>) {
    let answers = answers.iter().map(|a| a.parse().unwrap()).collect();
    let turning = Arc::new(Turning { answers, asked: AtomicUsize::new(0) });
    let mut options = Options { addresses: AddressPolicy::with_loopback(), ..Options::default() };
    set(&mut options);
    let lookup = Arc::new(Arc::clone(&turning));
    (HttpSink::with_lookup(options, Arc::new(SystemWall), lookup).unwrap(), turning)
}

#[tokio::test]
async fn a_changed_address_takes_effect_under_steady_traffic() {
    let old = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = old.local_addr().unwrap().port();
    let new = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    let moved = Arc::new(AtomicUsize::new(0));
    for (listener, moved) in [(old, Arc::default()), (new, Arc::clone(&moved))] {
        let confirm = move || async move {
            moved.fetch_add(1, Ordering::Relaxed);
        };
        let router = axum::Router::new().fallback(confirm);
        tokio::spawn(async move { axum::serve(listener, router).await });
    }
    let age = Duration::from_millis(100);
    let (sink, turning) =
        sink_asking(&["127.0.0.1", "127.0.0.2"], |options| options.timeouts.connection_age = age);
    let to = HttpDestination::new(&format!("http://moving.example:{port}/")).unwrap();
    while moved.load(Ordering::Relaxed) == 0 {
        let delivery = sink.deliver(envelope(to.clone(), b"x")).await;
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert_eq!(turning.asked.load(Ordering::Relaxed), 2, "one connection until then");
}

#[tokio::test]
async fn s5_dns_rebinding_gets_no_connection() {
    // Every connection goes to an address that was checked: the first look-up is good, the second is
    // not.
    let raw = Raw::answering(&[OK]).await;
    let (sink, turning) = sink_asking(&["127.0.0.1", "169.254.169.254"], |_| {});
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
async fn one_look_up_serves_all_waiting_deliveries() {
    let raw = Raw::answering(&[OK]).await;
    let (sink, turning) = sink_asking(&["127.0.0.1"], |_| {});
    let to = format!("http://busy.example:{}/", raw.address.port());
    let to = HttpDestination::new(&to).unwrap();
    let many = (0..20).map(|_| sink.deliver(envelope(to.clone(), b"x")));
    for delivery in join_all(many).await {
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert_eq!((raw.requests(), turning.asked.load(Ordering::Relaxed)), (20, 1));
}

/// Finds loopback; for names that begin with `silent` only after a permit.
struct Silent {
    asked: Mutex<Vec<String>>,
    go_on: Semaphore,
}

impl Silent {
    fn new() -> Arc<Self> {
        Arc::new(Self { asked: Mutex::default(), go_on: Semaphore::new(0) })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Creates a sink that uses it.
    fn sink(self: &Arc<Self>, set: impl FnOnce(&mut Options)) -> HttpSink {
        let mut options =
            Options { addresses: AddressPolicy::with_loopback(), ..Options::default() };
        set(&mut options);
        let lookup = Arc::new(Arc::clone(self));
        HttpSink::with_lookup(options, Arc::new(SystemWall), lookup).unwrap()
    }

    /// Sends deliveries to this many names, and waits until the namespace has all its look-ups under
    /// way.
    async fn filled(
        self: &Arc<Self>,
        sink: &HttpSink,
        namespace: &str,
        names: usize,
    ) -> Vec<JoinHandle<Delivery>> {
        let before = self.asked().len();
        let deliver = |n: usize| {
            let sent = to(namespace, &format!("silent{n}.{namespace}.example"), 80);
            let sink = sink.clone();
            tokio::spawn(async move { sink.deliver(sent).await })
        };
        let deliveries = (0..names).map(deliver).collect();
        until("the namespace has all its turns", || self.asked().len() >= before + TURNS).await;
        deliveries
    }
}

impl resolve::Lookup for Arc<Silent> {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let silent = Arc::clone(self);
        silent.asked.lock().unwrap().push(name.clone());
        Box::pin(async move {
            if name.starts_with("silent") {
                silent.go_on.acquire().await.unwrap().forget();
            }
            Ok(vec![IpAddr::from([127, 0, 0, 1])])
        })
    }
}

/// Look-ups at once for one namespace, and for all.
const TURNS: usize = 8;
const TURNS_OF_ALL: usize = 64;

fn to(namespace: &str, name: &str, port: u16) -> Envelope {
    let to = HttpDestination::new(&format!("http://{name}:{port}/")).unwrap();
    Envelope { namespace: NamespaceName::new(namespace).unwrap(), ..envelope(to, b"x") }
}

#[tokio::test]
async fn silent_names_delay_only_their_namespace() {
    let raw = Raw::by_connection(&[(&[OK], After::Close)]).await;
    let port = raw.address.port();
    let silent = Silent::new();
    let sink = silent.sink(|_| {});
    // The same name is also wanted by the stuck namespace, at the end of its queue.
    let stuck = silent.filled(&sink, "stuck", 200).await;
    let queued = tokio::spawn({
        let (sink, sent) = (sink.clone(), to("stuck", "good.example", port));
        async move { sink.deliver(sent).await }
    });
    tokio::task::yield_now().await;
    let delivery = sink.deliver(to("other", "good.example", port)).await;
    assert_eq!(delivery, Delivery::Confirmed);
    assert_eq!(silent.asked().len(), TURNS + 1, "no more than its turns are under way");
    assert!(!queued.is_finished());
    for delivery in stuck.into_iter().chain([queued]) {
        delivery.abort();
    }
}

#[tokio::test]
async fn silent_names_of_many_namespaces_do_not_block_others() {
    let raw = Raw::by_connection(&[(&[OK], After::Close), (&[OK], After::Close)]).await;
    let port = raw.address.port();
    let silent = Silent::new();
    let sink = silent.sink(|_| {});
    let mut stuck = Vec::new();
    // All look-ups but one for each of them, and then as many again that do not start.
    for n in 0..2 * TURNS_OF_ALL / TURNS {
        let names =
            (0..20).map(|m| to(&format!("stuck-{n}"), &format!("silent{m}.{n}.example"), 80));
        stuck.extend(names.map(|sent| {
            let sink = sink.clone();
            tokio::spawn(async move { sink.deliver(sent).await })
        }));
    }
    let all = TURNS_OF_ALL + 2 * TURNS_OF_ALL / TURNS;
    until("all turns are taken", || silent.asked().len() >= all).await;
    for other in ["other", "another"] {
        let delivery = sink.deliver(to(other, "good.example", port)).await;
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert_eq!(silent.asked().len(), all + 2, "no more than those are under way");
    for delivery in stuck {
        delivery.abort();
    }
}

#[tokio::test]
async fn an_abandoned_queued_look_up_is_not_started() {
    let raw = Raw::answering(&[OK]).await;
    let silent = Silent::new();
    let sink = silent.sink(|_| {});
    for delivery in silent.filled(&sink, "stuck", 20).await {
        delivery.abort();
        delivery.await.unwrap_err();
    }
    // A delivery waits for this one when a look-up is free.
    let next = sink.deliver(to("stuck", "good.example", raw.address.port()));
    let free = async { silent.go_on.add_permits(1) };
    assert_eq!(tokio::join!(next, free).0, Delivery::Confirmed);
    silent.go_on.add_permits(TURNS);
    let next = to("stuck", "good.example", raw.address.port());
    assert_eq!(sink.deliver(next).await, Delivery::Confirmed);
    let after = silent.asked().split_off(TURNS);
    assert_eq!(after, ["good.example", "good.example"]);
}

#[tokio::test]
async fn an_abandoned_look_up_is_not_repeated_concurrently() {
    let silent = Silent::new();
    let sink = silent.sink(|options| options.timeouts.connect = Duration::from_millis(1));
    for _ in 0..3 {
        let delivery = sink.deliver(to("some", "silent.example", 80)).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    }
    assert_eq!(silent.asked().len(), 1);
}

#[tokio::test]
async fn the_proxys_name_waits_for_no_namespace() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = Silent::new();
    let (host, port) = ("proxy.example".to_owned(), proxy.local_addr().unwrap().port());
    let sink = silent.sink(|options| {
        options.proxy = Some(Proxy { host, port, credentials: None, resolves: Resolves::Here });
    });
    let mut stuck = Vec::new();
    for n in 0..TURNS_OF_ALL / TURNS {
        stuck.extend(silent.filled(&sink, &format!("stuck-{n}"), TURNS).await);
    }
    tokio::spawn(async move {
        let (mut stream, _) = proxy.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 403 No\r\n\r\n").await.unwrap();
        while stream.read_u8().await.is_ok() {}
    });
    let delivery = sink.deliver(to("other", "127.0.0.1", 80)).await;
    assert!(reason(&delivery).contains("HTTP 403 to CONNECT"), "{delivery:?}");
    for delivery in stuck {
        delivery.abort();
    }
}
