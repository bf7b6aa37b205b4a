//! Preflight requests of browsers: they show no key, and are answered on every connection, however many they are.

use futures::future::join_all;

use super::*;

/// More than a connection without a key may have of other calls.
const AT_ONCE: usize = 100;

impl Server {
    fn preflight(&self) -> Request<Full<Bytes>> {
        Request::builder()
            .method(Method::OPTIONS)
            .uri(format!("http://{}/v1/namespaces/a/timers", self.address))
            .header("host", self.address.to_string())
            .header("origin", ORIGIN)
            .header("access-control-request-method", "POST")
            .body(Full::default())
            .unwrap()
    }

    /// Makes this many preflight requests at once: on one connection, or each of HTTP/1.1 on its own.
    async fn preflights(&self, version: Version, count: usize) {
        let responses: Vec<_> = if version == Version::HTTP_2 {
            let io = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            let calls = (0..count).map(|_| sender.clone().send_request(self.preflight()));
            join_all(calls).await.into_iter().map(Result::unwrap).collect()
        } else {
            join_all((0..count).map(|_| self.http(version, self.preflight()))).await
        };
        for response in responses {
            assert_eq!(response.status(), 204, "{version:?}");
            let headers = response.headers();
            assert_eq!(headers["access-control-allow-origin"], ORIGIN);
            assert_eq!(headers["access-control-allow-methods"], "GET, HEAD, POST");
        }
    }
}

#[tokio::test]
async fn preflights_are_answered_before_any_key() {
    let directory = tempfile::tempdir().unwrap();
    let settings = [("DULY_SERVER__ALLOWED_ORIGINS", ORIGIN)];
    let (running, server) = Server::start_with(directory.path(), "1", &settings).await;
    let call = Call::new("who am I", "GET /v1/whoami", "");
    let bad = |version| server.http_result(version, &call, Some("none"), PLAIN);
    for (version, count) in [(Version::HTTP_11, 12), (Version::HTTP_2, AT_ONCE)] {
        server.preflights(version, count).await;
    }
    assert_eq!(bad(Version::HTTP_11).await, "401 unauthenticated", "they are no failures");
    let limited = async { while bad(Version::HTTP_11).await != "429 resource_exhausted" {} };
    tokio::time::timeout(attack::PATIENCE, limited).await.expect("failures are counted");
    for (version, count) in [(Version::HTTP_11, 12), (Version::HTTP_2, AT_ONCE)] {
        server.preflights(version, count).await;
    }
    running.stop().await.unwrap();
}
