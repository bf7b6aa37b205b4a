//! A proxy between the sink and the receiver: the information it gets, and its rights.

use super::{
    options::{Credentials, Proxy, Resolves},
    receiver::After,
    *,
};

/// A proxy that records its requests and connects to one fixed address.
struct Tunnelling {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Tunnelling {
    async fn to(address: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let noted = Arc::clone(&noted);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await?);
                    }
                    noted.lock().unwrap().push(String::from_utf8(head).unwrap());
                    let mut onward = TcpStream::connect(address).await?;
                    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
                    tokio::io::copy_bidirectional(&mut stream, &mut onward).await
                });
            }
        });
        Self { port, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn through(port: u16, resolves: Resolves) -> Proxy {
    let credentials = Credentials::new("user:top-secret\n");
    Proxy { host: "127.0.0.1".to_owned(), port, credentials, resolves }
}

/// Finds one address for every name.
struct Found(IpAddr);

impl resolve::Lookup for Found {
    fn lookup(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let address = self.0;
        Box::pin(async move { Ok(vec![address]) })
    }
}

fn sink_through(proxy: Proxy, found: &str) -> HttpSink {
    let options = Options { proxy: Some(proxy), ..Options::default() };
    let lookup = Arc::new(Found(found.parse().unwrap()));
    HttpSink::with_lookup(options, Arc::new(SystemWall), lookup).unwrap()
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

async fn deliver(sink: &HttpSink, url: &str) -> Delivery {
    sink.deliver(envelope(HttpDestination::new(url).unwrap(), b"x")).await
}

#[tokio::test]
async fn s5_the_proxy_is_given_the_address_that_was_checked() {
    let raw = Raw::answering(&[OK]).await;
    let proxy = Tunnelling::to(raw.address).await;
    // The proxy itself is on loopback, which the address filter refuses for receivers but not for the
    // proxy.
    let sink = sink_through(through(proxy.port, Resolves::Here), "203.1.2.3");
    assert_eq!(deliver(&sink, "http://receiver.example:8080/hook").await, Delivery::Confirmed);
    let asked = proxy.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("CONNECT 203.1.2.3:8080 HTTP/1.1\r\n"), "{asked:?}");
    let basic = "proxy-authorization: Basic dXNlcjp0b3Atc2VjcmV0\r\n";
    assert!(asked[0].contains(basic), "{asked:?}");

    let inward = sink_through(through(proxy.port, Resolves::Here), "169.254.169.254");
    for url in ["http://inward.example/", "http://10.0.0.1/", "http://[::ffff:127.0.0.1]/"] {
        let delivery = deliver(&inward, url).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{url}: {delivery:?}");
        assert!(reason(&delivery).contains("is refused"), "{url}: {delivery:?}");
    }
    assert!(proxy.asked().is_empty(), "nothing refused reaches the proxy");
}

#[tokio::test]
async fn s5_a_resolving_proxy_gets_no_refused_address() {
    let raw = Raw::answering(&[OK]).await;
    let proxy = Tunnelling::to(raw.address).await;
    let sink = sink_through(through(proxy.port, Resolves::Proxy), "169.254.169.254");
    assert_eq!(deliver(&sink, "http://receiver.example/hook").await, Delivery::Confirmed);
    assert!(proxy.asked()[0].starts_with("CONNECT receiver.example:80 HTTP/1.1\r\n"));
    let delivery = deliver(&sink, "http://10.0.0.1/").await;
    assert!(reason(&delivery).contains("10.0.0.1 is refused"), "{delivery:?}");
    assert!(proxy.asked().is_empty());
}

#[tokio::test]
async fn s4_a_faulty_proxy_sends_nothing_and_shows_no_secret() {
    let cases: [(&str, After, &str); 6] = [
        ("HTTP/1.1 407 No\r\n\r\n", After::Close, "webhook.proxy_credentials_file"),
        ("HTTP/1.1 403 No\r\n\r\n", After::Close, "HTTP 403 to CONNECT"),
        ("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", After::Stall, "bytes of its own"),
        ("SSH-2.0-OpenSSH_9.9\r\n\r\n", After::Stall, "is not HTTP/1"),
        ("HTTP/1.1 200 OK\r\n", After::Repeat(b"x-a: b\r\n".repeat(100)), "longer than"),
        ("", After::Close, "closed the connection before it replied"),
    ];
    for (answer, after, expected) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let speak = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            match after {
                After::Repeat(chunk) => while stream.write_all(&chunk).await.is_ok() {},
                After::Stall => {
                    // Until the other end closes.
                    stream.read_u8().await.ok();
                }
                _ => {}
            }
        };
        let sink = sink_through(through(port, Resolves::Here), "203.1.2.3");
        let (delivery, ()) = tokio::join!(deliver(&sink, "http://receiver.example/"), speak);
        assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{answer:?} {delivery:?}");
        assert!(reason(&delivery).contains(expected), "{answer:?} {delivery:?}");
        assert!(!reason(&delivery).contains("top-secret") && !reason(&delivery).contains("dXNlcj"));
    }
    let shown = format!("{:?}", through(1, Resolves::Here));
    assert!(!shown.contains("secret") && !shown.contains("user"), "{shown}");
}

#[tokio::test]
async fn tls_goes_through_the_proxy_end_to_end() {
    let authority = super::tls::Authority::new();
    let web = authority.web(&[b"h2"], |_| {}).await;
    let port = web.destination().url().port().unwrap();
    let proxy = Tunnelling::to(SocketAddr::from(([127, 0, 0, 1], port))).await;
    let sink = authority.sink(|options| {
        options.proxy = Some(through(proxy.port, Resolves::Proxy));
    });
    let delivery = sink.deliver(envelope(web.destination(), b"x")).await;
    assert_eq!(delivery, Delivery::Confirmed);
    assert!(proxy.asked()[0].starts_with(&format!("CONNECT localhost:{port} HTTP/1.1\r\n")));
    assert_eq!(web.versions(), [::http::Version::HTTP_2]);
}
