//! Streams of callers without a valid key.

use std::fs;

use duly_core::access::{KeyId, PresentedKey};
use hyper::client::conn::http2;

use super::*;

/// Streams of a connection that has shown no key, and refused ones until it ends.
const WAITING: usize = 8;
const REFUSED: usize = 16;

#[tokio::test]
async fn p10_callers_without_a_key_have_few_streams() {
    let directory = tempfile::tempdir().unwrap();
    let key = PresentedKey::new(KeyId::generate([1; 10]), [1; 32]).reveal();
    let file = directory.path().join("root");
    fs::write(&file, &key).unwrap();
    let settings = [
        ("DULY_AUTH__MODE", "keys"),
        ("DULY_AUTH__ROOT_KEY_FILE", file.to_str().unwrap()),
        ("DULY_AUTH__FAILURES_PER_SECOND", "1000"),
    ];
    let running = serve(&directory.path().join("data"), &settings).await;
    let address = running.addr();
    let get = |key: &str| {
        http::Request::get(format!("http://{address}/v1/namespaces"))
            .header("authorization", format!("Bearer {key}"))
            .body(Full::<Bytes>::default())
            .unwrap()
    };
    // Without a window the responses wait for their caller.
    let connect = async || {
        let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let mut closed = http2::Builder::new(TokioExecutor::new());
        let (sender, connection) =
            closed.initial_stream_window_size(0).handshake(io).await.unwrap();
        (sender, tokio::spawn(connection))
    };
    let (mut sender, connection) = connect().await;
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let answer = sender.send_request(get("none")).await.unwrap();
        assert_eq!(answer.status(), 401);
        waiting.push(answer);
    }
    let refused = sender.send_request(get("none")).await.unwrap();
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    assert!(hyper::body::Body::is_end_stream(refused.body()), "a head alone");
    // A caller with a key is never kept out: on this connection, and then for good.
    for _ in 0..2 * WAITING {
        let answer = sender.send_request(get(&key)).await.unwrap();
        assert_eq!(answer.status(), 200);
        waiting.push(answer);
    }
    drop((waiting, sender));
    connection.abort();
    // A connection that goes on without a key ends.
    let (mut sender, connection) = connect().await;
    let mut waiting = Vec::new();
    while let Ok(answer) = sender.send_request(get("none")).await {
        waiting.push(answer);
        assert!(waiting.len() <= WAITING + REFUSED + 1, "the connection stays open");
    }
    assert!(waiting.len() >= WAITING + REFUSED, "{}", waiting.len());
    timeout(PATIENCE, connection).await.expect("it ends").unwrap().ok();
    running.stop().await.unwrap();
}
