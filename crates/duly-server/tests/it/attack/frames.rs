//! Connections of HTTP/2 that send frames without end, and connections that hold places.

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Returns a frame on a stream.
fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, 0, 0, 0, 0, stream], payload].concat()
}

/// Sends frames of a kind until the connection ends.
async fn flood(address: SocketAddr, (name, kind, stream, payload): (&str, u8, u8, &[u8])) {
    let frames = frame(kind, stream, payload).repeat(100);
    let mut flood = TcpStream::connect(address).await.unwrap();
    flood.write_all(PREFACE).await.unwrap();
    let (mut reader, mut writer) = flood.split();
    let mut sent = 0;
    let writing = async {
        while writer.write_all(&frames).await.is_ok() {
            sent += 100;
            yield_now().await;
        }
    };
    // What the server responds does not fill the socket.
    let reading = async {
        let mut part = vec![0; 64 * 1024];
        while reader.read(&mut part).await.is_ok_and(|count| count > 0) {}
    };
    let ended = timeout(PATIENCE, async { tokio::join!(writing, reading) }).await;
    assert!(ended.is_ok(), "{name}: still open after {sent} frames");
}

#[tokio::test]
async fn p10_an_address_that_floods_begins_few_connections() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    // The server begins with its settings.
    let begins = async |from: &str| {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(from.parse().unwrap()).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let is_sent = stream.write_all(PREFACE).await.is_ok();
        is_sent && stream.read_exact(&mut [0; 9]).await.is_ok()
    };
    let all_begin = async || {
        let all = futures::future::join_all((0..200).map(|_| begins("127.0.0.1:0"))).await;
        all.into_iter().all(|begins| begins)
    };
    assert!(all_begin().await, "no flood yet");
    let few = timeout(PATIENCE, async {
        while all_begin().await {
            flood(address, ("PING", 6, 0, &[0; 8])).await;
        }
    });
    few.await.expect("some do not begin");
    // One call at a time, and another address.
    assert_eq!(call(address, "GET /v1/namespaces", "").await.0, 200);
    assert!(begins("127.0.0.2:0").await);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_floods_of_frames_end_their_connection() {
    const KINDS: [(&str, u8, u8, &[u8]); 5] = [
        ("PRIORITY", 2, 1, &[0, 0, 0, 0, 1]),
        ("SETTINGS", 4, 0, &[0, 4, 0, 0, 1, 0]),
        ("PING", 6, 0, &[0; 8]),
        ("WINDOW_UPDATE", 8, 0, &[0, 0, 0, 1]),
        ("unknown", 0xBE, 0, &[]),
    ];
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    for kind in KINDS {
        flood(address, kind).await;
    }
    // A caller that calls may send such frames too.
    let (mut sender, connection) = h2(address).await;
    for id in 0..500 {
        let timer =
            post(address, "/v1/namespaces/a/timers", &format!(r#"{{"id":"t{id}","delay":"1h"}}"#));
        sender.ready().await.unwrap();
        assert_eq!(sender.send_request(timer).await.unwrap().status(), 201);
    }
    drop((sender, connection));
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_connections_without_a_call_make_way() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__CONNECTIONS_MAX", "4")]).await;
    let address = running.addr();
    let busy = busy(address).await;
    // Those that send nothing, a part of a head, or that rest after a call.
    let idle = format!("GET /healthz HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut others = Vec::new();
    for said in ["", "GET /v1/name", &idle].into_iter().cycle().take(30) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        if said == idle {
            stream.read_exact(&mut [0; 12]).await.unwrap();
        }
        others.push(stream);
        let answer = say(address, &head(address, "GET /v1/namespaces", 0)).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{said:?}: {answer}");
    }
    // The oldest ones are closed.
    for mut other in others.into_iter().take(20) {
        to_the_end(&mut other).await;
    }
    drop(busy);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_an_address_has_a_limit_of_busy_connections() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        [("DULY_SERVER__CONNECTIONS_MAX", "8"), ("DULY_SERVER__CONNECTIONS_PER_ADDRESS_MAX", "2")];
    let running = serve(directory.path(), &settings).await;
    let address = running.addr();
    let held = (busy(address).await, busy(address).await);
    let (status, problem) = call(address, "GET /v1/namespaces", "").await;
    assert_eq!((status, &problem["code"]), (503, &json!("unavailable")), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("server.connections_per_address_max"), "{detail}");
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = other.connect(address).await.unwrap();
    other.write_all(head(address, "GET /v1/namespaces", 0).as_bytes()).await.unwrap();
    let answer = to_the_end(&mut other).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(held);
    running.stop().await.unwrap();
    // A proxy stands for many callers.
    let directory = tempfile::tempdir().unwrap();
    let settings = [&settings[..], &[("DULY_SERVER__TRUSTED_PROXIES", "127.0.0.1/32")]].concat();
    let running = serve(directory.path(), &settings).await;
    let address = running.addr();
    let held = (busy(address).await, busy(address).await);
    assert_eq!(call(address, "GET /v1/namespaces", "").await.0, 200);
    drop(held);
    running.stop().await.unwrap();
}
