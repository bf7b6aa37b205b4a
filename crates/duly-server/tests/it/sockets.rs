//! A whole server on a port: started, called over HTTP/1.1 and HTTP/2, stopped.

use duly_server::{
    StartError,
    config::{Flag, Source, load},
    start,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

fn config(data: &std::path::Path, listen: &str) -> duly_server::Config {
    let flag = |flag: &str, key, value: &str| Flag { flag: flag.into(), key, value: value.into() };
    let flags = vec![
        flag("--data", "store.data", data.to_str().unwrap()),
        flag("--listen", "server.listen", listen),
    ];
    let env = [
        ("DULY_STORE__MIN_FREE_BYTES", "0"),
        ("DULY_STORE__MIN_FREE_PERCENT", "0"),
        ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
        ("DULY_SERVER__CONNECTIONS_MAX", "2"),
    ];
    load(&Source {
        file: None,
        env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
        flags,
    })
    .unwrap()
}

async fn exchange(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn starts_serves_and_stops() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let running = start(config(&data, "127.0.0.1:0")).await.unwrap();
    let address = running.addr();
    assert_ne!(address.port(), 0);
    assert_eq!((running.report().pending, running.report().namespaces), (0, 0));

    let body = r#"{"id":"t","delay":"1h"}"#;
    let request = format!(
        "POST /v1/namespaces/a/timers HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    let answer = exchange(&mut stream, &request).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");

    // Two silent connections fill the server; a third is told so.
    let first = TcpStream::connect(address).await.unwrap();
    let second = TcpStream::connect(address).await.unwrap();
    let mut third = TcpStream::connect(address).await.unwrap();
    let mut answer = String::new();
    third.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("server.connections_max"), "{answer}");
    drop((first, second));

    let taken = start(config(&directory.path().join("other"), &address.to_string())).await;
    match taken {
        Err(error @ StartError::Listen { .. }) => {
            let text = error.to_string();
            assert!(text.contains("server.listen, from flag --listen"), "{text}");
            assert!(text.contains("choose another with --listen"), "{text}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!directory.path().join("other").exists());

    running.wait_for_stop(std::future::ready(())).await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn speaks_http_2_on_the_same_port() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(config(directory.path(), "127.0.0.1:0")).await.unwrap();
    let stream = TcpStream::connect(running.addr()).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::builder()
        .uri(format!("http://{}/healthz", running.addr()))
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    drop(sender);
    connection.await.unwrap().unwrap();
    running.stop().await.unwrap();
}
