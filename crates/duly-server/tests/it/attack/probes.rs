//! Probes while callers fill connections and memory.

use duly_server::Address;

use super::*;

/// The origin of pages that may call.
const PAGE: &str = "https://console.example";
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Requests a path with `connection: close`; returns the status of the response.
async fn get(address: SocketAddr, path: &str) -> u16 {
    call(address, &format!("GET {path}"), "").await.0
}

#[tokio::test]
async fn p10_probes_respond_when_all_connections_are_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("DULY_SERVER__CONNECTIONS_MAX", "2"), ("DULY_SERVER__ALLOWED_ORIGINS", PAGE)];
    let running = serve(directory.path(), &settings).await;
    let address = running.addr();
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(busy(address).await);
    }
    // Then the connections for probes, several times over.
    for _ in 0..200 {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    for path in PROBES {
        assert_eq!(get(address, path).await, 200, "{path}");
    }
    let (status, problem) = call(address, "GET /v1/namespaces", "").await;
    assert_eq!((status, &problem["code"]), (503, &json!("unavailable")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("server.connections_max"), "{problem}");
    // A page sees that too: its browser asks first.
    let of_page = "connection: close\r\naccess-control-request-method: GET\r\norigin: ";
    for (call, status) in [("OPTIONS /v1/namespaces", 204), ("GET /v1/namespaces", 503)] {
        let words = head(address, call, 0);
        let words = words.replace("connection: close", &format!("{of_page}{PAGE}"));
        let response = say(address, &words).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        let allowed = format!("access-control-allow-origin: {PAGE}\r\n");
        assert!(response.contains(&allowed), "{response}");
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn p10_probes_respond_while_callers_do_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let settings =
        [("DULY_SERVER__REQUEST_MEMORY_MAX", "2MiB"), ("DULY_SERVER__ADMIN_LISTEN", "127.0.0.1:0")];
    let running = serve(directory.path(), &settings).await;
    let address = running.addr();
    let mut held = Vec::new();
    // Until the memory of the service's own responses is full, with large ones first.
    for path in ["/openapi.json", "/metrics"] {
        loop {
            let (answers, refused) = memory::unread(address, || {
                let request = http::Request::get(format!("http://{address}{path}"));
                request.body(Full::default()).unwrap()
            })
            .await;
            assert_eq!(refused, 429);
            if answers.is_empty() {
                break;
            }
            held.push(answers);
        }
    }
    assert_eq!(get(address, "/metrics").await, 429, "the memory is full");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get(address, path).await, 200, "{path}");
    }
    let admin = running.report().admin_listen.as_ref().and_then(Address::tcp).unwrap();
    for path in PROBES {
        assert_eq!(get(admin, path).await, 200, "{path}");
    }
    drop(held);
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_admin_address_answers_probes_only() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[("DULY_SERVER__ADMIN_LISTEN", "127.0.0.1:0")]).await;
    let admin = running.report().admin_listen.as_ref().and_then(Address::tcp).unwrap();
    for _ in 0..200 {
        // A connection that stays open keeps no probe out.
        std::mem::forget(TcpStream::connect(admin).await.unwrap());
    }
    for path in PROBES {
        assert_eq!(get(admin, path).await, 200, "{path}");
    }
    let (status, problem) = call(admin, "GET /v1/namespaces", "").await;
    assert_eq!(status, 404);
    assert!(problem["detail"].as_str().unwrap().contains("server.listen"), "{problem}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn health_checks_of_http_1_0_need_no_host() {
    let directory = tempfile::tempdir().unwrap();
    let running = serve(directory.path(), &[]).await;
    let address = running.addr();
    for path in PROBES {
        let answer = say(address, &format!("GET {path} HTTP/1.0\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.0 200"), "{path}: {answer}");
    }
    for request in [
        "GET /v1/namespaces HTTP/1.0\r\n\r\n",
        "GET /healthz HTTP/1.0\r\nhost: evil.example\r\n\r\n",
        "GET /healthz HTTP/1.0\r\norigin: http://evil.example\r\n\r\n",
        "GET /healthz HTTP/1.0\r\nduly-loop: 1\r\n\r\n",
    ] {
        let answer = say(address, request).await;
        assert!(answer.starts_with("HTTP/1.0 4"), "{request}: {answer}");
    }
    running.stop().await.unwrap();
}
