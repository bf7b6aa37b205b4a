//! TLS: both protocols on one port, unfinished handshakes, old versions.

use std::{fs, sync::Arc};

use duly_api::v1::{GetClusterRequest, cluster_client::ClusterClient};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
    version::{TLS12, TLS13},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;

/// A server with a certificate of its own.
struct Secure {
    running: Running,
    certificate: CertificateDer<'static>,
    _directory: tempfile::TempDir,
}

impl Secure {
    async fn start(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (certificate, key) = (path("server.pem"), path("server.key"));
        fs::write(&certificate, made.cert.pem()).unwrap();
        fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let files = [
            ("DULY_TLS__CERTIFICATE_FILE", certificate.as_str()),
            ("DULY_TLS__KEY_FILE", key.as_str()),
        ];
        let settings: Vec<_> = files.iter().chain(settings).copied().collect();
        let running = serve(&directory.path().join("data"), &settings).await;
        Self { running, certificate: made.cert.der().clone(), _directory: directory }
    }

    /// Shakes hands as a client that knows this version and these protocols.
    async fn connect(
        &self,
        version: &'static SupportedProtocolVersion,
        protocols: &[&[u8]],
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.running.addr()).await?;
        let name = ServerName::from(self.running.addr().ip());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn health(&self, version: &'static SupportedProtocolVersion) -> std::io::Result<String> {
        let mut stream = self.connect(version, &[b"http/1.1"]).await?;
        stream.write_all(head(self.running.addr(), "GET /healthz", 0).as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }
}

#[tokio::test]
async fn http_and_grpc_share_a_port_with_tls() {
    let server = Secure::start(&[]).await;
    let health = server.health(&TLS12).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let stream = server.connect(&TLS13, &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_| {
        std::future::ready(stream.take().ok_or_else(|| std::io::Error::other("one connection")))
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connector).await.unwrap();
    let info = ClusterClient::new(channel).get(GetClusterRequest {}).await.unwrap();
    assert!(info.into_inner().ready);
}

#[tokio::test]
async fn p10_unfinished_handshakes_are_closed() {
    let server = Secure::start(&[("DULY_SERVER__HEADER_TIMEOUT", "1s")]).await;
    // Nothing, the first bytes of a handshake, and plain HTTP.
    let said = [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00", b"GET /healthz HTTP/1.1\r\n"];
    let mut unfinished = Vec::new();
    for said in said.into_iter().cycle().take(1_000) {
        // One after the other: the system drops connections that the server has not accepted yet.
        let mut stream = TcpStream::connect(server.running.addr()).await.unwrap();
        stream.write_all(said).await.unwrap();
        unfinished.push(stream);
    }
    let health = server.health(&TLS13).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    futures::future::join_all(unfinished.iter_mut().map(to_the_end)).await;
}

#[tokio::test]
async fn versions_of_tls_below_the_oldest_are_refused() {
    let server = Secure::start(&[("DULY_TLS__MIN_VERSION", "1.3")]).await;
    server.health(&TLS12).await.unwrap_err();
    let health = server.health(&TLS13).await.unwrap();
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
}
