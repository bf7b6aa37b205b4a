//! TLS and HTTP/2: trusted authorities, protocols, and shared connections.

use std::{env, fs, path::PathBuf};

use ::http::Version;
use futures::future::join_all;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use super::{
    options::{ClientFiles, TlsFiles},
    receiver::STREAMS_MAX,
    *,
};

/// A certificate authority of the test, and the files of its certificates.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    folder: tempfile::TempDir,
}

impl Authority {
    pub(super) fn new() -> Self {
        Self::called("authority")
    }

    fn called(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let certificate = certificate.der().clone();
        Self { issuer: Issuer::new(params, key), certificate, folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a certificate and writes it and its key to files: `<name>.pem`, `<name>.key`.
    fn make_out(&self, name: &str, usage: ExtendedKeyUsagePurpose) {
        self.make_out_until(name, usage, 4096);
    }

    /// Issues one that ends with the begin of a year.
    fn make_out_until(&self, name: &str, usage: ExtendedKeyUsagePurpose, year: i32) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    /// Returns the configuration of a server called `name`.
    fn server(&self, name: &str, protocols: &[&[u8]], clients: Clients) -> ServerConfig {
        self.make_out(name, ExtendedKeyUsagePurpose::ServerAuth);
        let chain = CertificateDer::from_pem_file(self.file(&format!("{name}.pem"))).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.file(&format!("{name}.key"))).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            Clients::Any => builder.with_no_client_auth(),
            Clients::Known => {
                let mut roots = RootCertStore::empty();
                roots.add(self.certificate.clone()).unwrap();
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder.with_single_cert(vec![chain], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        config
    }

    /// Returns the configuration of a server that sends a certificate of its own, and others behind it.
    fn server_of(
        &self,
        params: &CertificateParams,
        others: Vec<CertificateDer<'static>>,
    ) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert([vec![own], others].concat(), key)
            .unwrap()
    }

    /// Creates a sink that trusts the authority and may connect to loopback.
    pub(super) fn sink(&self, set: impl FnOnce(&mut Options)) -> HttpSink {
        sink_with(|options| {
            options.tls.ca = Some(self.file("ca.pem"));
            set(options);
        })
    }

    /// Returns the configuration of a server `localhost` that speaks HTTP/2.
    pub(super) fn http2_server(&self) -> ServerConfig {
        self.server("localhost", &[b"h2"], Clients::Any)
    }

    /// Starts a correct receiver `localhost` with these protocols, and a sink for it.
    pub(super) async fn web(&self, protocols: &[&[u8]], set: impl FnOnce(&mut Options)) -> Web {
        let config = self.server("localhost", protocols, Clients::Any);
        Web::start_tls(config, self.sink(set)).await
    }
}

/// The clients that a server accepts.
#[derive(Clone, Copy)]
enum Clients {
    Any,
    Known,
}

#[tokio::test]
async fn conforms_over_http_2() {
    let authority = Authority::new();
    let web = authority.web(&[b"h2"], |_| {}).await;
    conformance::all(&web).await;
    assert!(web.versions().iter().all(|version| *version == Version::HTTP_2));
}

#[tokio::test]
async fn conforms_over_tls_with_http_1_1() {
    let authority = Authority::new();
    let web = authority.web(&[b"http/1.1"], |_| {}).await;
    conformance::all(&web).await;
    assert!(web.versions().iter().all(|version| *version == Version::HTTP_11));
}

#[tokio::test]
async fn an_http_2_connection_is_shared_up_to_the_stream_limit() {
    let authority = Authority::new();
    let web = authority.web(&[b"h2", b"http/1.1"], |_| {}).await;
    let deliver = || web.sink().deliver(envelope(web.destination(), b"x"));
    for delivery in join_all((0..STREAMS_MAX).map(|_| deliver())).await {
        assert_eq!(delivery, Delivery::Confirmed);
    }
    assert_eq!(web.connections(), 1, "those that came first waited for the first connection");
    assert!(web.versions().iter().all(|version| *version == Version::HTTP_2));
    // Twice as many as one connection carries need a second one.
    web.behave(Behaviour::Hang);
    let mut slow = web.destination();
    slow.timeout = Millis::from_ms(500);
    let hanging = (0..2 * STREAMS_MAX).map(|_| web.sink().deliver(envelope(slow.clone(), b"x")));
    for delivery in join_all(hanging).await {
        assert_eq!(delivery.outcome(), AttemptOutcome::TimedOut, "{delivery:?}");
    }
    assert_eq!(web.arrivals().await.len(), 3 * STREAMS_MAX as usize);
    assert!(web.connections() >= 2, "{} connections", web.connections());
    // A connection that timed out is not used again.
    let (before, kept) = (web.connections(), web.http_sink().pool.kept());
    assert_eq!(kept, 0);
    web.behave(Behaviour::Confirm);
    assert_eq!(deliver().await, Delivery::Confirmed);
    assert_eq!(web.connections(), before + 1);
}

#[tokio::test]
async fn idle_http_2_connections_are_bounded_and_closed_in_time() {
    let authority = Authority::new();
    let idle = Duration::from_millis(50);
    let web = authority.web(&[b"h2"], |options| options.timeouts.idle = idle).await;
    let delivery = web.sink().deliver(envelope(web.destination(), b"x")).await;
    assert_eq!(delivery, Delivery::Confirmed);
    until("the idle connection is closed", || web.http_sink().pool.kept() == 0).await;
    assert_eq!(web.http_sink().pool.origins(), 0);
}

#[tokio::test]
async fn a_receiver_whose_certificate_is_not_good_gets_nothing() {
    let (known, stranger) = (Authority::called("known"), Authority::called("stranger"));
    let check = async |config, expected: &str| {
        let web = Web::start_tls(config, known.sink(|_| {})).await;
        let delivery = web.sink().deliver(envelope(web.destination(), b"x")).await;
        assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
        assert!(reason(&delivery).contains(expected), "{delivery:?}");
        assert!(web.arrivals().await.is_empty());
        assert_eq!(web.http_sink().pool.origins(), 0, "nothing is remembered of it");
    };
    check(stranger.server("localhost", &[b"h2"], Clients::Any), "webhook.ca_file").await;
    check(known.server("other.example", &[b"h2"], Clients::Any), "not valid for name").await;
}

/// The destination of the sink in its own process, and an extra file of authorities.
const TO: &str = "DULY_TEST_DELIVER_TO";
const CA_FILE: &str = "DULY_TEST_CA_FILE";

#[tokio::test]
async fn system_and_extra_authorities_are_trusted() {
    // The system's authorities are found through the environment of the process. So this test runs
    // itself again, once for each environment.
    if let Ok(to) = env::var(TO) {
        let sink = sink_with(|options| options.tls.ca = env::var_os(CA_FILE).map(PathBuf::from));
        let delivery = sink.deliver(envelope(HttpDestination::new(&to).unwrap(), b"x")).await;
        assert_eq!(delivery, Delivery::Confirmed);
        return;
    }
    let (known, stranger) = (Authority::called("known"), Authority::called("stranger"));
    let web = known.web(&[b"h2"], |_| {}).await;
    let to = format!("{}/", web.destination().origin());
    let deliver = async |system: PathBuf, extra: Option<PathBuf>| {
        let this = "http::tests::tls::system_and_extra_authorities_are_trusted";
        let mut child = tokio::process::Command::new(env::current_exe().unwrap());
        child.args(["--exact", this, "--nocapture"]).env(TO, &to).env("SSL_CERT_FILE", system);
        child.env_remove("SSL_CERT_DIR").envs(extra.map(|file| (CA_FILE, file)));
        let done = child.output().await.unwrap();
        let said = [done.stdout, done.stderr].map(|it| String::from_utf8(it).unwrap()).concat();
        assert!(
            said.contains("1 passed") || said.contains("1 failed"),
            "{this} is not run: {said}"
        );
        (done.status.success(), web.arrivals().await.len(), said)
    };
    let (own, other) = (|| known.file("ca.pem"), || stranger.file("ca.pem"));
    for (system, extra) in [(own(), None), (own(), Some(other())), (other(), Some(own()))] {
        let (confirmed, arrived, said) = deliver(system, extra).await;
        assert_eq!((confirmed, arrived), (true, 1), "{said}");
    }
    for system in [other(), known.file("missing.pem")] {
        let (confirmed, arrived, said) = deliver(system, None).await;
        assert_eq!((confirmed, arrived), (false, 0), "{said}");
        let told = ["NotConnected", "invalid peer certificate", "webhook.ca_file"];
        assert!(told.iter().all(|part| said.contains(part)), "{said}");
    }
}

/// A receiver decides how many certificates it sends; the search for a path among 120 took seconds of a thread that also
/// serves timers and calls.
#[tokio::test]
async fn p10_a_long_chain_of_certificates_is_refused_at_once() {
    let authority = Authority::new();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let others = (0..120).map(|_| Authority::new().certificate).collect();
    let web = Web::start_tls(authority.server_of(&params, others), authority.sink(|_| {})).await;
    let began = std::time::Instant::now();
    let delivery = web.sink().deliver(envelope(web.destination(), b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    let told = reason(&delivery);
    assert!(told.contains("the peer sent 121 certificates"), "{told}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn s4_a_certificate_with_many_names_gives_a_short_reason() {
    let authority = Authority::new();
    let mut params = CertificateParams::new(
        (0..300).map(|n| format!("a-rather-long-name-{n}.example")).collect::<Vec<_>>(),
    )
    .unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let web =
        Web::start_tls(authority.server_of(&params, Vec::new()), authority.sink(|_| {})).await;
    let delivery = web.sink().deliver(envelope(web.destination(), b"x")).await;
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    let told = reason(&delivery);
    assert!(told.contains("not valid for name") && told.len() < 1500, "{}: {told}", told.len());
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_said_to_be_that() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let speak = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream.read_u8().await.ok();
    };
    let to = HttpDestination::new(&format!("https://127.0.0.1:{port}/")).unwrap();
    let sink = sink();
    let (delivery, ()) = tokio::join!(sink.deliver(envelope(to, b"x")), speak);
    assert_eq!(delivery.outcome(), AttemptOutcome::NotConnected, "{delivery:?}");
    assert!(reason(&delivery).contains("does the receiver speak TLS"), "{delivery:?}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_by_named_namespaces_alone() {
    let authority = Authority::new();
    authority.make_out("duly", ExtendedKeyUsagePurpose::ClientAuth);
    for protocols in [&[&b"http/1.1"[..]][..], &[b"h2"]] {
        let config = authority.server("localhost", protocols, Clients::Known);
        let client = ClientFiles {
            certificate: authority.file("duly.pem"),
            key: authority.file("duly.key"),
            namespaces: vec![NamespacePattern::new("own-*").unwrap()],
        };
        let web = Web::start_tls(config, authority.sink(|o| o.tls.client = Some(client))).await;
        // A connection or a session of the namespace before is of no use to the next one.
        for (namespace, is_shown) in
            [("own-a", true), ("other", false), ("own-b", true), ("own-b", true), ("other", false)]
        {
            let mut sent = envelope(web.destination(), b"x");
            sent.namespace = NamespaceName::new(namespace).unwrap();
            let delivery = web.sink().deliver(sent).await;
            assert_eq!(delivery == Delivery::Confirmed, is_shown, "{namespace}: {delivery:?}");
        }
        assert_eq!(web.arrivals().await.len(), 3);
    }
}

#[tokio::test]
async fn changed_files_are_used_for_new_connections() {
    let (old, new) = (Authority::called("old"), Authority::called("new"));
    let config = new.server("localhost", &[b"http/1.1"], Clients::Any);
    let web = Web::start_tls(config, old.sink(|_| {})).await;
    let send = async || web.sink().deliver(envelope(web.destination(), b"x")).await;
    let sink = web.http_sink();
    assert!(!sink.reload().unwrap(), "nothing has changed");
    assert_eq!(send().await.outcome(), AttemptOutcome::NotConnected);
    // A file that is not whole yet leaves the present authorities in use.
    fs::write(old.file("ca.pem"), "-----BEGIN CERT").unwrap();
    assert!(sink.reload().unwrap_err().to_string().contains("ca.pem"));
    fs::copy(new.file("ca.pem"), old.file("ca.pem")).unwrap();
    assert!(sink.reload().unwrap());
    assert_eq!(send().await, Delivery::Confirmed);
    assert!(!sink.reload().unwrap());
}

#[tokio::test]
async fn an_ended_client_certificate_does_not_replace_a_good_one() {
    let authority = Authority::new();
    let usage = ExtendedKeyUsagePurpose::ClientAuth;
    authority.make_out("duly", usage.clone());
    let config = authority.server("localhost", &[b"http/1.1"], Clients::Known);
    let client = ClientFiles {
        certificate: authority.file("duly.pem"),
        key: authority.file("duly.key"),
        namespaces: vec![NamespacePattern::new("*").unwrap()],
    };
    let web = Web::start_tls(config, authority.sink(|o| o.tls.client = Some(client))).await;
    let sink = web.http_sink();
    for (ends, reloaded) in [(2020, Err("ended at 2020-01-01")), (2090, Ok(true)), (2090, Ok(true))]
    {
        authority.make_out_until("duly", usage.clone(), ends);
        let answer = sink.reload().map_err(|error| error.to_string());
        match (&answer, reloaded) {
            (Err(answer), Err(expected)) => assert!(answer.contains(expected), "{answer}"),
            _ => assert_eq!(answer.ok(), reloaded.ok()),
        }
        let delivery = web.sink().deliver(envelope(web.destination(), b"x")).await;
        assert_eq!(delivery, Delivery::Confirmed, "{ends}");
    }
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_what_is_wrong() {
    let authority = Authority::new();
    for name in ["a", "b"] {
        authority.make_out(name, ExtendedKeyUsagePurpose::ClientAuth);
    }
    fs::write(authority.file("empty.pem"), "nothing\n").unwrap();
    let check = |tls: TlsFiles, parts: [&str; 2]| {
        let options = Options { tls, ..Options::default() };
        let error = HttpSink::new(options, Arc::new(SystemWall)).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    let ca = |name| TlsFiles { ca: Some(authority.file(name)), client: None };
    check(ca("missing.pem"), ["missing.pem", "file of authorities"]);
    check(ca("empty.pem"), ["empty.pem", "BEGIN CERTIFICATE"]);
    let client = |certificate, key| {
        let (certificate, key) = (authority.file(certificate), authority.file(key));
        TlsFiles {
            ca: None,
            client: Some(ClientFiles { certificate, key, namespaces: Vec::new() }),
        }
    };
    check(client("a.pem", "missing.key"), ["missing.key", "no private key"]);
    check(client("empty.pem", "a.key"), ["empty.pem", "client certificate"]);
    check(client("a.pem", "b.key"), ["b.key", "does not match"]);
    let options = Options { tls: client("a.pem", "a.key"), ..Options::default() };
    HttpSink::new(options, Arc::new(SystemWall)).unwrap();
}
