//! TLS: both protocols on one port, unfinished handshakes, old versions.

use std::{fs, sync::Arc};

use duly_api::v1::{GetClusterRequest, cluster_client::ClusterClient};
use duly_core::{
    Timestamp,
    access::{ApiKey, KeyId, NamespacePattern, PresentedKey, Role, Subject},
};
use duly_store_embedded::{
    EmbeddedStore,
    access_file::{self, AccessChange, ChangeOrigin},
};
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName},
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
        Self::start_in(tempfile::tempdir().unwrap(), settings).await
    }

    /// Starts a server on the directory `data` in a directory.
    async fn start_in(directory: tempfile::TempDir, settings: &[(&str, &str)]) -> Self {
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
        self.connect_with(version, protocols, None).await
    }

    /// The same as a client with a certificate.
    async fn connect_with(
        &self,
        version: &'static SupportedProtocolVersion,
        protocols: &[&[u8]],
        own: Option<&(CertificateDer<'static>, rcgen::KeyPair)>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivatePkcs8KeyDer::from(key.serialize_der());
                builder.with_client_auth_cert(vec![certificate.clone()], key.into()).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        let stream = TcpStream::connect(self.running.addr()).await?;
        let name = ServerName::from(self.running.addr().ip());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn health(&self, version: &'static SupportedProtocolVersion) -> std::io::Result<String> {
        self.get(version, "GET /healthz", None).await
    }

    /// Makes a call as a client with a certificate.
    async fn get(
        &self,
        version: &'static SupportedProtocolVersion,
        call: &str,
        own: Option<&(CertificateDer<'static>, rcgen::KeyPair)>,
    ) -> std::io::Result<String> {
        let mut stream = self.connect_with(version, &[b"http/1.1"], own).await?;
        stream.write_all(head(self.running.addr(), call, 0).as_bytes()).await?;
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
async fn plain_http_gets_a_400_with_the_cure() {
    let server = Secure::start(&[]).await;
    let long = format!("POST / HTTP/1.1\r\nhost: a\r\n\r\n{}", "x".repeat(10_000));
    for request in ["GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(server.running.addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{text}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(
            (&problem["code"], &problem["status"]),
            (&"invalid_argument".into(), &400.into())
        );
        assert!(problem["detail"].as_str().unwrap().contains("write https://"), "{text}");
    }
    assert!(server.health(&TLS13).await.unwrap().starts_with("HTTP/1.1 200"));
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

/// An authority of the certificates of callers.
struct Authority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: rcgen::Issuer::new(params, key), pem }
    }

    /// Issues a certificate for a URI, which ends in this year.
    fn issue(&self, uri: &str, end: i32) -> (CertificateDer<'static>, rcgen::KeyPair) {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![rcgen::SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(end, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.der().clone(), key)
    }
}

#[tokio::test]
async fn certificates_hold_the_keys_of_their_subjects() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let clock = Arc::new(duly_store_embedded::SystemClock);
    EmbeddedStore::open_dir(&data, duly_store_embedded::Options::default(), clock).unwrap().close();
    let presented = PresentedKey::new(KeyId::generate([1; 10]), [1; 32]);
    let uri = "spiffe://example.org/orders";
    let subject = Some(Subject::new(&format!("cert:{uri}")).unwrap());
    let rights = (Role::Producer.actions(), vec![NamespacePattern::all()]);
    let created = (Timestamp::MIN, "offline".to_owned());
    let key = ApiKey::new(&presented, "orders".to_owned(), rights, created).with_subject(subject);
    let put = AccessChange::Put(Box::new(key));
    access_file::edit(&data, |records| records.changed(put, ChangeOrigin::Offline, Timestamp::MIN))
        .unwrap();
    let (authority, other) = (Authority::new(), Authority::new());
    let ca = directory.path().join("ca.pem");
    fs::write(&ca, &authority.pem).unwrap();
    let settings =
        [("DULY_AUTH__MODE", "mtls"), ("DULY_TLS__CLIENT_CA_FILE", ca.to_str().unwrap())];
    let server = Secure::start_in(directory, &settings).await;
    for version in [&TLS12, &TLS13] {
        let whoami = async |own: Option<(CertificateDer<'static>, rcgen::KeyPair)>| {
            server.get(version, "GET /v1/whoami", own.as_ref()).await
        };
        let good = whoami(Some(authority.issue(uri, 2100))).await.unwrap();
        assert!(good.starts_with("HTTP/1.1 200") && good.contains(uri), "{good}");
        let unknown = whoami(Some(authority.issue("spiffe://example.org/x", 2100))).await.unwrap();
        assert!(unknown.starts_with("HTTP/1.1 401"), "{unknown}");
        whoami(None).await.expect_err("a certificate is the only proof");
        for refused in [authority.issue(uri, 2001), other.issue(uri, 2100)] {
            whoami(Some(refused)).await.unwrap_err();
        }
    }
}
