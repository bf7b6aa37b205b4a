//! HTTP/2 connections without a call are closed after a while.

use futures::{StreamExt, channel::mpsc};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::*;

const SHORT: [(&str, &str); 1] = [("DULY_SERVER__HEADER_TIMEOUT", "1s")];

const LINE: &str = "{\"cancel\":{\"id\":\"none\"}}\n";

/// Opens a stream of lines on its own connection and sends its first line; its body stays open.
async fn stream_lines(
    address: SocketAddr,
) -> (mpsc::UnboundedSender<String>, http::Response<hyper::body::Incoming>) {
    let io = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    let (lines, body) = mpsc::unbounded::<String>();
    lines.unbounded_send(LINE.to_owned()).unwrap();
    let body = body.map(|line| Ok::<_, std::io::Error>(Frame::data(Bytes::from(line))));
    let request = http::Request::post(format!("http://{address}/v1/namespaces/a/batch"))
        .header("content-type", "application/x-ndjson")
        .body(StreamBody::new(body))
        .unwrap();
    (lines, sender.send_request(request).await.unwrap())
}

#[tokio::test]
async fn p10_only_idle_http_2_connections_are_closed() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &SHORT).await;
    let address = running.addr();
    assert_eq!(call(address, "PUT /v1/namespaces/a", "{}").await.0, 201);
    let (mut waits, waiting) = h2(address).await;
    let lease = post(address, "/v1/namespaces/a/lease", r#"{"wait":"60s"}"#);
    let leased = tokio::spawn(waits.send_request(lease));
    waiters(&running, 1).await;
    let (lines, answers) = stream_lines(address).await;
    // They are older than this connection, so their time was over before this one ends.
    let (mut idle, connection) = h2(address).await;
    let healthy = http::Request::get(format!("http://{address}/healthz"));
    let healthy = || healthy.body(Full::<Bytes>::default()).unwrap();
    let answer = idle.send_request(healthy()).await.unwrap();
    assert_eq!(answer.status(), 200);
    drop(answer);
    let closed = timeout(PATIENCE, connection).await.expect("an idle connection is closed");
    closed.unwrap().expect("in order: with GOAWAY, and no error");
    // The other connections still serve their streams, and new calls.
    lines.unbounded_send(LINE.to_owned()).unwrap();
    drop(lines);
    let answers = answers.into_body().collect().await.unwrap().to_bytes();
    let answers = String::from_utf8_lossy(&answers).into_owned();
    assert!(answers.contains("\"line\":2"), "{answers}");
    let timer = post(address, "/v1/namespaces/a/timers", r#"{"id":"t","delay":0}"#);
    assert_eq!(waits.send_request(timer).await.unwrap().status(), 201);
    assert_eq!(leased.await.unwrap().unwrap().status(), 200);
    let closed = timeout(PATIENCE, waiting).await.expect("it rests now, and is closed");
    closed.unwrap().expect("in order");
    running.stop().await.unwrap();
}

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;

async fn frame(stream: &mut TcpStream) -> Option<(u8, u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], head[4], payload))
}

#[tokio::test]
async fn p10_pings_do_not_keep_a_connection_after_goaway() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &SHORT).await;
    let mut stream = TcpStream::connect(running.addr()).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
    let mut was_asked_to_go = false;
    let ended = timeout(PATIENCE, async {
        while let Some((kind, flags, payload)) = frame(&mut stream).await {
            was_asked_to_go |= kind == GOAWAY;
            // An acknowledged ping that comes with GOAWAY means that the caller understood; this caller
            // never acknowledges it. Other pings are acknowledged.
            let is_with_goaway = payload.starts_with(&[0x0b, 0x7b]);
            if kind == PING && flags & ACK == 0 && !is_with_goaway {
                let head = [0, 0, 8, PING, ACK, 0, 0, 0, 0];
                stream.write_all(&[&head[..], &payload].concat()).await.ok();
            }
        }
    });
    ended.await.expect("the connection is closed");
    assert!(was_asked_to_go);
    running.stop().await.unwrap();
}
