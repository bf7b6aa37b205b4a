//! The checks of a server with faults: a tenant at its connections, an audit log that cannot be written, no
//! connection left but those for probes, an address that has failed too often, and a stop that waits for calls under
//! way.

use std::os::fd::AsRawFd as _;

use duly_server::Address;
use hyper::client::conn::http2::SendRequest;
use indexmap::IndexMap;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    task::yield_now,
    time::timeout,
};

use super::*;
use crate::attack::PATIENCE;

/// Connections of the server at once.
const CONNECTIONS_MAX: usize = 16;
/// The change that passes without a line in the audit log.
const REVOCATION: &str = r#"{"disabled":true}"#;

/// The protocols of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocols {
    All,
    /// All, and the address of the caller may fail no more.
    AllPastFailures,
    Http1,
}

impl Server {
    /// Makes changes until the server refuses them.
    async fn until_unwritable(&self) {
        let call = Call::new("put namespace", "PUT /v1/namespaces/first", "{}");
        let root = Some(self.root.as_str());
        let waited = timeout(PATIENCE, async {
            while self.http_result(Version::HTTP_11, &call, root, PLAIN).await != "503 unavailable"
            {
                yield_now().await;
            }
        });
        waited.await.expect("the failure is noticed");
    }

    /// Returns a connection that counts as one of the tenant of a key.
    async fn connection_of(&self, key: &str) -> SendRequest<Full<Bytes>> {
        let io = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get(format!("http://{}/v1/namespaces", self.address))
            .header("authorization", format!("Bearer {key}"));
        let response = sender.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 200);
        sender
    }

    /// Begins to disable a key; returns the connection, whose body does not come, or `None` if the server has no
    /// connection for that.
    async fn busy(&self, key: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let words = format!(
            "PATCH /v1/keys/{key} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
            self.address,
            self.root,
            REVOCATION.len(),
        );
        stream.write_all(words.as_bytes()).await.unwrap();
        let mut begun = [0; 12];
        timeout(PATIENCE, stream.read_exact(&mut begun)).await.unwrap().unwrap();
        match &begun {
            b"HTTP/1.1 100" => Some(stream),
            b"HTTP/1.1 503" => None,
            _ => panic!("{}", String::from_utf8_lossy(&begun)),
        }
    }

    /// Returns the result of a case on each front.
    async fn results(
        &self,
        call: &Call,
        secret: Option<&str>,
        extra: Extra,
        protocols: Protocols,
    ) -> String {
        let first = self.http_result(Version::HTTP_11, call, secret, extra).await;
        let (mut second, mut grpc) = ("-".to_owned(), "-".to_owned());
        if protocols != Protocols::Http1 {
            second = self.http_result(Version::HTTP_2, call, secret, extra).await;
            grpc = self.grpc_result(call, secret, extra).await;
        }
        let result = [first, second, grpc].join(" | ");
        if protocols == Protocols::AllPastFailures && result.to_lowercase().contains("unauth") {
            // The address had one more failure a second later. Now it has none again.
            return Box::pin(self.results(call, secret, extra, protocols)).await;
        }
        result
    }

    /// Writes the result of each case into a table.
    async fn write_to(&self, table: &mut String, state: &str, protocols: Protocols) {
        let names = ["schedule", "get", "health", "metrics", "contract", "unknown path"];
        let peculiar =
            ["foreign origin", "coded body", "unknown query", "coded body, unknown query"];
        let mut extras = extras();
        extras.retain(|extra| peculiar.contains(&extra.name));
        extras.insert(0, PLAIN);
        for call in calls().iter().filter(|call| names.contains(&call.name)) {
            for extra in &extras {
                // The keys of each result.
                let mut results: IndexMap<_, Vec<_>> = IndexMap::new();
                for (key, secret) in &self.keys {
                    let secret = secret.as_deref();
                    let result = self.results(call, secret, *extra, protocols).await;
                    results.entry(result).or_default().push(*key);
                }
                for (result, keys) in results {
                    let of = if keys.len() == self.keys.len() {
                        "all".to_owned()
                    } else {
                        keys.join(", ")
                    };
                    writeln!(table, "{state} | {} | {} | {result} | {of}", call.name, extra.name)
                        .unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn servers_with_faults_check_in_the_same_order() {
    let directory = tempfile::tempdir().unwrap();
    // A pipe, which cannot be written once it has no reader.
    let (reader, writer) = std::io::pipe().unwrap();
    let (file, most) =
        (format!("/proc/self/fd/{}", writer.as_raw_fd()), CONNECTIONS_MAX.to_string());
    let settings = [
        ("DULY_AUDIT__FILE", &*file),
        ("DULY_AUDIT__REQUIRED", "true"),
        ("DULY_SERVER__ADMIN_LISTEN", "127.0.0.1:0"),
        ("DULY_SERVER__CONNECTIONS_MAX", &most),
        ("DULY_SERVER__CONNECTIONS_PER_ADDRESS_MAX", &most),
        // No wait of the test is cut off on a slow machine.
        ("DULY_SERVER__HEADER_TIMEOUT", "10m"),
        ("DULY_SERVER__REQUEST_TIMEOUT", "10m"),
        ("DULY_DRAIN__TIMEOUT", "10m"),
    ];
    let (running, mut server) = Server::start(directory.path(), &settings).await;
    let acme = json!({ "namespaces": ["t*"], "limits": { "max_connections": 1 } });
    server.set_up("PUT /v1/tenants/acme", &acme).await;
    server.add_key("viewer of tenant", "viewer", "t*").await;
    server.add_key("producer of tenant", "producer", "t*").await;
    let of_tenant = server.keys.last().and_then(|(_, secret)| secret.clone()).unwrap();
    let revoked = server.add_key("revoked", "viewer", "a").await;
    server.keys.pop();
    let mut table = String::from("state | call | peculiarity | HTTP/1.1 | HTTP/2 | gRPC | keys\n");

    drop(reader);
    server.until_unwritable().await;
    let held = server.connection_of(&of_tenant).await;
    let state = "audit unwritable, tenant at its connections";
    server.write_to(&mut table, state, Protocols::All).await;
    drop(held);
    let admin = running.report().admin_listen.as_ref().and_then(Address::tcp).unwrap();
    let main = std::mem::replace(&mut server.address, admin);
    server.write_to(&mut table, "audit unwritable, admin listener", Protocols::Http1).await;

    server.address = main;
    let mut busy = Vec::new();
    let filled = timeout(PATIENCE, async {
        while busy.len() < CONNECTIONS_MAX {
            // A connection that has just ended may have its place still.
            match server.busy(revoked.as_str().unwrap()).await {
                Some(stream) => busy.push(stream),
                None => yield_now().await,
            }
        }
    });
    filled.await.expect("every connection is busy");
    server.write_to(&mut table, "audit unwritable, reserve", Protocols::Http1).await;

    let stopped = tokio::spawn(running.stop());
    let refused = timeout(PATIENCE, async {
        while TcpStream::connect(main).await.is_ok() {
            yield_now().await;
        }
    });
    refused.await.expect("no connection is accepted");
    server.address = admin;
    server.write_to(&mut table, "stopping, admin listener", Protocols::Http1).await;
    for mut stream in busy {
        stream.write_all(REVOCATION.as_bytes()).await.unwrap();
        let mut text = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut text)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("HTTP/1.1 200"), "a call under way has its response: {text}");
    }
    stopped.await.unwrap().unwrap();

    let directory = tempfile::tempdir().unwrap();
    let (running, server) = Server::start_with(directory.path(), "1", &[]).await;
    let fails = Call::new("list namespaces", "GET /v1/namespaces", "");
    while server.http_result(Version::HTTP_11, &fails, Some("none"), PLAIN).await
        != "429 resource_exhausted"
    {}
    let state = "address past its failures";
    server.write_to(&mut table, state, Protocols::AllPastFailures).await;
    running.stop().await.unwrap();
    compare(&table, "admission_states.txt");
}
