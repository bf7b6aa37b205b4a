//! A webhook never calls the server that sends it: neither at its listen address nor through a proxy.

use std::net::SocketAddr;

use duly_server::config::{Source, load};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Starts a server; its data is removed with the directory.
async fn server() -> (tempfile::TempDir, duly_server::Running) {
    let directory = tempfile::tempdir().unwrap();
    let env = [
        ("DULY_STORE__DATA", directory.path().join("data").to_str().unwrap()),
        ("DULY_SERVER__LISTEN", "127.0.0.1:0"),
        ("DULY_STORE__MIN_FREE_BYTES", "0"),
        ("DULY_STORE__MIN_FREE_PERCENT", "0"),
        ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = load(&Source { env: env.to_vec(), ..Source::default() }).unwrap();
    (directory, duly_server::start(config).await.unwrap())
}

/// Reads one message of HTTP/1.1 with a `content-length`.
async fn message(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let length = text.split_once("\r\n\r\n").map(|(head, body)| {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            (length.map_or(0, |length| length.parse::<usize>().unwrap()), body.len())
        });
        if length.is_some_and(|(whole, here)| here >= whole) {
            return text;
        }
        let mut part = [0; 4096];
        let bytes = stream.read(&mut part).await.unwrap();
        assert!(bytes > 0, "cut off: {text}");
        text.push_str(std::str::from_utf8(&part[..bytes]).unwrap());
    }
}

async fn call(address: SocketAddr, call: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{call} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = message(&mut stream).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_default())
}

/// Passes each request on unchanged, as a proxy on the same machine does; sends the responses to the
/// receiver.
async fn proxy(to: SocketAddr) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut caller, _)) = listener.accept().await {
            let request = message(&mut caller).await;
            let mut server = TcpStream::connect(to).await.unwrap();
            server.write_all(request.as_bytes()).await.unwrap();
            let answer = message(&mut server).await;
            caller.write_all(answer.as_bytes()).await.unwrap();
            tell.send(answer).ok();
        }
    });
    (address, told)
}

#[tokio::test]
async fn webhooks_through_a_proxy_cannot_call_duly() {
    let (_directory, running) = server().await;
    let address = running.addr();
    let (proxy, mut answers) = proxy(address).await;
    assert_eq!(call(address, "PUT /v1/namespaces/victim", &json!({})).await.0, 201);
    // The proxy itself lets calls through.
    assert_eq!(call(proxy, "GET /v1/namespaces/victim", &Value::Null).await.0, 200);
    answers.recv().await.unwrap();
    let url = format!("http://{proxy}/v1/namespaces/victim/pause");
    let timer = json!({"id": "t", "delay": 0, "destination": {"http": {"url": url}}});
    assert_eq!(call(address, "POST /v1/namespaces/a/timers", &timer).await.0, 201);
    let answer = answers.recv().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("duly-loop"), "{answer}");
    let (_, victim) = call(address, "GET /v1/namespaces/victim", &Value::Null).await;
    assert_eq!(victim["paused"], false, "{victim}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_listen_address_is_no_receiver() {
    let (_directory, running) = server().await;
    let address = running.addr();
    let url = format!("http://{address}/v1/namespaces/a/pause");
    let destination = json!({"http": {"url": url}});
    for (method, body) in [
        ("POST /v1/namespaces/a/timers", json!({"delay": "1h", "destination": destination})),
        ("PUT /v1/namespaces/a", json!({"destination": destination})),
    ] {
        let (status, problem) = call(address, method, &body).await;
        assert_eq!((status, &problem["field"]), (400, &"destination.http.url".into()), "{problem}");
        assert!(problem["allowed"].as_str().unwrap().contains("this server itself"), "{problem}");
    }
    running.stop().await.unwrap();
}
